package flowdtest

import (
	"os"

	"golang.org/x/sys/unix"
)

// mostMemory is the address space that a flowd may have, in bytes: one that runs away
// fails its own test, and not the machine.
const mostMemory = 8 << 30

func limitMemory(p *os.Process) error {
	l := unix.Rlimit{Cur: mostMemory, Max: mostMemory}
	return unix.Prlimit(p.Pid, unix.RLIMIT_AS, &l, nil)
}
