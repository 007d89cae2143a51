package flowdtest

import (
	"os"

	"golang.org/x/sys/unix"
)

// mostMemory limits the address space of flowd, in bytes, so that a leak fails a test and not
// the machine.
const mostMemory = 8 << 30

func limitMemory(p *os.Process) error {
	l := unix.Rlimit{Cur: mostMemory, Max: mostMemory}
	return unix.Prlimit(p.Pid, unix.RLIMIT_AS, &l, nil)
}
