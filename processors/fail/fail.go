// Package fail is the processor `fail`: it fails messages on purpose. Start at [Config].
package fail

import (
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the step.
type Config struct {
	Reason expr.Template `yaml:"reason,main" check:"required" doc:"Why the message fails, as text with $(expression) parts."`
	Class  engine.Class  `yaml:"class" check:"oneof=permanent|rejected|decode|transient|timeout" default:"permanent" doc:"The class of the failure. Only transient and timeout are retried."`
	After  time.Duration `yaml:"after" check:"min=0s" doc:"The least wait before the next attempt, if the class is retried."`
}

// CheckConfig rejects a wait before an attempt that never comes.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.After > 0 && c.Class != engine.Transient && c.Class != engine.Timeout {
		report("after", "is the wait before the next attempt, and this class is not retried", "write `class: transient`, or remove it")
	}
}

const doc = `
Fails every message that reaches it, with your own reason. Unless class says otherwise, the
message is not retried. A transient failure is retried like that of any step, from here, so
it helps where something else may change the outcome, such as a cache that is read in when.
on_failure.then can decide by the class where the message goes.

    - fail: unknown plan $(customer.plan)
      when: not (customer.plan in ["free", "enterprise"])
    - fail: {reason: no quota left, class: rejected}
      when: quota < 1
`

func init() {
	engine.Register(engine.Processors, "fail", doc, Config{Class: engine.Permanent}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		text, err := c.Reason.Text(m)
		if err != nil {
			return err
		}
		return &engine.Error{Class: c.Class, Delay: c.After, Err: errors.New(text)}
	}), nil
}
