package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// HandLate hands back messages whose next attempt would be after the drain.
func (r *Run) HandLate() {
	r.settlement.settle(func(out *outcome) {
		for _, b := range r.settlement.timers.Beyond(time.Unix(0, r.Life.Deadline.Load())) {
			r.settlement.waited(b)
			for i := range slab(b).Msgs {
				out.handBack(&slab(b).Msgs[i])
			}
		}
	})
}

// HandBack ends everything that is still open: it goes back to its source, or where a source takes nothing back to the
// dead letter, as far as ctx leaves time for that. It closes the fence: whatever finishes later changes nothing.
func (r *Run) HandBack(ctx context.Context) {
	var left []stranded
	held := r.waitsFor()
	r.Life.Close(func() {
		out := outcome{settlement: &r.settlement}
		why := engine.Errorf(engine.Transient, "the pipeline stopped before this message was finished")
		why.HandedBack()
		pieces := r.Pieces.InFlight.Load()
		left = out.endAllUnfinished(why, held)
		for _, s := range left {
			pieces -= s.pieces
		}
		out.pieces[engine.Returned] = max(pieces, 0) // a merge is one piece of several roots
		out.apply()
	})
	r.endStranded(ctx, left)
}

// handBack gives m back to its source because a drain leaves it no time.
func (out *outcome) handBack(m *engine.Message) {
	if out.PassesOn() {
		return
	}
	if retry.TrialOf(m) != nil && retry.TrialOf(m).Err != nil {
		msg(m).Err = retry.TrialOf(m).Err
	}
	msg(m).Err = handedBack(msg(m).Err, msg(m).Err)
	if len(msg(m).Of) > 0 && msg(m).Part == 0 {
		out.undoMerge(m, out.handBack)
		return
	}
	out.giveBack(m, false)
}

// giveBack hands m back to its source, because it has failed or is unfinished. If the source can't take it back, an
// unfinished message goes to the dead letter. A failed one, or one without a dead letter, is lost: it ends as dropped and is
// reported.
func (out *outcome) giveBack(m *engine.Message, failed bool) {
	f := engine.Returned
	if !returnable(m) {
		if !failed && out.strand(m) {
			return
		}
		f = engine.Dropped
		if !failed {
			msg(m).Err = lostWith(msg(m).Err)
		}
	}
	if failed || f == engine.Dropped {
		out.Failures.Add(m, f)
	}
	out.endPiece(m, f)
}

// returnable says whether a source takes back something of m.
func returnable(m *engine.Message) (yes bool) {
	ledger.EachRoot(m, func(r ledger.Root) { yes = yes || r.Led.Takes != engine.TakesNothing })
	return yes
}

// lostWith is why a message is lost that had not ended when the pipeline stopped; cause is what interrupted it or what
// it waited for, or nil.
func lostWith(cause *engine.Error) *engine.Error {
	const why = "the pipeline stopped before this message was finished, and its source can't redeliver it"
	if cause == nil {
		e := engine.Errorf(engine.Transient, why)
		e.HandedBack()
		return e
	}
	return handedBack(cause, fmt.Errorf(why+": %w", cause))
}

// waitsFor is why messages were not written in the end: the error of the only output or, if one of several outputs is down, an
// error that names it without a place, since messages for other outputs may be among them. It is nil if no output is down,
// or several are.
func (r *Run) waitsFor() (why *engine.Error) {
	for plan, o := range r.writing.sinks {
		o.mu.Lock()
		down := o.shut()
		o.mu.Unlock()
		switch {
		case !plan.Feeds || down == nil:
		case why != nil:
			return nil
		case r.writing.feeding.outputs == 1:
			why = &engine.Error{Class: down.Class, Output: plan.Name, Err: down.Err}
		default:
			why = &engine.Error{Class: down.Class, Err: fmt.Errorf("output %s was down: %w", plan.Name, down)}
		}
	}
	return why
}

// handedBack is err for a message that is unfinished, in the place and of the class of its cause.
func handedBack(cause *engine.Error, err error) *engine.Error {
	return (&engine.Error{Class: cause.Class, Step: cause.Step, Output: cause.Output, Err: err}).HandedBack()
}

// endAllUnfinished ends every open root as returned, whatever its pieces are doing: nothing is at work any more, for the
// fence is closed. Those that no source takes back are left; held is why nothing could be written, or nil.
func (out *outcome) endAllUnfinished(why, held *engine.Error) (left []stranded) {
	for _, l := range out.Open.List() {
		for i := range l.Roots {
			root := ledger.Root{Led: l, I: uint32(i)}
			s := &l.Roots[i]
			n := s.Pieces()
			if n <= 0 {
				continue
			}
			root.GiveUp()
			if l.Takes == engine.TakesNothing {
				cause := held
				if s.Err != nil {
					cause = s.Err
				}
				left = append(left, stranded{root, int64(n), lostWith(cause)})
				continue
			}
			s.Worsen(engine.Returned, why)
			out.endRoot(root)
		}
	}
	return left
}

// endUnfinished ends a root behind the fence: as returned, or as lost where its source takes nothing back.
func (out *outcome) endUnfinished(r ledger.Root, why *engine.Error) {
	f := engine.Returned
	if r.Led.Takes == engine.TakesNothing {
		f, why = engine.Dropped, lostWith(nil)
		out.Failures.Add(r.Led.AsRead(r.I, why), f)
	}
	r.GiveUp()
	r.Led.Roots[r.I].Worsen(f, why)
	out.endRoot(r)
}

// forget gives a root up without a fate. The stakes of steps in it are rolled back; the next plan continues with the message
// and reports to its source.
func (out *outcome) forget(l *ledger.Ledger, i uint32) {
	ledger.Root{Led: l, I: i}.GiveUp()
	if l.Acks != nil {
		l.Acks.Forget()
	}
	out.settleStakes(l, i, engine.Returned)
}
