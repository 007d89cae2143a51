package engine

import (
	"context"
	"slices"
	"time"
)

// wrote takes down what came of a write.
func (o *outRun) wrote(s written) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures.wrote(s)
	o.budget.earn(s.done)
	if o.auto != nil {
		o.auto.ended(time.Now(), s.took, o.writing, s.faulty())
		o.most = o.auto.limit()
	}
	switch {
	case s.stays != nil && s.done == 0:
		o.fails(s.stays, s.said, true, s.probe)
	case !s.faulty():
		o.works()
	case s.err.Class != Permanent:
		o.fails(s.err, s.said, s.err.HoldsOutput(), s.probe)
	}
}

// works opens the gate after a write or a probe; o.mu is held.
func (o *outRun) works() {
	o.figures.worked()
	if !o.gate.worked() {
		return
	}
	o.r.log.Info("output works again", "output", o.plan.name)
	o.r.plan.emitEvent(Event{Kind: EventConnected, Name: o.plan.name})
	o.cond.Broadcast()
	o.feed(true)
}

// fails may shut the gate after a write or a probe, at once where holds says so. What
// is said of it may be more than err. o.mu is held.
func (o *outRun) fails(err *Error, said error, holds, probe bool) {
	was := o.gate.shut
	o.figures.fails(said)
	if shuts, wait := o.gate.failed(err, holds, probe); shuts {
		o.shuts(was, wait, "output does not work: nothing is written to it until a probe comes through", said)
	}
}

// shuts says that the gate is shut, with each cause once, and has it looked at again;
// o.mu is held.
func (o *outRun) shuts(was bool, wait time.Duration, why string, err error) {
	o.r.timers.after(time.Now().Add(wait), nil, o.wake)
	o.feed(false)
	if news := o.gate.named.news(o.gate.err); was && news {
		why = "output does not work, now for another reason"
	} else if was {
		return
	}
	o.r.log.Error(why, "output", o.plan.name, "err", err, "next_probe_in", wait.Round(time.Millisecond))
	if !was {
		o.r.plan.emitEvent(Event{Kind: EventLost, Name: o.plan.name, Err: err})
	}
}

// feed says whether the output may be fed. While no output may, readers pause.
// o.mu is held.
func (o *outRun) feed(may bool) {
	if o.starved == !may || !o.plan.feeds {
		return
	}
	o.starved = !may
	n := int64(1)
	if may {
		n = -1
	}
	o.r.credits.close(o.r.gates.Add(n) == o.r.feeds)
}

// probe asks the output, or opens a new instance of it.
func (o *outRun) probe(ctx context.Context) {
	o.mu.Lock()
	reopen, at := o.gate.reopen, o.at
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, o.plan.timeout)
	defer cancel()
	var err error
	if reopen {
		err = o.reopen(ctx)
	} else {
		err = guard(ctx, at.out.(Prober).Probe)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing--
	switch {
	case err != nil:
		failed := ErrorOf(err, Transient)
		failed.Mask(o.r.plan.secrets)
		o.fails(failed, failed, failed.HoldsOutput(), true)
		return
	case reopen: // whether it works, a write shows
		o.gate.probing, o.gate.until = false, time.Time{}
	default:
		if o.gate.probed(); o.gate.reached() {
			o.figures.worked()
		}
		if o.ready.head == nil && o.again.head == nil {
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
	if since == 0 || now.Sub(time.Unix(0, since)) < 2*o.plan.timeout || !w.state.CompareAndSwap(calling, leftAlone) {
		return
	}
	err := Errorf(Timeout, "the write did not come back within %v, twice its timeout, and was abandoned", 2*o.plan.timeout)
	err.Output = o.plan.name
	next := newWriter(o)
	next.t = w.t // what its steps have split and merged
	failed, rest := w.salvage(err)
	o.mu.Lock()
	o.figures.abandoned++
	o.figures.fails(err)
	o.writers = append(o.writers, next)
	was := o.gate.shut
	o.shuts(was, o.gate.hangs(err), "a write hangs: the output is opened anew", err)
	o.mu.Unlock()
	if len(rest.in.Msgs) > 0 {
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
func (w *writer) salvage(err *Error) (failing, rest *Batch) {
	b := w.batch
	failing, rest = b.in.Like(), b.in.Like()
	failing.in.Arena, rest.in.Arena, rest.in.Stage = nil, nil, atWrite
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if _, written := slices.BinarySearch(w.in, int32(i)); written {
			c := m.Heir(key{})
			c.in.Rare, c.Attempt, c.Meta, c.in.Orig, c.in.BatchKey, c.in.Of = m.in.Rare, m.Attempt, m.Meta, m.in.Orig, m.in.BatchKey, m.in.Of
			c.in.Batch, c.in.Part, c.in.Serial, c.in.Dead, c.in.Credits, c.in.Charge, c.in.Stage = failing, m.in.Part, m.in.Serial, m.in.Dead, m.in.Credits, m.in.Charge, atWrite
			c.in.Doc.Reset(m.in.Doc.Payload(), nil)
			e := *err
			c.Fail(&e)
			w.out.r.holds.own(&c, w.out.spot())
			failing.in.Msgs = append(failing.in.Msgs, c)
			continue
		}
		m.in.Doc.Detach()
		if m.in.State != moved && m.in.State != consumed { // in order with those that fail
			w.out.r.holds.own(m, w.out.spot())
		}
		switch m.in.State {
		case moved, consumed:
		case live:
			m.in.Stage = atWrite
			rest.in.Msgs = append(rest.in.Msgs, *m)
		default:
			failing.in.Msgs = append(failing.in.Msgs, *m)
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
