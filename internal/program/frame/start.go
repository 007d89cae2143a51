package frame

import (
	"os"
	"os/exec"
)

// Variable tells a program which version of the protocol flowd speaks.
const Variable = "FLOWD_PROGRAM_PROTOCOL=1"

// Start starts a program with a pipe from which it reads, at descriptor 3, and one to which it writes, at descriptor 4. It
// returns the other ends: in leads to the program, and out comes from it.
func Start(cmd *exec.Cmd) (in, out *os.File, err error) {
	reads, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer reads.Close() // the program has its own copy
	out, writes, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, nil, err
	}
	defer writes.Close()
	cmd.ExtraFiles = []*os.File{reads, writes}
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, nil, err
	}
	return in, out, nil
}
