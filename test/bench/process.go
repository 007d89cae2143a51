package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// deadline bounds every process, so that nothing that hangs outlives its row.
const deadline = 2 * time.Minute

// usage is what a process has cost.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory
	code      int
	stderr    string
}

// process is one that runs; its memory is looked at while it does.
type process struct {
	cmd    *exec.Cmd
	stderr tail
	began  time.Time
	cancel context.CancelFunc
	ended  chan struct{} // closed when there is nothing more to look at
	looks  sync.WaitGroup
	peak   int64 // as it was seen; read when looks are over
	used   usage
	err    error
}

// command is one of a table: words in which $NAME is replaced, with < FILE and > FILE
// as in a shell. ok is false where its program is missing.
func (w *world) command(text string, vars map[string]string) (cmd *exec.Cmd, in, out string, ok bool) {
	var argv []string
	target := (*string)(nil)
	for _, word := range strings.Fields(text) {
		if word == "<" {
			target = &in
			continue
		}
		if word == ">" {
			target = &out
			continue
		}
		word = os.Expand(word, func(name string) string {
			if v, ok := vars[name]; ok {
				return v
			}
			return w.vars[name]
		})
		if target != nil {
			*target, target = word, nil
			continue
		}
		argv = append(argv, word)
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

// intoPipe prepares a run of a contestant and starts it with a pipe as stdout, of which
// the caller gets the other end, to close. The process is the caller's to end.
func (w *world) intoPipe(r *row, c *contestant, n int) (vars map[string]string, p *process, from *os.File, err error) {
	if vars, err = w.prepare(r, c, n); err != nil {
		return nil, nil, nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	p, err = w.start(c.command, vars, nil, to)
	to.Close() // the process has its own
	if err != nil {
		from.Close()
		return nil, nil, nil, err
	}
	return vars, p, from, nil
}

// start starts a command of the table. stdin and stdout may be nil.
func (w *world) start(text string, vars map[string]string, stdin io.Reader, stdout io.Writer) (*process, error) {
	cmd, in, out, ok := w.command(text, vars)
	if !ok {
		return nil, fmt.Errorf("%s: its program is not on PATH", text)
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if in != "" {
		f, err := os.Open(in)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the process has its own
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
	p := &process{cmd: cmd, cancel: cancel, ended: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 5 * time.Second
	own := highWater("self")
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	exited := make(chan struct{})
	p.looks.Go(func() {
		p.look(exited)
	})
	go func() {
		select {
		case <-ctx.Done():
			_ = p.cmd.Process.Kill()
		case <-exited:
		}
	}()
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
		p.used.wall = time.Since(p.began)
		close(exited)
		p.looks.Wait()
		p.used.cpu = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		p.used.code = p.cmd.ProcessState.ExitCode()
		p.used.stderr = p.stderr.String()
		// Linux counts what this process had at the fork, too: where that was more,
		// what was seen from outside is nearer.
		if p.used.peak = maxRSS(p.cmd.ProcessState); p.peak > 0 && p.used.peak <= own {
			p.used.peak = p.peak
		}
		if ctx.Err() != nil && w.ctx.Err() == nil {
			p.err = fmt.Errorf("it did not end within %v", deadline)
		}
		cancel()
	}()
	return p, nil
}

// look reads the most memory that the process had, until it is gone.
func (p *process) look(exited <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	pid := fmt.Sprint(p.cmd.Process.Pid)
	for {
		p.peak = max(p.peak, highWater(pid))
		select {
		case <-exited:
			return
		case <-tick.C:
		}
	}
}

// wait waits for the end of a process that should end with code 0.
func (p *process) wait() (usage, error) {
	<-p.ended
	if p.err != nil {
		return p.used, fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), p.err, p.used.stderr)
	}
	return p.used, nil
}

// stop asks a process to end, as an operator does, and waits for it.
func (p *process) stop() (usage, error) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	return p.wait()
}

// kill ends a process that has nothing more to say.
func (p *process) kill() usage {
	_ = p.cmd.Process.Kill()
	<-p.ended
	return p.used
}

// do runs a command of the table to its end.
func (w *world) do(text string, vars map[string]string) (usage, error) {
	p, err := w.start(text, vars, nil, nil)
	if err != nil {
		return usage{}, err
	}
	return p.wait()
}

// tail keeps the last of what a process prints.
type tail struct {
	mu   sync.Mutex // guards the field below
	text []byte
}

const kept = 8 << 10 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - kept; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
