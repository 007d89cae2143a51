// Package sleep is the processor `sleep`: it waits before each message. Its config is the time to wait.
package sleep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/timing"
)

const doc = `
Waits once per message, which keeps a worker busy: for tests and demonstrations.

    - sleep: 10ms
    - sleep: $(delay)ms
`

func init() {
	engine.Register(engine.Processors, "sleep", doc, expr.Template{}, build)
}

func build(wait expr.Template, _ engine.Env) (engine.Processor, error) {
	if text, ok := wait.Const(); ok {
		if _, err := parse(text); err != nil {
			return nil, err
		}
	}
	return engine.ProcessorFunc(func(ctx context.Context, m *engine.Message) error {
		text, err := wait.Text(m)
		if err != nil {
			return err
		}
		d, err := parse(text)
		if err != nil {
			return err
		}
		return sleep(ctx, d)
	}), nil
}

func parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a valid duration to sleep (write 10ms, 2s or $(ms)ms)", text)
	}
	return d, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	err := timing.Sleep(ctx, d)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("a sleep of %v exceeds the step's timeout (raise `timeout`): %w", d, err)
	}
	return fmt.Errorf("sleep of %v: %w", d, err)
}
