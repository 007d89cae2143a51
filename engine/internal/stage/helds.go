package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// held describes the oldest message that waits for a try or a limit; nil: none does.
// What waits for its key is younger than the message that holds the key.
func (r *Run) Held(now time.Time) (oldest *engine.Held) {
	look := func(m *engine.Message, due time.Time, why func() (place, err string)) {
		led := ledger.FirstRoot(m).Led
		if led == nil || oldest != nil && now.Sub(led.ReadAt) <= oldest.Age {
			return
		}
		oldest = &engine.Held{At: ledger.Position(led.InputName, m.Meta, msg(m).Part), Age: now.Sub(led.ReadAt), Due: max(0, due.Sub(now))}
		oldest.For, oldest.Err = why()
	}
	r.timers.Each(func(due time.Time, b *engine.Batch, p flow.Waiting) {
		if p != nil {
			look(p.Message(), due, p.Awaits)
			return
		}
		for i := range slab(b).Msgs {
			m := &slab(b).Msgs[i]
			look(m, due, func() (string, string) { return awaits(retry.TrialOf(m)) })
		}
	})
	return oldest
}

// awaits is where a message is to be tried again, and why.
func awaits(t *retry.Trial) (place, err string) {
	if t == nil || t.Err == nil {
		return "a retry", ""
	}
	return "a retry of " + t.Err.Place(), guard.FirstLine(t.Err)
}

// awaits is the limit that a message waits for.
func (p *aside) Awaits() (place, err string) {
	switch {
	case p.step() != nil:
		return "the limit of step " + p.step().Name, ""
	case p.at != nil:
		return "the limit of output " + p.at.name, ""
	}
	return "a limit", ""
}
