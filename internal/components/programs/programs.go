// Package programs starts programs, and ends them along with everything that they have started. Start at [Program].
package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/schema"
)

const (
	maxQuoted  = 400         // bytes of standard error quoted in an error
	exTempFail = 75          // the exit status that asks for a retry (EX_TEMPFAIL of sysexits.h)
	ioDelay    = time.Second // wait for output that other processes hold open after the program has ended
)

// Program is a program that can be started any number of times, and concurrently.
type Program struct {
	Command Command
	Dir     string          // working directory; "": that of flowd
	Env     []string        // NAME=value, in addition to flowd's own environment
	Secrets *schema.Secrets // masked in errors

	path string // of the executable; set by Find
}

// New returns a program with variables of a configuration, which secrets masks like all that it has.
func New(command Command, dir string, env schema.Map[schema.Secret], secrets *schema.Secrets) Program {
	p := Program{Command: command, Dir: dir, Secrets: secrets}
	for name, value := range env.All() {
		p.Env = append(p.Env, name+"="+value.Reveal())
	}
	return p
}

// Find locates the executable. It must be called before the program is started.
func (p *Program) Find() error {
	name := p.Command[0]
	if p.Dir != "" {
		if info, err := os.Stat(p.Dir); err != nil {
			return fmt.Errorf("dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("dir: %s is not a directory", p.Dir)
		}
	}
	at := name
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		at = filepath.Join(p.Dir, name) // the system resolves it relative to the working directory
	}
	path, err := exec.LookPath(at)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("program %q is not in PATH (install it, or write its path)", name)
	case err != nil:
		return fmt.Errorf("program %q: %w", name, Cause(err))
	}
	p.path, err = filepath.Abs(path)
	return err
}

// Cause unwraps errors that repeat the program's name.
func Cause(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if at, ok := errors.AsType[*os.PathError](err); ok {
		err = at.Err
	}
	return err
}

// started counts the programs of this process. Their marks contain the number.
var started atomic.Uint64

// Prepare sets up a command that starts the program in a process group of its own, so that Kill kills the whole group, and
// with a mark in its environment. The mark identifies processes that leave the group: see EndFamily. more is added to the
// environment.
func (p *Program) Prepare(cmd *exec.Cmd, more ...string) (mark string) {
	adopt()
	mark = fmt.Sprintf("FLOWD_PROGRAM=%d.%d;", os.Getpid(), started.Add(1))
	cmd.Path, cmd.Args, cmd.Dir = p.path, p.Command, p.Dir
	cmd.Env = append(append(append(os.Environ(), p.Env...), more...), mark)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = ioDelay
	return mark
}

// Run runs the program until it exits, or until ctx ends and it is killed. Everything that it has started ends with it.
// more is added to its environment. The error is an [engine.Error] whose class says whether it may work later. It quotes
// the end of standard error.
func (p *Program) Run(ctx context.Context, in io.Reader, out io.Writer, more ...string) error {
	said := &Tail{}
	cmd := exec.CommandContext(ctx, p.path)
	mark := p.Prepare(cmd, more...)
	cmd.Cancel = func() error { return Kill(cmd.Process) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	err := cmd.Run()
	if cmd.Process != nil {
		EndFamily(cmd.Process.Pid, mark)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrWaitDelay):
		_ = Kill(cmd.Process)
		return engine.Errorf(engine.Permanent,
			"the program has ended, but others that it started kept its output open, and were killed (redirect their output)")
	case !errors.As(err, &exit):
		return engine.Errorf(engine.Transient, "program %q: %w", p.Command[0], Cause(err))
	case exit.ExitCode() == exTempFail || stoppedFromOutside(exit.ProcessState):
		return engine.Errorf(engine.Transient, "%s", p.Describe(err, said))
	}
	return engine.Errorf(engine.Permanent, "%s", p.Describe(err, said))
}

// Describe says how the program ended, with the end of its standard error. err is the result of [exec.Cmd.Wait].
func (p *Program) Describe(err error, said *Tail) string {
	text := "exit status 0"
	if err != nil {
		text = err.Error()
	}
	if quote := said.Quote(p.Secrets); quote != "" {
		text += ": " + quote
	}
	return text
}

// maxTail is how much of standard error is kept, in bytes. It is more than is shown, so that masking sees whole
// secrets.
const maxTail = 4 << 10

// Tail keeps the end of what is written to it, for [Program.Describe].
type Tail struct{ buf []byte }

// Quote returns the end of what was written, in one line, for errors; "": nothing was.
func (t *Tail) Quote(secrets *schema.Secrets) string { return call.Tail(t.buf, maxQuoted, secrets) }

// Write keeps the end of p.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p[max(0, len(p)-maxTail):]...)
	if len(t.buf) > 2*maxTail {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxTail:]...)
	}
	return len(p), nil
}
