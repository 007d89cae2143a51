package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// sourceDelays is how long m's source can delay it; 0 where m is not all that was
// read, or its source can't.
func sourceDelays(m *engine.Message) time.Duration {
	r := ledger.RootOf(m)
	if r.Led == nil || msg(m).Part > 0 || len(msg(m).Of) > 0 || r.Led.Roots[r.I].Pieces.Load() != 1 {
		return 0
	}
	return r.Led.Delays
}

// retry lets messages go on that have waited for another try.
func (r *Run) retry(b *engine.Batch) {
	if !r.Enter() {
		return
	}
	defer r.Leave()
	r.waited(b)
	t := tally{r: r, past: true}
	t.goOn(b, stageOf(b))
	t.apply()
}

// waited counts that the messages of b no longer wait.
func (r *Run) waited(b *engine.Batch) {
	n := 0
	for i := range slab(b).Msgs {
		n += flow.Weight(&slab(b).Msgs[i])
	}
	r.Retrying.Add(int64(-len(slab(b).Msgs)))
	r.Credits.Keep(-n)
}

// goOn sends a slab back to where its messages take up again: a lane, or an output.
func (t *tally) goOn(b *engine.Batch, at *stage) {
	if at != nil {
		slab(b).Way.Out = nil
		if !steps.ForRoom(retry.TrialOf(&slab(b).Msgs[0])) {
			again{at}.Push(b)
		} else { // no other has failed, that a budget could be for
			at.enter(b)
		}
		return
	}
	for i := range slab(b).Msgs {
		t.beyond -= flow.Weight(&slab(b).Msgs[i])
	}
	t.r.upstream.Add(int64(len(slab(b).Msgs)))
	t.r.Lanes.Push(b)
}

func placeOf(e *engine.Error) string {
	if e == nil {
		return ""
	}
	if e.Output != "" {
		return e.Output
	}
	return e.Step
}
