// Package host runs programs that speak the protocol of docs/programs.md. Start at [Client] for steps and outputs, and at
// [Program.Start], which inputs use. process.go has one running program, and telemetry.go what it reports beside its work.
// client.go and isolate.go bring messages to programs, and through their crashes.
package host

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/schema"
)

// Config has the fields that inputs, steps and outputs share.
type Config struct {
	Command      programs.Command          `yaml:"command,main" check:"required" doc:"The program and its arguments, without a shell. Text is split at blanks outside quotes. A name without a slash is looked up in PATH."`
	Config       fields.Document           `yaml:"config" doc:"Configuration of the program: any value. Values of placeholders are text."`
	Env          schema.Map[schema.Secret] `yaml:"env" doc:"Environment variables, in addition to flowd's own."`
	Dir          string                    `yaml:"dir" doc:"Working directory of the program; that of flowd by default."`
	StartTimeout time.Duration             `yaml:"start_timeout" check:"min=100ms" doc:"How long the program may take until it is ready, for example to load a model."`
	Timeout      time.Duration             `yaml:"timeout" check:"min=100ms" doc:"How long a program that has work may send nothing. Then it is killed and started again."`
	Restart      Restart                   `yaml:"restart" doc:"How long flowd waits before it starts a program again that has crashed."`
	MaxMessage   schema.Size               `yaml:"max_message" check:"min=1KiB,max=1GiB" doc:"Largest message, and largest body of a frame of the protocol."`
}

// Restart is the back-off of a program that crashes.
type Restart struct {
	Backoff    time.Duration `yaml:"backoff" check:"min=1ms" doc:"Longest first wait; doubles each time. The program starts over with it as soon as it has answered."`
	MaxBackoff time.Duration `yaml:"max_backoff" check:"min=1ms" doc:"Longest wait."`
}

// Defaults is the default configuration.
var Defaults = Config{StartTimeout: time.Minute, Timeout: 30 * time.Second, MaxMessage: 64 << 20,
	Restart: Restart{Backoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second}}

// ConfigFiles returns the program, if it is given by a path.
func (c Config) ConfigFiles() []string { return []string{c.Command.File(c.Dir)} }

// CheckConfig reports variables that are not valid, and waits in the wrong order.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	programs.CheckEnv(c.Env, report)
	if c.Restart.MaxBackoff < c.Restart.Backoff {
		report("restart.max_backoff", "is less than backoff", "make it at least backoff")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"name": "write `command: [name, argument, …]`", "args": "write `command: [program, argument, …]`",
		"cmd": "write `command`", "environment": "write `env`", "settings": "write `config`", "params": "write `config`",
		"retries": "write `retry` beside `program`",
	}
}

// Workers has the fields that steps and outputs share.
type Workers struct {
	Concurrency int `yaml:"concurrency" check:"min=1,max=1000" doc:"Processes of the program. Messages go to the one with the least work."`
	Window      int `yaml:"window" check:"min=1,max=100000" doc:"Most messages that one process has at once. A crash repeats at most these."`
	Batch       int `yaml:"batch" check:"min=1,max=100000" doc:"Most messages of a batch that the program gets at once; in batch steps, the whole batch by default."`
	Parallel    int `yaml:"parallel" check:"min=1,max=256" doc:"Messages that one process works on at once, as asynchronous handlers and threads do. A step collects so many for it, if they are there. Further messages wait for their turn: a time limit that passes meanwhile does not count against them."`
}

// DefaultWorkers is the default of Workers.
var DefaultWorkers = Workers{Concurrency: 1, Window: 1024, Parallel: 1}

// defaultBatch is how many messages a program gets at once, except in batch steps.
const defaultBatch = 256

// CheckConfig reports a batch that never fits.
func (w *Workers) CheckConfig(report func(path, message, remedy string)) {
	if w.Batch > w.Window {
		report("batch", fmt.Sprintf("a batch of %d messages never fits into a window of %d", w.Batch, w.Window), "raise `window`")
	}
}

// ClientConfig is the configuration of a step or an output.
type ClientConfig struct {
	Config  `yaml:",inline"`
	Workers `yaml:",inline"`
}

// ClientDefaults is the default of ClientConfig.
var ClientDefaults = ClientConfig{Config: Defaults, Workers: DefaultWorkers}

// CheckConfig reports what can't work.
func (c *ClientConfig) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Workers.CheckConfig(report)
}

// Program is a configured program.
type Program struct {
	programs.Program
	cfg   Config
	kind  string
	env   engine.Env
	lines *programs.Log

	mu      sync.Mutex      // guards the field below
	metrics map[string]bool // names
}

// New returns a program for a component: [frame.Step], [frame.Input] or [frame.Output].
func New(cfg Config, kind string, env engine.Env) *Program {
	p := &Program{Program: programs.New(cfg.Command, cfg.Dir, cfg.Env, env.Secrets), cfg: cfg, kind: kind, env: env,
		lines: programs.NewLog(env.Log, cfg.Command[0], env.Secrets)}
	return p
}

// Find locates the program.
func (p *Program) Find() error {
	if runtime.GOOS == "windows" {
		return errors.New("the component program does not work on Windows, where a program can't inherit pipes by number (use exec)")
	}
	return p.Program.Find()
}

func (p *Program) hello(instance, instances, window int, position []byte) frame.Hello {
	return frame.Hello{Kind: p.kind, Name: p.env.Name, Pipeline: p.env.Pipeline, Instance: instance, Instances: instances,
		Config: p.cfg.Config, Position: position, MaxBody: int(p.cfg.MaxMessage), Window: window}
}
