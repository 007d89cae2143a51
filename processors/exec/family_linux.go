package exec

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes flowd the parent of processes whose own has ended, so that it finds those
// that have left their program's group for another session.
var adopt = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// endingFamily is how long is waited for those that were killed.
const endingFamily = time.Second

// endFamily kills what a program that has ended has left behind: processes with its mark in
// their inherited environment, or in its group. Each is a child of this process by now, so
// its number can't be reused until it is waited for here. What it has left behind in turn
// is killed in the next round.
func endFamily(program int, mark string) {
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return // there is nobody
	}
	killed := map[int]bool{} // which have no environment any more
	for deadline := time.Now().Add(endingFamily); ; time.Sleep(time.Millisecond) {
		left := false
		for _, c := range children() {
			if killed[c.pid] || c.group == program || c.marked(mark) {
				c.kill()
				killed[c.pid] = true
				left = true // what it has started is next
				c.reap()
			}
		}
		if !left || time.Now().After(deadline) {
			return
		}
	}
}

// reapFamily waits for processes that a program has started and left to flowd, and that
// have ended while it runs.
func reapFamily(program int) {
	for _, c := range children() {
		if c.ended && c.pid != program && (c.group == program || c.session != session()) {
			c.reap()
		}
	}
}

var session = sync.OnceValue(func() int {
	id, _ := unix.Getsid(0)
	return id
})

// descendant is a process whose parent this one is.
type descendant struct {
	pid, group, session int
	ended               bool
}

// children are all of them.
func children() (all []descendant) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 { // a kernel without them
		return childrenByParent()
	}
	for _, path := range lists {
		text, _ := os.ReadFile(path) // of a thread that has ended
		for pid := range strings.FieldsSeq(string(text)) {
			if c, _, ok := childOf(pid); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

func childrenByParent() (all []descendant) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if c, parent, ok := childOf(e.Name()); ok && parent == os.Getpid() {
			all = append(all, c)
		}
	}
	return all
}

// childOf reads what the system says of a process.
func childOf(name string) (c descendant, parent int, ok bool) {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return c, 0, false
	}
	text, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return c, 0, false
	}
	// PID (NAME) STATE PARENT GROUP SESSION …, and the name may have anything in it.
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(words) < 4 {
		return c, 0, false
	}
	c = descendant{pid: pid, ended: words[0] == "Z"}
	parent, _ = strconv.Atoi(words[1])
	c.group, _ = strconv.Atoi(words[2])
	c.session, _ = strconv.Atoi(words[3])
	return c, parent, true
}

// marked reports whether a mark is in its environment.
func (c descendant) marked(mark string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/environ")
	return err == nil && bytes.Contains(text, []byte(mark))
}

func (c descendant) kill() {
	if !c.ended {
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
	}
}

// reap waits for it, where it has ended.
func (c descendant) reap() { _, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil) }
