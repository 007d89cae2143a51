package flowdtest

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Peak is at least the most memory of its own that the process has had at once so far, in MiB. Pages of the program's
// file that are there now do not count; those that only the start had do, where nothing was larger later. It is not known
// once the process has ended, nor where there is no /proc. (What wait reports begins with the memory of the process that
// it was forked from.)
func (p *Process) Peak() (mib int, known bool) {
	most, file, known := p.memory()
	return (most - file) >> 10, known
}

// memory is the most that the process has had so far, and what it has of files, in KiB.
func (p *Process) memory() (most, file int, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, 0, false
	}
	most, hasMost := kib(string(status), "VmHWM:")
	file, hasFile := kib(string(status), "RssFile:")
	return most, file, hasMost && hasFile
}

// Watch gives the last [Process.Peak] when the process has ended. At its end, a process has its peak still, and its files
// no longer.
func (p *Process) Watch() <-chan int {
	last := make(chan int, 1)
	go func() {
		for peak, files := 0, 0; ; time.Sleep(time.Millisecond) { // between two looks; nothing waits for it
			most, file, known := p.memory()
			if !known {
				last <- peak
				return
			}
			files = max(files, file)
			peak = max(peak, (most-files)>>10)
		}
	}()
	return last
}

func kib(status, field string) (n int, found bool) {
	_, rest, found := strings.Cut(status, field)
	if !found {
		return 0, false
	}
	_, err := fmt.Sscan(rest, &n)
	return n, err == nil
}

// Reads is how many bytes the process has read so far; known is false where there is no /proc.
func (p *Process) Reads() (bytes int64, known bool) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(io), "rchar:")
	_, err = fmt.Sscan(rest, &bytes)
	return bytes, err == nil
}
