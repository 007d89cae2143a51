package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// lineUp has a message wait for the bytes that it lacks, and then go on.
func (r *Run) lineUp(b *engine.Batch) {
	m := &slab(b).Msgs[0]
	r.Credits.LineUp(&flow.InLine{Bytes: retry.TrialOf(m).Lacked, Msgs: flow.Weight(m), Grown: msg(m).Charge - len(msg(m).Orig), GoOn: func(bytes int) {
		msg(m).Charge += bytes
		slab(b).Bytes += bytes
		retry.TrialOf(m).Room = bytes
		r.timers.After(time.Now(), b, func() { r.retry(b) })
	}})
}

func newRoom(r *Run) *steps.Room { return &steps.Room{Credits: &r.Credits, Limit: r.plan.MaxBytes} }
