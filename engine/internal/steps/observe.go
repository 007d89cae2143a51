package steps

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Sight tells observers and the tracer of the messages that pass spots. Its goroutine is that of one executor or writer. The zero
// Sight has none of them.
type Sight struct {
	Observers []engine.Observer
	Tracer    engine.Tracer
	Emit      func(engine.Event) // calls hooks; nil: there are none
	before    [][]any            // by observer: what it has noted of the first messages of a selection
	traced    []int              // the messages of the call under way that the tracer follows, as indexes of the selection
	call      any                // what the tracer has noted of the call
}

// Read is called when an input has read b, for the first time or again, after a reload.
func (s *Sight) Read(at *engine.Spot, b *engine.Batch, again bool) {
	if at == nil {
		return
	}
	if s.Tracer != nil {
		s.Tracer.Read(at, b, again)
	}
	s.observe(at, b, engine.PassedOn)
}

// Begin is called before a step or an output gets the messages sel of b. It returns the context of the call, and whether Passed
// must be called.
func (s *Sight) Begin(ctx context.Context, at *engine.Spot, b *engine.Batch, sel []int32) (within context.Context, observed bool) {
	if at == nil {
		return ctx, false
	}
	if s.before == nil {
		s.before = make([][]any, len(s.Observers))
	}
	for o, observer := range s.Observers {
		for _, i := range sel[:wanted(observer, at, len(sel))] {
			s.before[o], observed = append(s.before[o], observer.Before(at, &slab(b).Msgs[i])), true
		}
	}
	if s.Tracer == nil {
		return ctx, observed
	}
	var led followed
	var traced []*engine.Message
	for n, i := range sel {
		if m := &slab(b).Msgs[i]; led.has(m) {
			traced, s.traced = append(traced, m), append(s.traced, n)
		}
	}
	if len(traced) > 0 {
		ctx, s.call = s.Tracer.Call(ctx, at, b, len(sel), traced)
		observed = true
	}
	return ctx, observed
}

// Passed is called after a step or an output has had the messages sel of b, and before what it did is carried out. done is
// the passage of a message that goes on.
func (s *Sight) Passed(at *engine.Spot, b *engine.Batch, sel []int32, done engine.Passage) {
	for o, observer := range s.Observers {
		for n, before := range s.before[o] {
			observer.After(at, before, b, &slab(b).Msgs[sel[n]], passage(b, int(sel[n]), done))
		}
		clear(s.before[o])
		s.before[o] = s.before[o][:0]
	}
	for _, n := range s.traced {
		s.Tracer.Called(s.call, at, &slab(b).Msgs[sel[n]], passage(b, int(sel[n]), done))
	}
	s.traced, s.call = s.traced[:0], nil
}

// Stepped tells hooks of a call of a step that is over. began is when it began.
func (s *Sight) Stepped(name string, b *engine.Batch, sel []int32, began time.Time) {
	if s.Emit == nil {
		return
	}
	e := engine.Event{Kind: engine.EventStep, Name: name, N: len(sel), Took: time.Since(began)}
	for _, i := range sel {
		if m := msg(&slab(b).Msgs[i]); m.State == inside.Failed {
			e.Err = m.Err
			break
		}
	}
	s.Emit(e)
}

// Failed is called when a message has failed in a call that began at a time, after Passed.
func (s *Sight) Failed(at *engine.Spot, m *engine.Message, began time.Time) {
	if s.Tracer != nil && at != nil && !isFollowed(m) {
		s.Tracer.Failed(at, m, began)
	}
}

// Resumed is called when a message goes on that waited since a call. done is the passage of one that has not failed.
func (s *Sight) Resumed(at *engine.Spot, m *engine.Message, done engine.Passage) {
	switch msg(m).State {
	case inside.Failed:
		done = engine.FailedThere
	case inside.Dropped:
		done = engine.FilteredOut
	}
	switch {
	case s.Tracer == nil || at == nil:
	case isFollowed(m):
		s.Tracer.Resumed(at, m, done)
	case done == engine.FailedThere:
		s.Tracer.Failed(at, m, time.Time{})
	}
}

// All is called when all messages of b have entered a batcher, or left it in a batch.
func (s *Sight) All(at *engine.Spot, b *engine.Batch, how engine.Passage) {
	if at == nil {
		return
	}
	s.observe(at, b, how)
	if s.Tracer == nil {
		return
	}
	var led followed
	var traced []*engine.Message
	for i := range slab(b).Msgs {
		if m := &slab(b).Msgs[i]; led.has(m) {
			traced = append(traced, m)
		}
	}
	switch {
	case len(traced) == 0:
	case how == engine.BatchedThere:
		s.Tracer.Batched(at, b, traced)
	default:
		for _, m := range traced {
			s.Tracer.Passed(at, m, how, time.Time{})
		}
	}
}

// observe tells observers that all messages of b have passed a spot.
func (s *Sight) observe(at *engine.Spot, b *engine.Batch, how engine.Passage) {
	for _, observer := range s.Observers {
		n := wanted(observer, at, len(slab(b).Msgs))
		for i := range slab(b).Msgs[:n] {
			m := &slab(b).Msgs[i]
			passed := how
			if msg(m).State == inside.Failed {
				passed = engine.FailedThere
			}
			observer.After(at, nil, b, m, passed)
		}
	}
}

// One is called when a message has passed a spot: without a call, or in a call that began at a time and did not return.
func (s *Sight) One(at *engine.Spot, b *engine.Batch, m *engine.Message, how engine.Passage, began time.Time) {
	if at == nil {
		return
	}
	for _, observer := range s.Observers {
		if wanted(observer, at, 1) > 0 {
			observer.After(at, nil, b, m, how)
		}
	}
	switch {
	case s.Tracer == nil:
	case isFollowed(m):
		s.Tracer.Passed(at, m, how, began)
	case how == engine.FailedThere:
		s.Tracer.Failed(at, m, began)
	}
}

// wanted returns how many of n messages an observer wants to see.
func wanted(o engine.Observer, at *engine.Spot, n int) int { return max(0, min(o.Wants(at, n), n)) }

// followed finds the messages that the tracer follows. Most messages of a batch were read together.
type followed struct {
	last engine.Origin
	any  bool // of those that were read with it
}

func (f *followed) has(m *engine.Message) bool {
	if len(msg(m).Of) > 0 {
		return isFollowed(m)
	}
	o := msg(m).Origin
	if !o.ReadWith(f.last) {
		f.any = o.WithFollowed()
	}
	f.last = o
	return f.any && o.Trace() != nil
}

// isFollowed reports whether the tracer follows m, or a part of a merge.
func isFollowed(m *engine.Message) (is bool) {
	for i := range msg(m).Of {
		is = is || isFollowed(&msg(m).Of[i])
	}
	return is || msg(m).Origin.Trace() != nil
}

// passage returns what a step or an output has done with a message. done is the passage of one that goes on.
func passage(b *engine.Batch, i int, done engine.Passage) engine.Passage {
	switch msg(&slab(b).Msgs[i]).State {
	case inside.Dropped:
		return engine.FilteredOut
	case inside.Failed:
		return engine.FailedThere
	case inside.Parked, inside.Waits:
		return engine.IsWaiting
	case inside.Consumed:
		for _, s := range slab(b).Splits {
			if s.I == i {
				return engine.SplitUp
			}
		}
		return engine.MergedInto
	}
	return done
}
