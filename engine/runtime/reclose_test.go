package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// brittle is an input whose connection is lost at once. It counts Opens and Closes.
type brittle struct {
	opened, closed int
	refuse         bool // Open fails, except for the first time
}

func (b *brittle) Open(context.Context) error {
	if b.opened > 0 && b.refuse {
		return errors.New("refused")
	}
	b.opened++
	return nil
}

func (b *brittle) Close(context.Context) error {
	b.closed++
	return nil
}

func (b *brittle) Read(context.Context, *engine.Batch) (engine.Acker, error) {
	return nil, errors.New("lost")
}

func TestAnInputIsClosedOncePerOpen(t *testing.T) {
	for name, refuse := range map[string]bool{"stopped while it waits to be started again": false,
		"given up because it does not open": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := &brittle{refuse: refuse}
				stop, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				restart := engine.Restart{Backoff: time.Minute}
				if refuse {
					restart.MaxAttempts = 3
				}
				enginetest.Run(t, &engine.Pipeline{
					Inputs: enginetest.Named("in",
						engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
					Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()),
					Engine:  engine.EngineSpec{Restart: restart},
				}, stop)
				if in.opened != in.closed {
					t.Errorf("opened %d times, closed %d times", in.opened, in.closed)
				}
			})
		})
	}
}
