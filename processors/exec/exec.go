// Package exec is the processor `exec`: it passes messages to a program. Start at [Config]. once.go starts a program
// for each message. stream.go keeps programs running, each of which is a [process].
package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the exec processor.
type Config struct {
	Command     command                   `yaml:"command,main" check:"required" doc:"The program and its arguments, passed unchanged, without a shell and without data of messages. Text is split at blanks outside quotes. A name without a slash is looked up in PATH."`
	Mode        string                    `yaml:"mode" check:"oneof=per_message|stream" doc:"per_message starts the program for each message; stream keeps it running and exchanges lines."`
	Into        fields.Path               `yaml:"into" doc:"Field for the output; without it the output replaces the payload."`
	Env         schema.Map[schema.Secret] `yaml:"env" doc:"Environment variables, in addition to flowd's own."`
	Dir         string                    `yaml:"dir" doc:"Working directory of the program; that of flowd by default."`
	MaxOutput   schema.Size               `yaml:"max_output" check:"min=1" doc:"Largest output; if it is larger, the program is killed and the message fails."`
	Concurrency int                       `yaml:"concurrency" check:"min=1" doc:"Maximum number of programs running at once; the number of CPUs by default."`
}

// CheckConfig reports commands and variables that are not valid.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if len(c.Command) > 0 && c.Command[0] == "" {
		report("command", "the program has no name", "write [program, argument, …]")
	}
	for _, arg := range c.Command {
		if strings.ContainsRune(arg, 0) {
			report("command", "it contains a NUL byte", "remove it")
		}
	}
	for name, value := range c.Env.All() {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value.Reveal(), 0) {
			report("env", fmt.Sprintf("%q is not a valid environment variable", name), "write NAME: value")
		}
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"name": "write `command: [name, argument, …]`", "args": "write `command: [program, argument, …]`",
		"args_mapping": "arguments are fixed: send data in the payload",
		"cmd":          "write `command`", "max_buffer": "write `max_output`", "environment": "write `env`",
		"timeout": "write `timeout` on the step, beside `exec`", "retries": "write `retry` on the step, beside `exec`",
	}
}

const help = `
Passes messages to a program, and uses its output as the new payload or, with into, as
a field: a document if it is JSON, otherwise text.

mode: per_message starts the program for each message, with the payload as its
standard input. A line end after its output is removed. An exit status other than 0
fails the message permanently, with the end of what the program wrote to standard
error. Status 75 (EX_TEMPFAIL) means that a retry may succeed; so does a signal from
outside that stopped the program.

mode: stream keeps the program running. It receives each message as one line (JSON that
spans several lines is joined), and writes exactly one line for each, in order. It must
not buffer its output (python3 -u, jq --unbuffered, sed -u). When it exits, the message
that it was working on fails as transient, and the program is restarted after a growing
pause; the lines after that message are sent again. What it writes to standard error is
logged.

A program that takes longer than the step's timeout is killed, along with everything
that it has started. The program inherits flowd's own environment, plus env. At the end
its standard input is closed; whatever is still running 2s later is killed.

On Linux everything that a program has started ends with it, even in the background or
in other sessions: flowd adopts such processes, and recognises them by the variable
FLOWD_PROGRAM or the process group. Only processes that leave the group with a different
environment escape, and those of another user. On other Unix systems, killing a program
kills its process group; elsewhere, only the program.

    - exec: {command: [exiftool, -json, "-"], into: exif}
    - exec: {command: [python3, -u, score.py], mode: stream, concurrency: 4}
      timeout: 5s
`

const (
	perMessage = "per_message"
	stream     = "stream"

	maxQuoted = 400             // bytes of standard error quoted in an error
	ioDelay   = time.Second     // wait for output that other processes hold open after the program has ended
	grace     = 2 * time.Second // for programs to end when the step closes
)

// Traits reports that a program runs, which may have any effect.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() {
	engine.Register(engine.Processors, "exec", help, Config{Mode: perMessage, MaxOutput: 1 << 20}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	p := program{cfg: c, log: env.Log, secrets: env.Secrets}
	if p.cfg.Concurrency == 0 {
		p.cfg.Concurrency = runtime.GOMAXPROCS(0)
	}
	for name, value := range c.Env.All() {
		p.env = append(p.env, name+"="+value.Reveal())
	}
	if c.Mode == stream {
		return newStream(p), nil
	}
	return &once{program: p, slots: make(chan struct{}, p.cfg.Concurrency)}, nil
}

// program is the configured program.
type program struct {
	cfg     Config
	log     *slog.Logger
	env     []string        // in addition to flowd's own
	secrets *schema.Secrets // masked in errors and logs

	path string // of the executable; set by find
}

// find locates the program.
func (p *program) find() error {
	name := p.cfg.Command[0]
	if p.cfg.Dir != "" {
		if info, err := os.Stat(p.cfg.Dir); err != nil {
			return fmt.Errorf("dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("dir: %s is not a directory", p.cfg.Dir)
		}
	}
	at := name
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		at = filepath.Join(p.cfg.Dir, name) // the system resolves it relative to the working directory
	}
	path, err := exec.LookPath(at)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("program %q is not in PATH (install it, or write its path)", name)
	case err != nil:
		return fmt.Errorf("program %q: %w", name, cause(err))
	}
	p.path, err = filepath.Abs(path)
	return err
}

// cause unwraps errors that repeat the program's name.
func cause(err error) error {
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

// prepare puts the command into a process group of its own, so that the whole group can be killed, and sets a mark in
// its environment. The mark identifies processes that leave the group.
func (p *program) prepare(cmd *exec.Cmd) (mark string) {
	adopt()
	mark = fmt.Sprintf("FLOWD_PROGRAM=%d.%d;", os.Getpid(), started.Add(1))
	cmd.Args = p.cfg.Command
	cmd.Env = append(append(os.Environ(), p.env...), mark)
	cmd.Dir = p.cfg.Dir
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = ioDelay
	return mark
}

// ready reports whether a message can hold an answer.
func (p *program) ready(m *engine.Message) error {
	if p.cfg.Into.Path.IsZero() {
		return nil
	}
	return m.Doc().Valid()
}

// put stores an answer in a message.
func (p *program) put(m *engine.Message, answer []byte) error {
	if p.cfg.Into.IsZero() {
		m.SetBytes(answer)
		return nil
	}
	raw, err := codec.Answer(answer, true)
	if err != nil {
		return err
	}
	return m.Doc().SetRaw(p.cfg.Into.Path, raw)
}

// described says how a program ended, with the end of its standard error.
func (p *program) described(err error, said *tail) string {
	text := "exit status 0"
	if err != nil {
		text = err.Error()
	}
	if quote := call.Tail(said.bytes(), maxQuoted, p.secrets); quote != "" {
		text += ": " + quote
	}
	return text
}

func (p *program) tooLong() error {
	return engine.Errorf(engine.Permanent,
		"the answer is longer than max_output, %s (raise it, if answers may be that long)", p.cfg.MaxOutput)
}
