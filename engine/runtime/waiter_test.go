package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// waiting takes a second for any number of messages.
type waiting struct {
	together int
	runs     *int
}

func (w waiting) Traits() engine.Traits { return engine.Traits{Together: w.together} }

func (w waiting) Process(context.Context, *engine.Batch) error {
	*w.runs++
	time.Sleep(time.Second)
	return nil
}

func TestAStepThatWaitsGetsSeveralMessagesAtOnce(t *testing.T) {
	for together, most := range map[int]int{1: 128, 8: 20} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			p := &engine.Pipeline{
				Inputs:     enginetest.Named("in", (&enginetest.Source{Payloads: make([]string, 128)}).Input()),
				Processors: engine.Steps{{Use: enginetest.Processing(waiting{together, &runs})}},
				Outputs:    enginetest.Named("out", (&enginetest.Sink{}).Output()),
				Engine:     engine.EngineSpec{Workers: 1},
			}
			enginetest.Run(t, p, nil)
			if runs > most || together == 1 && runs < 64 {
				t.Errorf("together %d: %d runs, want at most %d", together, runs, most)
			}
		})
	}
}
