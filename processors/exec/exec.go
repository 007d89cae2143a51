// Package exec is the processor `exec`: it passes messages to a program. Start at [Config]. once.go starts a program
// for each message. stream.go keeps programs running, each of which is a [process].
package exec

import (
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the exec processor.
type Config struct {
	Command     programs.Command          `yaml:"command,main" check:"required" doc:"The program and its arguments, passed unchanged, without a shell and without data of messages. Text is split at blanks outside quotes. A name without a slash is looked up in PATH."`
	Mode        string                    `yaml:"mode" check:"oneof=per_message|stream" doc:"per_message starts the program for each message; stream keeps it running and exchanges lines."`
	Into        fields.Path               `yaml:"into" doc:"Field for the output; without it the output replaces the payload."`
	ErrorPrefix string                    `yaml:"error_prefix" doc:"With stream, an output line that begins with this text fails its message; off by default."`
	Env         schema.Map[schema.Secret] `yaml:"env" doc:"Environment variables, in addition to flowd's own."`
	Dir         string                    `yaml:"dir" doc:"Working directory of the program; that of flowd by default."`
	MaxOutput   schema.Size               `yaml:"max_output" check:"min=1" doc:"Largest output; if it is larger, the program is killed and the message fails."`
	Concurrency int                       `yaml:"concurrency" check:"min=1" doc:"Maximum number of programs running at once; the number of CPUs by default."`
}

// ConfigFiles returns the program, if it is given by a path.
func (c Config) ConfigFiles() []string { return []string{c.Command.File(c.Dir)} }

// CheckConfig reports variables and an error prefix that are not valid.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	switch {
	case c.ErrorPrefix == "":
	case c.Mode != stream:
		report("error_prefix", "only `mode: stream` has error lines", "remove it: a program for each message fails by its exit status")
	case strings.ContainsAny(c.ErrorPrefix, "\r\n"):
		report("error_prefix", "contains a line end, but is compared with single lines", "remove the line end")
	}
	programs.CheckEnv(c.Env, report)
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

With error_prefix, a program need not exit to report an error: a line that begins with
the prefix fails its message permanently. The rest of the line is the error's text, or an
object with text, class (permanent, transient, rejected, timeout, decode or auth) and
after, the least seconds before a retry. With error_prefix "ERROR ", for example:
ERROR {"text": "busy", "class": "transient", "after": 1.5}. The component program keeps
programs in any language running and needs no conventions for lines: see flowd docs
programs.

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

	ioDelay = time.Second // wait for output of a program that no longer reads or was cut off
)

// Traits reports that a program runs, which may have any effect.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() {
	engine.Register(engine.Processors, "exec", help, Config{Mode: perMessage, MaxOutput: 1 << 20}, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	p := program{Program: programs.New(c.Command, c.Dir, c.Env, env.Secrets), cfg: c, log: env.Log}
	if p.cfg.Concurrency == 0 {
		p.cfg.Concurrency = runtime.GOMAXPROCS(0)
	}
	if c.Mode == stream {
		return newStream(p), nil
	}
	return &once{program: p, slots: make(chan struct{}, p.cfg.Concurrency)}, nil
}

// program is the configured program.
type program struct {
	programs.Program
	cfg Config
	log *slog.Logger
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

func (p *program) tooLong() error {
	return engine.Errorf(engine.Permanent,
		"the answer is longer than max_output, %s (raise it, if answers may be that long)", p.cfg.MaxOutput)
}
