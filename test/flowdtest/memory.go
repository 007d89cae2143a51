package flowdtest

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Peak returns the peak resident memory of the process so far, minus its current pages of files, in MiB. This is at least
// the peak of its own memory. known is false if the process has exited, or without /proc. (The peak that wait(2) reports
// is no use: it includes the memory of the process that forked this one.)
func (p *Process) Peak() (mib int, known bool) {
	most, file, known := p.memory()
	return (most - file) >> 10, known
}

// memory returns the peak resident memory so far, and the current pages of files, in KiB.
func (p *Process) memory() (most, file int, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, 0, false
	}
	most, hasMost := kib(string(status), "VmHWM:")
	file, hasFile := kib(string(status), "RssFile:")
	return most, file, hasMost && hasFile
}

// Watch samples [Process.Peak] until the process exits, and then sends the largest value. It subtracts the most pages of
// files that it has seen, since an exiting process has unmapped its files but still reports its peak.
func (p *Process) Watch() <-chan int {
	last := make(chan int, 1)
	go func() {
		for peak, files := 0, 0; ; time.Sleep(time.Millisecond) { // sampling interval
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

// Reads returns how many bytes the process has read so far. known is false without /proc.
func (p *Process) Reads() (bytes int64, known bool) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(io), "rchar:")
	_, err = fmt.Sscan(rest, &bytes)
	return bytes, err == nil
}
