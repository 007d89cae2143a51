package flowdtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Process is a running flowd. A test talks to it through pipes.
type Process struct {
	T      *testing.T // methods fail it on errors
	Cmd    *exec.Cmd
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	Stderr *Transcript
}

// Start starts the binary in dir. It is killed when the test ends, or after its lifetime.
func Start(t *testing.T, dir string, args ...string) *Process {
	t.Helper()
	return StartAs(t, dir, Binary, args...)
}

// StartAs is Start for another program, such as env or sh, which may then exec the binary.
func StartAs(t *testing.T, dir, name string, args ...string) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	p := &Process{T: t, Cmd: exec.CommandContext(ctx, name, args...)}
	p.Cmd.Dir = dir
	var stderr io.ReadCloser
	var errs [3]error
	p.Stdin, errs[0] = p.Cmd.StdinPipe()
	p.Stdout, errs[1] = p.Cmd.StdoutPipe()
	stderr, errs[2] = p.Cmd.StderrPipe()
	if err := errors.Join(append(errs[:], startLimited(p.Cmd))...); err != nil {
		t.Fatal(err)
	}
	p.Stderr = follow(stderr)
	t.Cleanup(func() { // the test may not have called Wait
		cancel()
		p.Stdout.Close()
		<-p.Stderr.Ended
		_ = p.Cmd.Wait()
	})
	return p
}

// Send writes text to the process's stdin, and leaves stdin open.
func (p *Process) Send(text string) {
	p.T.Helper()
	if _, err := io.WriteString(p.Stdin, text); err != nil {
		p.T.Fatal(err)
	}
}

// Line waits for the next line of stdout and returns it.
func (p *Process) Line() string {
	p.T.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := p.Stdout.Read(b); err != nil {
			p.T.Fatalf("stdout: %v\nstderr:\n%s", err, p.Stderr.Text())
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.T.Fatal(err)
	}
}

// Says waits for a line of stderr that contains part, and returns it.
func (p *Process) Says(part string) string {
	p.T.Helper()
	line, ok := p.Stderr.WaitFor(part)
	if !ok {
		p.T.Fatalf("stderr lacks %q:\n%s", part, p.Stderr.Text())
	}
	return line
}

// Wait waits until the process exits. The result has the part of stdout that Line has not read.
func (p *Process) Wait() Result {
	p.T.Helper()
	rest, err := io.ReadAll(p.Stdout)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		p.T.Fatal(err)
	}
	<-p.Stderr.Ended
	err = p.Cmd.Wait()
	return resultOf(p.T, p.Cmd, string(rest), p.Stderr.Text(), err)
}

// Transcript collects the lines that a process writes.
type Transcript struct {
	Ended chan struct{} // closed after the last line

	mu    sync.Mutex // guards the fields below
	more  *sync.Cond
	lines []string
	done  bool
}

// follow collects lines in the background until r ends.
func follow(r io.Reader) *Transcript {
	tr := &Transcript{Ended: make(chan struct{})}
	tr.more = sync.NewCond(&tr.mu)
	go func() {
		defer close(tr.Ended)
		for s := bufio.NewScanner(r); s.Scan(); {
			tr.add(s.Text(), false)
		}
		tr.add("", true)
	}()
	return tr
}

func (tr *Transcript) add(line string, done bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if done {
		tr.done = true
	} else {
		tr.lines = append(tr.lines, line)
	}
	tr.more.Broadcast()
}

// Text returns all lines so far.
func (tr *Transcript) Text() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(tr.lines, "\n")
}

// WaitFor waits for a line that contains part, and returns the first. ok is false if the
// transcript ends without one.
func (tr *Transcript) WaitFor(part string) (line string, ok bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for seen := 0; ; tr.more.Wait() {
		for ; seen < len(tr.lines); seen++ {
			if strings.Contains(tr.lines[seen], part) {
				return tr.lines[seen], true
			}
		}
		if tr.done {
			return "", false
		}
	}
}
