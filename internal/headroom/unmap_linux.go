package headroom

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
)

// unmap gives back the pages of the program's file that this process has touched so far, as far as they are as in the
// file. Those that are used still come back from the kernel's cache when they are touched, 16 of them in about a
// microsecond. Where that can't be done, it does nothing. It is safe for concurrent use.
//
// Source: madvise(2), MADV_DONTNEED of a private mapping of a file.
func unmap() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range programOf(f, uint64(reflect.ValueOf(unmap).Pointer())) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.from), uintptr(m.to-m.from), syscall.MADV_DONTNEED)
	}
}

// mapping is a range of addresses that a file is mapped to.
type mapping struct {
	from, to uint64
	file     string // its device and inode
	written  bool   // it can be
	same     bool   // as the file, in all its pages
}

// programOf are the mappings of the file that has the code at an address, but for those with pages that differ from the
// file's: constants that were relocated at the start, or code that a debugger changed. They would be lost.
// The text is that of /proc/PID/smaps, see proc_pid_smaps(5).
func programOf(smaps io.Reader, code uint64) (of []mapping) {
	var all []mapping
	program := "none"
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		if anonymous, ok := bytes.CutPrefix(lines.Bytes(), []byte("Anonymous:")); ok && len(all) > 0 {
			all[len(all)-1].same = string(bytes.TrimSpace(anonymous)) == "0 kB"
			continue
		}
		if b := lines.Bytes(); len(b) == 0 || b[0] >= 'A' && b[0] <= 'Z' { // another count
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		m := mapping{file: fields[3] + " " + fields[4], written: strings.Contains(fields[1], "w")}
		m.from, _ = strconv.ParseUint(from, 16, 64)
		m.to, _ = strconv.ParseUint(to, 16, 64)
		if m.from <= code && code < m.to {
			program = m.file
		}
		all = append(all, m)
	}
	for _, m := range all {
		if m.file == program && m.same && !m.written {
			of = append(of, m)
		}
	}
	return of
}
