//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const shared = "flowd-shared-" // what the names of files begin with

// parent is the go command that runs this test binary; it is found on Linux only.
func parent(name string) Keep {
	k := Keep{pid: os.Getppid()}
	command, since := process(k.pid)
	if command != "go" {
		return Keep{}
	}
	sweep()
	k.since, k.file = since, filepath.Join(os.TempDir(), fmt.Sprintf(shared+"%d-%s-%s", k.pid, since, name))
	return k
}

// process is the name of a process and when it was started, "" if it is gone.
func process(pid int) (command, since string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	_, rest, _ := strings.Cut(string(stat), "(")
	i := strings.LastIndex(rest, ") ")
	if i < 0 {
		return "", ""
	}
	fields := strings.Fields(rest[i+2:])
	if len(fields) < 20 || fields[0] == "Z" {
		return "", ""
	}
	return rest[:i], fields[19]
}

// sweep removes files that were left behind because a binary was killed before it had started the server.
func sweep() {
	files, _ := filepath.Glob(filepath.Join(os.TempDir(), shared+"*"))
	for _, f := range files {
		var pid int
		var since string
		if _, err := fmt.Sscanf(strings.ReplaceAll(filepath.Base(f), "-", " "), "flowd shared %d %s", &pid, &since); err != nil {
			continue
		}
		if _, now := process(pid); now != since {
			_ = os.Remove(f)
		}
	}
}

// lock makes a file, or waits until no one else has it.
func lock(path string) (*os.File, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		// A keeper, or a binary that could not start the server, may have removed it meanwhile.
		mine, _ := f.Stat()
		if now, statErr := os.Stat(path); err == nil && statErr == nil && os.SameFile(mine, now) {
			return f, nil
		}
		f.Close()
	}
}

// open makes a file or opens that of another binary. Not both in one call: Linux refuses that for a file of nobody's.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		return f, give(path) // its remover is the keeper
	case errors.Is(err, os.ErrExist):
		if f, err = os.OpenFile(path, os.O_RDWR, 0); errors.Is(err, os.ErrNotExist) {
			return open(path)
		}
	}
	return f, err
}
