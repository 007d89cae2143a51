package runtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Run opens everything, runs until all inputs have ended or stop ends, drains, closes everything, and returns a report. When
// kill ends, it hands unfinished messages back at once. Run must be called once.
func (p *Plan) Run(stop, kill context.Context) Report {
	defer close(p.ended)
	old := p.before
	p.before = nil
	err := p.renew(old)
	r := stage.NewRun(p.Layout, p.inherited)
	p.continues(r, old)
	p.current.Store(r)
	if err == nil {
		err = p.openUntil(stop, kill)
	}
	switch {
	case err == nil:
		r.Runs()
		p.EmitEvent(engine.Event{Kind: engine.EventStartup})
		p.work(r, stop, kill)
	case stop.Err() != nil:
		r.Drain(time.Time{})
		err = nil
	}
	p.isLast()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(kill), p.closing(r, kill))
	defer cancel()
	closing := p.Plugins.Close(ctx, p.stays, r.Retires)
	r.Fail(errors.Join(err, closing))
	r.Advance(life.Over)
	if p.Replaced() {
		r.Next = p.next.Layout
		p.next.inherited = r.Bequeath(p.next.inherited, closing)
	}
	rep := p.report(r)
	p.EmitEvent(engine.Event{Kind: engine.EventStopped, Err: rep.Err})
	return rep
}

// stays says that the plan that replaces this one keeps a plugin.
func (p *Plan) stays(plugin any) bool { return p.Replaced() && p.next.Plugins.Has(plugin) }

// closing is the time for Close. It is longer after a clean end.
func (p *Plan) closing(r *stage.Run, kill context.Context) time.Duration {
	if r.Draining() || kill.Err() != nil {
		return p.rest(kill)
	}
	return p.DrainTime
}

// openUntil opens everything. A stop interrupts it, unless the plan before has left messages, which can only end, or be
// handed back, when everything is open.
func (p *Plan) openUntil(stop, kill context.Context) error {
	ctx, cancel := context.WithCancel(kill)
	defer cancel()
	if p.inherited.HasRoots() {
		ctx, cancel := context.WithTimeout(ctx, p.DrainTime)
		defer cancel()
		return p.Plugins.Open(ctx)
	}
	defer context.AfterFunc(stop, cancel)()
	return p.Plugins.Open(ctx)
}

// work runs a pipeline between opening and closing: it starts the loops, outputs first, waits until no messages are left or
// the time is up, and stops the loops, inputs first.
func (p *Plan) work(r *stage.Run, stop, kill context.Context) {
	reads, stopReading := context.WithCancel(context.Background())
	works, stopWork := context.WithCancel(context.Background())
	batches, stopBatches := context.WithCancel(context.Background())
	acks, stopAcks := context.WithCancel(context.Background())
	defer stopAcks()
	expired, expire := context.WithCancel(context.Background())
	defer expire()
	var readers sync.WaitGroup
	r.Start(acks)
	r.Begin(works, batches, expired)
	r.StartReaders(&readers, reads)

	why := p.wait(r, stop, kill, stopReading)
	stopReading()
	if why == allEnded {
		readers.Wait()
	} else {
		r.Advance(life.Returning)
		expire()
	}
	r.CloseQueues()
	stopBatches()
	finished := make(chan struct{})
	go func() { readers.Wait(); r.Loops.Wait(); close(finished) }()
	p.finish(r, why, kill, finished, stopWork)
	for _, resume := range p.resumes {
		resume()
	}
	told := p.rest(kill)
	if why == allEnded && !r.Replacing() {
		told = p.closing(r, kill)
	}
	r.FinishAcks(time.Now().Add(told), stopAcks)
}

// finish ends the loops, waits for them, and hands back the messages that are left.
func (p *Plan) finish(r *stage.Run, why end, kill context.Context, finished <-chan struct{}, stopWork func()) {
	switch why {
	case allEnded:
		guard.Until(finished, time.Now().Add(p.rest(kill)), kill.Done())
		stopWork()
		return
	case stopAsked: // writes under way may finish
		guard.Until(finished, time.Now().Add(p.DrainTime/5*4), kill.Done())
	}
	stopWork()
	guard.Until(finished, time.Now().Add(p.rest(kill)), nil)
	if r.Replacing() && why == timeIsUp {
		p.next.inherited = r.HandOver()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(kill), p.rest(kill))
	defer cancel()
	r.HandBack(ctx)
}

// rest is half of the last fifth of a drain. In the first half, calls may return; the second half is for acks. After a kill,
// rest is short.
func (p *Plan) rest(kill context.Context) time.Duration {
	if kill.Err() != nil {
		return guard.KillGrace
	}
	return p.DrainTime / 10
}

// end says why the work of a run has ended.
type end int

const (
	allEnded  end = iota // no messages are left
	timeIsUp             // four fifths of the drain's time are over
	killed               // by the context kill
	stopAsked            // by a failure: writes under way finish, other messages are returned
)

// wait waits until no messages are in flight and all readers have ended, or something ends the run before.
func (p *Plan) wait(r *stage.Run, stop, kill context.Context, stopReading func()) end {
	var up <-chan time.Time
	stopped, drained, replaced := stop.Done(), p.drained, p.replaced
	var yields <-chan struct{}
	for {
		select {
		case <-r.Empty:
			return allEnded
		case <-drained:
			up, drained = p.beginDrain(r, stopReading), nil
		case <-replaced:
			r.Next = p.next.Layout
			r.Replace() // before readers are stopped, since they check it
			stopReading()
			r.Quiesce()
			up, replaced, yields = time.After(reloadTime), nil, p.yields
		case <-yields:
			p.yield()
			yields = nil
		case <-stopped:
			if up == nil {
				up = p.beginDrain(r, stopReading)
			}
			stopped, drained = nil, nil
		case <-r.Failing:
			return stopAsked
		case <-up:
			return timeIsUp
		case <-kill.Done():
			return killed
		}
	}
}

// beginDrain begins a drain, and returns a timer for four fifths of its time.
func (p *Plan) beginDrain(r *stage.Run, stopReading func()) <-chan time.Time {
	most := p.DrainTime / 5 * 4
	r.Drain(time.Now().Add(most))
	stopReading()
	p.EmitEvent(engine.Event{Kind: engine.EventDrain})
	r.HandLate()
	r.Quiesce()
	return time.After(most)
}

func (p *Plan) report(r *stage.Run) Report {
	s := r.Stats()
	if left := s.Pieces.InFlight + s.Roots.InFlight; !s.Roots.Balanced() || !s.Pieces.Balanced() || left != 0 &&
		!r.Replacing() {
		r.Log.Error("messages do not add up: please report this bug", "roots", s.Roots, "pieces", s.Pieces)
	}
	return Report{Pipeline: p.Name, Stats: s, Failures: r.Failures.All(), Drained: r.Draining(),
		HandedBack: r.Handed.Load(), Untold: r.Untold.Load(), Early: r.Early(), Err: r.Failed()}
}
