package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// deadline limits the time of every process, so that a hanging one can't block the benchmark.
const deadline = 2 * time.Minute

// usage has the resources that a process used.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of anonymous memory on Linux, of resident memory elsewhere
	code      int
	stderr    string
}

// sample returns u as the cost of handling n messages within the time took.
func (u usage) sample(d data, n int, took time.Duration) sample {
	s := sample{Messages: n, Wall: took, CPU: u.cpu, Peak: u.peak}
	if d.line != nil {
		s.Bytes = int64(n * len(d.line(nil, 0)))
	}
	return s
}

// process is a started contestant. Its memory is sampled while it runs.
type process struct {
	cmd      *exec.Cmd
	to, from *os.File // pipes to its stdin and from its stdout, if startPiped has started it
	stderr   tail
	began    time.Time
	ended    chan struct{} // closed after it has exited and used and err are set
	used     usage
	err      error
}

// command splits text into words, expands $NAME in each, and handles < FILE and > FILE as a
// shell does. ok is false if the program is missing.
func (w *world) command(text string, vars map[string]string) (cmd *exec.Cmd, in, out string, ok bool) {
	var argv []string
	target := (*string)(nil)
	for word := range strings.FieldsSeq(text) {
		word = os.Expand(word, func(name string) string { return cmp.Or(vars[name], w.vars[name]) })
		switch {
		case word == "<":
			target = &in
		case word == ">":
			target = &out
		case target != nil:
			*target, target = word, nil
		default:
			argv = append(argv, word)
		}
	}
	if argv[0] == "" {
		return nil, "", "", false
	}
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	for name, value := range vars {
		cmd.Env = append(cmd.Env, strings.ToUpper(name)+"="+value)
	}
	return cmd, in, out, true
}

// startPiped starts a command with pipes to its stdin and from its stdout. kill closes them.
func (w *world) startPiped(text string, vars map[string]string) (*process, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close() // the process has its own copy
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	defer out.Close()
	p, err := w.start(text, vars, in, out)
	if err != nil {
		return nil, errors.Join(err, to.Close(), from.Close())
	}
	p.to, p.from = to, from
	return p, nil
}

// start starts the command text. stdin and stdout may be nil.
func (w *world) start(text string, vars map[string]string, stdin io.Reader, stdout io.Writer) (*process, error) {
	cmd, in, out, ok := w.command(text, vars)
	if !ok {
		return nil, fmt.Errorf("%s: the program is not on PATH", text)
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if in != "" {
		f, err := os.Open(in)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the process has its own copy
		cmd.Stdin = f
	}
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		cmd.Stdout = f
	}
	return w.launch(cmd)
}

func (w *world) launch(cmd *exec.Cmd) (*process, error) {
	ctx, cancel := context.WithTimeout(w.ctx, deadline)
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	cmd.WaitDelay = 5 * time.Second
	p.began = time.Now()
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		p.err = cmd.Wait()
		p.used.wall = time.Since(p.began)
	}()
	go func() {
		defer close(p.ended)
		defer cancel()
		seen := watchMemory(p.pid(), exited)
		p.used.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		p.used.code = cmd.ProcessState.ExitCode()
		p.used.stderr = p.stderr.String()
		if p.used.peak = seen; seen == 0 {
			p.used.peak = maxRSS(cmd.ProcessState)
		}
		if ctx.Err() != nil && w.ctx.Err() == nil {
			p.err = fmt.Errorf("it did not exit within %v", deadline)
		}
	}()
	return p, nil
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

// watchMemory samples the anonymous memory of a process every 5 ms until it has exited, and
// returns the maximum. It returns 0 if the system does not report it.
func watchMemory(pid string, exited <-chan struct{}) (peak int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, anonymous(pid))
		select {
		case <-exited:
			return peak
		case <-tick.C:
		}
	}
}

const patience = time.Minute // how long to wait for messages, commits and servers

// waitUntil waits until done returns true. lacks completes the error "flowd …" if it never does.
func (p *process) waitUntil(done func() bool, lacks string) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), p.used.stderr)
		case <-late:
			return fmt.Errorf("%s %s: %s", filepath.Base(p.cmd.Path), lacks, p.stderr.String())
		}
	}
	return nil
}

// wait waits until the process has exited. A code other than 0 is an error.
func (p *process) wait() (usage, error) {
	<-p.ended
	if p.err != nil {
		return p.used, fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), p.err, p.used.stderr)
	}
	return p.used, nil
}

// stop interrupts the process, as Ctrl-C does, and waits until it has exited.
func (p *process) stop() (usage, error) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	return p.wait()
}

// kill kills the process, if it still runs, and closes its pipes.
func (p *process) kill() usage {
	_ = p.cmd.Process.Kill()
	<-p.ended
	if p.to != nil {
		_ = errors.Join(p.to.Close(), p.from.Close()) // finish may have closed them
	}
	return p.used
}

// finish closes the stdin of the process and waits until it has exited. Further output is an error.
func (p *process) finish() (usage, error) {
	if err := p.to.Close(); err != nil {
		return usage{}, err
	}
	rest, err := io.ReadAll(p.from)
	if err != nil {
		return usage{}, err
	}
	if len(rest) > 0 {
		return usage{}, fmt.Errorf("unexpected output: %.200s", rest)
	}
	return p.wait()
}

// runCommand runs the command text and waits until it has exited.
func (w *world) runCommand(text string, vars map[string]string) (usage, error) {
	p, err := w.start(text, vars, nil, nil)
	if err != nil {
		return usage{}, err
	}
	return p.wait()
}

// tail keeps the last tailBytes that a process has printed.
type tail struct {
	mu   sync.Mutex // guards the field below
	text []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
