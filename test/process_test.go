package test

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

// process is a flowd that is still running; a test talks to it through pipes.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr *transcript
}

// start runs the binary in dir. It is killed when the test hangs.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return startAs(t, dir, binary, args...)
}

// startAs is start for a program that becomes the binary, or is another.
func startAs(t *testing.T, dir, name string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	p := &process{t: t, cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Dir = dir
	var stderr io.ReadCloser
	var errs [3]error
	p.stdin, errs[0] = p.cmd.StdinPipe()
	p.stdout, errs[1] = p.cmd.StdoutPipe()
	stderr, errs[2] = p.cmd.StderrPipe()
	if err := errors.Join(append(errs[:], p.cmd.Start())...); err != nil {
		t.Fatal(err)
	}
	p.stderr = follow(stderr)
	t.Cleanup(func() { // of one that the test has not waited for
		cancel()
		p.stdout.Close()
		<-p.stderr.ended
		_ = p.cmd.Wait()
	})
	return p
}

// send writes to the process's stdin and leaves it open.
func (p *process) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, text); err != nil {
		p.t.Fatal(err)
	}
}

// line is the next line of its stdout.
func (p *process) line() string {
	p.t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := p.stdout.Read(b); err != nil {
			p.t.Fatalf("stdout: %v\nstderr:\n%s", err, p.stderr.text())
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// says waits for a line of stderr that contains part, and returns it.
func (p *process) says(part string) string {
	p.t.Helper()
	line, ok := p.stderr.waitFor(part)
	if !ok {
		p.t.Fatalf("stderr lacks %q:\n%s", part, p.stderr.text())
	}
	return line
}

// wait is the result, with what of stdout was not read before.
func (p *process) wait() result {
	p.t.Helper()
	rest, err := io.ReadAll(p.stdout)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		p.t.Fatal(err)
	}
	<-p.stderr.ended
	return result{string(rest), p.stderr.text(), exitCode(p.t, p.cmd.Wait())}
}

// transcript is what a process has written so far.
type transcript struct {
	ended chan struct{} // closed behind the last line

	mu    sync.Mutex // guards the fields below
	more  *sync.Cond
	lines []string
	done  bool
}

func follow(r io.Reader) *transcript {
	tr := &transcript{ended: make(chan struct{})}
	tr.more = sync.NewCond(&tr.mu)
	go func() {
		defer close(tr.ended)
		for s := bufio.NewScanner(r); s.Scan(); {
			tr.add(s.Text(), false)
		}
		tr.add("", true)
	}()
	return tr
}

func (tr *transcript) add(line string, done bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if done {
		tr.done = true
	} else {
		tr.lines = append(tr.lines, line)
	}
	tr.more.Broadcast()
}

func (tr *transcript) text() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(tr.lines, "\n")
}

// waitFor is the first line with part; ok is false when none came before the end.
func (tr *transcript) waitFor(part string) (line string, ok bool) {
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
