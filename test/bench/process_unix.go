//go:build unix

package main

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxRSS returns the peak of resident memory of an exited process, in bytes.
func maxRSS(s *os.ProcessState) int64 {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss) // in bytes on macOS, in KiB elsewhere
	}
	return int64(u.Maxrss) << 10
}

// anonymous returns the anonymous memory of a process, in bytes. Pages of files are left out,
// since the kernel can drop them. It returns 0 on systems other than Linux.
func anonymous(pid string) int64 { return status(pid, "RssAnon:") }

func status(pid, field string) int64 {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(text, []byte(field))
	if !found {
		return 0
	}
	kib, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	return kib << 10
}

// cpuOf returns the CPU time of a process, in steps of 10 ms. It returns 0 on systems other than Linux.
func cpuOf(pid string) time.Duration {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
