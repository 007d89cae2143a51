package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// FileOutput describes an output that writes to one file, for its conformance suites.
type FileOutput struct {
	Make     func(t *testing.T, dir string) engine.Output // not open yet
	Name     string                                       // of its file in dir
	Payloads []string                                     // three or more
	Read     func(t *testing.T, content []byte) []string  // the payloads in a file
}

// Run runs both suites.
func (o FileOutput) Run(t *testing.T) {
	t.Run("open handles", o.Moves)
	t.Run("full disks", o.Fills)
}

// Moves is the conformance suite for files that are renamed, deleted or emptied while an output has them open. Messages that
// the output acknowledges afterwards must be in the file that its path then names.
func (o FileOutput) Moves(t *testing.T) {
	first, rest := o.Payloads[:1], o.Payloads[1:]
	for _, tt := range []struct {
		name string
		does func(dir, file string) error
	}{
		{"renamed", func(_, file string) error { return os.Rename(file, file+".1") }},
		{"deleted", func(_, file string) error { return os.Remove(file) }},
		{"replaced by an empty file", func(_, file string) error {
			return errors.Join(os.Rename(file, file+".1"), os.WriteFile(file, nil, 0o600))
		}},
		{"emptied", func(_, file string) error { return os.Truncate(file, 0) }},
		{"in a folder that is renamed", func(dir, _ string) error { return os.Rename(dir, dir+".1") }},
		{"in a folder that is deleted", func(dir, _ string) error { return os.RemoveAll(dir) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			file := filepath.Join(dir, o.Name)
			out := o.opened(t, dir)
			o.writes(t, out, first)
			if err := tt.does(dir, file); err != nil {
				t.Fatal(err)
			}
			for _, p := range rest {
				o.writes(t, out, []string{p})
			}
			o.wantFile(t, file, rest)
		})
	}
	t.Run("renamed while it is written", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, o.Name)
		out := o.opened(t, dir)
		written := 0
		for round := range 20 {
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() {
				for n := 0; n < 3; {
					if os.Rename(file, fmt.Sprintf("%s.%d-%d", file, round, n)) == nil {
						n++
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
			b := Batch(o.Payloads...)
			err := out.Write(t.Context(), b)
			for _, fate := range WriteFates(b, err) {
				if fate == "safe" {
					written++
				}
			}
			close(stop)
			wg.Wait()
		}
		o.writes(t, out, o.Payloads) // there is a file in the end
		found := 0
		all, err := filepath.Glob(file + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			found += len(o.content(t, path))
		}
		if written += len(o.Payloads); found < written || written < 21*len(o.Payloads) {
			t.Errorf("%d messages were acknowledged, and %d are in the files", written, found)
		}
	})
	t.Run("renamed before a reload", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, o.Name)
		out := o.opened(t, dir)
		reopens, ok := out.(engine.Reopener)
		if !ok {
			t.Fatal("it is not an engine.Reopener")
		}
		o.writes(t, out, first)
		if err := os.Rename(file, file+".1"); err != nil {
			t.Fatal(err)
		}
		reopens.Reopen(t.Context())
		if n := handles(t, file+".1"); n > 0 {
			t.Errorf("%d handles of the renamed file are open", n)
		}
		o.writes(t, out, rest)
		o.wantFile(t, file, rest)
	})
}

// Fills is the conformance suite for disks that become full after any number of bytes. No message is blamed, no record is
// torn, and when there is room again, every message is written once. It runs in a process of its own.
func (o FileOutput) Fills(t *testing.T) {
	InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		for room, all := int64(0), false; !all && !t.Failed(); room++ {
			dir := t.TempDir()
			file := filepath.Join(dir, o.Name)
			out := o.Make(t, dir)
			opened(t, out)
			o.writes(t, out, o.Payloads[:1])
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			safe, left := o.Payloads[:1:1], o.Payloads[1:]
			for try := range 3 { // the second one finds what the first has left
				limit(info.Size() + room)
				if try == 2 {
					limit(-1)
				}
				var failed []string
				b := Batch(left...)
				err := out.Write(t.Context(), b)
				for i, fate := range WriteFates(b, err) {
					if fate == "safe" {
						safe = append(safe, left[i])
					} else {
						failed = append(failed, left[i])
					}
				}
				for m := range b.Ended() {
					if m.Err() != nil && !m.Err().HoldsOutput() {
						t.Errorf("room for %d bytes: the message is to blame: %v", room, m.Err())
					}
				}
				all, left = all || try == 0 && len(failed) == 0, failed
				o.wantFile(t, file, safe)
			}
			closed(t, out)
		}
	})
}

// opened makes an output and opens it.
func (o FileOutput) opened(t *testing.T, dir string) engine.Output {
	t.Helper()
	out := o.Make(t, dir)
	opened(t, out)
	t.Cleanup(func() { closed(t, out) })
	return out
}

func (o FileOutput) writes(t *testing.T, out engine.Output, payloads []string) {
	t.Helper()
	if fates, err := Written(t, out, payloads...); err != nil || slices.Contains(fates, "failed") {
		t.Errorf("writing %q: err %v, fates %v", payloads, err, fates)
	}
}

// content returns the payloads in a file; none if the file does not exist.
func (o FileOutput) content(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return o.Read(t, text)
}

func (o FileOutput) wantFile(t *testing.T, file string, want []string) {
	t.Helper()
	if got := o.content(t, file); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", filepath.Base(file), got, want)
	}
}

// InFullDisk runs f in a process of its own. There, limit limits the size of all files that are written, in bytes, so that
// writes fail as on a full disk; -1 removes the limit.
func InFullDisk(t *testing.T, f func(t *testing.T, limit func(bytes int64))) {
	t.Helper()
	const alone = "FLOWD_TEST_ALONE"
	if os.Getenv(alone) == t.Name() {
		f(t, func(n int64) {
			if err := limitFiles(n); err != nil {
				t.Skipf("NOT TESTED: files can't be limited to %d bytes: %v", n, err)
			}
		})
		return
	}
	var parts []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(parts, "/"))
	cmd.Env = append(os.Environ(), alone+"="+t.Name())
	if text, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(text, []byte("PASS")) {
		t.Errorf("%v\n%s", err, text)
	}
}

// handles is how many descriptors of this process a file has, if the system tells.
func handles(t *testing.T, file string) (n int) {
	t.Helper()
	want, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range all {
		if info, err := os.Stat(fd); err == nil && os.SameFile(info, want) {
			n++
		}
	}
	return n
}
