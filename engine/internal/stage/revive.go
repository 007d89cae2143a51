package stage

import (
	"context"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// wrote takes down what came of a write.
func (o *outRun) wrote(s written) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures.wrote(s)
	o.budget.Earn(s.done)
	if o.auto != nil {
		o.auto.Ended(time.Now(), s.took, o.writing, s.faulty())
		o.most = o.auto.Limit()
	}
	switch {
	case s.stays != nil && s.done == 0:
		o.fails(s.stays, s.said, true, s.probe)
	case !s.faulty():
		o.works()
	case s.err.Class != engine.Permanent:
		o.fails(s.err, s.said, s.err.HoldsOutput(), s.probe)
	}
}

// works opens the gate after a write or a probe; o.mu is held.
func (o *outRun) works() {
	o.figures.worked()
	if !o.gate.Worked() {
		return
	}
	o.r.Log.Info("output works again", "output", o.plan.Name)
	o.r.plan.EmitEvent(engine.Event{Kind: engine.EventConnected, Name: o.plan.Name})
	o.cond.Broadcast()
	o.feed(true)
}

// fails may shut the gate after a write or a probe, at once where holds says so. What
// is said of it may be more than err. o.mu is held.
func (o *outRun) fails(err *engine.Error, said error, holds, probe bool) {
	was := o.gate.Shut
	o.figures.fails(said)
	if shuts, wait := o.gate.Failed(err, holds, probe); shuts {
		o.shuts(was, wait, "output does not work: nothing is written to it until a probe comes through", said)
	}
}

// shuts says that the gate is shut, with each cause once, and has it looked at again;
// o.mu is held.
func (o *outRun) shuts(was bool, wait time.Duration, why string, err error) {
	o.r.timers.After(time.Now().Add(wait), nil, o.wake)
	o.feed(false)
	if news := o.gate.Named.News(o.gate.Err); was && news {
		why = "output does not work, now for another reason"
	} else if was {
		return
	}
	o.r.Log.Error(why, "output", o.plan.Name, "err", err, "next_probe_in", wait.Round(time.Millisecond))
	if !was {
		o.r.plan.EmitEvent(engine.Event{Kind: engine.EventLost, Name: o.plan.Name, Err: err})
	}
}

// feed says whether the output may be fed. While no output may, readers pause.
// o.mu is held.
func (o *outRun) feed(may bool) {
	if o.starved == !may || !o.plan.Feeds {
		return
	}
	o.starved = !may
	n := int64(1)
	if may {
		n = -1
	}
	o.r.Credits.Close(o.r.gates.Add(n) == o.r.feeds)
}

// probe asks the output, or opens a new instance of it.
func (o *outRun) probe(ctx context.Context) {
	o.mu.Lock()
	reopen, at := o.gate.Reopen, o.at
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, o.plan.Timeout)
	defer cancel()
	var err error
	if reopen {
		err = o.reopen(ctx)
	} else {
		err = guard.Guard(ctx, at.out.(engine.Prober).Probe)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing--
	switch {
	case err != nil:
		failed := engine.ErrorOf(err, engine.Transient)
		failed.Mask(o.r.plan.Secrets)
		o.fails(failed, failed, failed.HoldsOutput(), true)
		return
	case reopen: // whether it works, a write shows
		o.gate.Probing, o.gate.Until = false, time.Time{}
	default:
		if o.gate.Probed(); o.gate.Reached() {
			o.figures.worked()
		}
		if o.ready.Head == nil && o.again.Head == nil {
			o.feed(true) // what it reads is the probe
		}
	}
	o.cond.Broadcast()
}

// mostStuck is how many calls of an output may be left behind: each costs a
// goroutine and a slab until it comes back.
const mostStuck = 4

// abandon takes the messages of a write that is one deadline behind its deadline
// from it, fails them, and goes on with another writer and a new instance.
func (o *outRun) abandon(w *writer, now time.Time) {
	since := w.since.Load()
	if since == 0 || now.Sub(time.Unix(0, since)) < 2*o.plan.Timeout || !w.state.CompareAndSwap(calling, leftAlone) {
		return
	}
	err := engine.Errorf(engine.Timeout, "the write did not come back within %v, twice its timeout, and was abandoned", 2*o.plan.Timeout)
	err.Output = o.plan.Name
	next := newWriter(o)
	next.t = w.t // what its steps have split and merged
	failed, rest := w.salvage(err)
	o.mu.Lock()
	o.figures.abandoned++
	o.figures.fails(err)
	o.writers = append(o.writers, next)
	was := o.gate.Shut
	o.shuts(was, o.gate.Hangs(err), "a write hangs: the output is opened anew", err)
	o.mu.Unlock()
	if len(slab(rest).Msgs) > 0 {
		o.pushAgain(rest)
	}
	next.finish(failed)
	o.done(w.turn, false)
	if w.slot != nil {
		w.slot.landed()
	}
	o.spawn(next)
}

// retire says whether a write still uses a plugin; the end of that write closes it.
func (o *outRun) retire(plugin any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if any(o.at.out) != plugin || o.at.calls == 0 {
		return false
	}
	o.at.retired = true
	return true
}

// salvage copies out of an abandoned write what the engine alone has touched. The
// plugin may still be at work on the messages, so the slab is never reused.
func (w *writer) salvage(err *engine.Error) (failing, rest *engine.Batch) {
	b := w.batch
	failing, rest = slab(b).Like(), slab(b).Like()
	slab(failing).Arena, slab(rest).Arena, slab(rest).Stage = nil, nil, inside.AtWrite
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if _, written := slices.BinarySearch(w.in, int32(i)); written {
			c := m.Heir(inside.Key{})
			msg(&c).Rare, c.Attempt, c.Meta, msg(&c).Orig, msg(&c).BatchKey, msg(&c).Of = msg(m).Rare, m.Attempt, m.Meta, msg(m).Orig, msg(m).BatchKey, msg(m).Of
			msg(&c).Batch, msg(&c).Part, msg(&c).Serial, msg(&c).Dead, msg(&c).Credits, msg(&c).Charge, msg(&c).Stage = failing, msg(m).Part, msg(m).Serial, msg(m).Dead, msg(m).Credits, msg(m).Charge, inside.AtWrite
			msg(&c).Doc.Reset(msg(m).Doc.Payload(), nil)
			e := *err
			c.Fail(&e)
			w.out.r.holds.Own(&c, w.out.spot())
			slab(failing).Msgs = append(slab(failing).Msgs, c)
			continue
		}
		msg(m).Doc.Detach()
		if msg(m).State != inside.Moved && msg(m).State != inside.Consumed { // in order with those that fail
			w.out.r.holds.Own(m, w.out.spot())
		}
		switch msg(m).State {
		case inside.Moved, inside.Consumed:
		case inside.Live:
			msg(m).Stage = inside.AtWrite
			slab(rest).Msgs = append(slab(rest).Msgs, *m)
		default:
			slab(failing).Msgs = append(slab(failing).Msgs, *m)
		}
	}
	return failing, rest
}

// returned says that an abandoned call has come back after all.
func (o *outRun) returned(w *writer) {
	o.mu.Lock()
	o.writers = slices.DeleteFunc(o.writers, func(x *writer) bool { return x == w })
	o.mu.Unlock()
	o.cond.Broadcast()
}

// spawn starts a writer in the place of one that was abandoned.
func (o *outRun) spawn(w *writer) { go o.r.write(w) }
