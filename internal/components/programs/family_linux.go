package programs

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

// adopt makes flowd the parent of orphaned descendants, so that it finds processes that have left their program's
// group for another session.
var adopt = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// endingFamily is how long EndFamily waits for killed processes.
const endingFamily = time.Second

// EndFamily kills the processes that an ended program, with a pid, has left behind: those with its mark in their inherited
// environment, or in its group. It does nothing on systems other than Linux.
//
// Each is a child of flowd by now, so its pid can't be reused before flowd waits for it. Its own children are killed in the
// next round.
func EndFamily(program int, mark string) {
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		return // no children
	}
	killed := map[int]bool{} // killed processes no longer have an environment
	for deadline := time.Now().Add(endingFamily); ; time.Sleep(time.Millisecond) {
		left := false
		for _, c := range children() {
			if killed[c.pid] || c.group == program || c.marked(mark) {
				c.kill()
				killed[c.pid] = true
				left = true // its children follow in the next round
				c.reap()
			}
		}
		if !left || time.Now().After(deadline) {
			return
		}
	}
}

// ReapFamily waits for ended processes that a running program, with a pid, has started and left to flowd. It does nothing
// on systems other than Linux.
func ReapFamily(program int) {
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

// descendant is a child process of flowd.
type descendant struct {
	pid, group, session int
	ended               bool
}

// children returns all child processes of flowd.
func children() (all []descendant) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 { // the kernel does not list children
		return childrenByParent()
	}
	for _, path := range lists {
		text, _ := os.ReadFile(path) // fails if the thread has ended
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

// childOf reads the status of a process.
func childOf(name string) (c descendant, parent int, ok bool) {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return c, 0, false
	}
	text, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return c, 0, false
	}
	// PID (NAME) STATE PARENT GROUP SESSION …, where NAME may contain anything.
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

// marked reports whether the process has a mark in its environment.
func (c descendant) marked(mark string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/environ")
	return err == nil && bytes.Contains(text, []byte(mark))
}

func (c descendant) kill() {
	if !c.ended {
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
	}
}

// reap waits for the process if it has ended.
func (c descendant) reap() { _, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil) }
