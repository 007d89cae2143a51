package stage

import (
	"context"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// stranded is a root that is unfinished when the run ends, and that its source does not take back.
type stranded struct {
	root   ledger.Root
	pieces int64
	why    *engine.Error
}

// lastResort is the dead letter for what is unfinished: the pipeline's, or the only one that outputs name; nil: none.
func (p *Layout) lastResort() (to *OutputPlan) {
	if p.Failure.sends() {
		return p.Failure.DeadLetter
	}
	for _, o := range p.Outputs {
		if o.Failure == nil || !o.Failure.sends() {
			continue
		}
		if to != nil && to != o.Failure.DeadLetter {
			return nil
		}
		to = o.Failure.DeadLetter
	}
	return to
}

// strand sends a message that has no time left, and that no source takes back, to the dead letter. If the run no longer
// writes, or the dead letter has failed, the message is left for endStranded. strand returns false if there is no dead letter.
func (out *outcome) strand(m *engine.Message) bool {
	to := out.layout.lastResort()
	if to == nil {
		return false
	}
	if msg(m).Dead || out.Handing() {
		err := msg(m).Err
		if tr := retry.TrialOf(m); msg(m).Dead && tr != nil && tr.Reason != nil {
			err = tr.Reason
		}
		ledger.EachRoot(m, func(r ledger.Root) { r.Explain(err) })
		return true
	}
	msg(m).Err = lostWith(msg(m).Err)
	out.sendDeadLetter(m, nil, Policy{DeadLetter: to})
	return true
}

// endStranded writes stranded roots to the dead letter, as they were read, and ends them.
func (r *Run) endStranded(ctx context.Context, all []stranded) {
	if len(all) == 0 {
		return
	}
	saved := make([]bool, len(all))
	if to := r.layout.lastResort(); to != nil {
		for _, leaf := range to.Leaves() { // the next output takes messages that one did not write
			r.writing.sinks[leaf].writeStranded(ctx, all, saved)
		}
	}
	out := outcome{settlement: &r.settlement}
	pieces := r.Pieces.InFlight.Load()
	for i, s := range all {
		f := engine.Dropped
		if saved[i] {
			f = engine.DeadLettered
		}
		n := min(s.pieces, pieces)
		pieces -= n
		out.pieces[f] += n
		r.Failures.Add(s.root.Led.AsRead(s.root.I, s.why), f)
		s.root.Led.Roots[s.root.I].Worsen(f, s.why)
		out.endRoot(s.root)
	}
	out.apply()
}

// strandedPause is the time between two attempts to write stranded roots.
const strandedPause = 100 * time.Millisecond

// writeStranded writes roots that are not saved, again and again while ctx leaves time, and notes which are. Nobody else
// writes any more.
func (o *sink) writeStranded(ctx context.Context, all []stranded, saved []bool) {
	w := o.worker()
	for {
		var left []int
		for i := range all {
			if !saved[i] {
				left = append(left, i)
			}
		}
		refused := 0
		for part := range slices.Chunk(left, o.plan.writes()) {
			refused += w.writeStranded(ctx, all, part, saved)
		}
		if refused == len(left) || !guard.Pause(ctx, strandedPause) {
			return
		}
	}
}

// writeStranded makes one write of some of the roots, and says how many of them need not be tried again.
func (w *worker) writeStranded(ctx context.Context, all []stranded, part []int, saved []bool) (done int) {
	b := flow.NewWrite(len(part))
	at := map[ledger.Root]int{}
	for _, i := range part {
		s := &all[i]
		m := s.root.Led.AsRead(s.root.I, s.why)
		steps.Complete(msg(m).Err, engine.Transient)
		makeDeadLetter(m)
		slab(b).Take(m)
		at[s.root] = i
	}
	b = w.steps(ctx, w.beginBatch(b))
	if !w.writer.write(ctx, b, nil, true) {
		return len(part)
	}
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		ok := msg(m).State != inside.Failed && msg(m).State != inside.Live
		final := ok || !retry.Retryable(msg(m).Err.Class) && !msg(m).Err.HoldsOutput()
		ledger.EachRoot(m, func(r ledger.Root) {
			if i, is := at[r]; is {
				saved[i] = saved[i] || ok
				if final {
					done++
				}
			}
		})
	}
	w.arena.Reset()
	return done
}
