package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run opens everything, runs until all inputs have ended or stop ends, drains,
// closes everything, and reports. When kill ends, it stops hard: what is
// unfinished is handed back at once.
func (p *Plan) Run(stop, kill context.Context) Report {
	err := p.renew()
	r := newRun(p.layout, p.inherited)
	p.current.Store(r)
	if err == nil {
		err = p.openUntil(stop, kill)
	}
	switch {
	case err == nil:
		r.runs()
		p.emitEvent(Event{Kind: EventStartup})
		p.work(r, stop, kill)
	case stop.Err() != nil:
		r.drain(time.Time{})
		err = nil
	}
	p.isLast()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(kill), p.closing(r, kill))
	defer cancel()
	closing := p.plugins.close(ctx, p.stays, r.retires)
	r.fail(errors.Join(err, closing))
	r.advance(over)
	if p.Replaced() {
		r.next = p.next.layout
		p.next.inherited = r.bequeath(p.next.inherited, closing)
	}
	rep := p.report(r)
	p.emitEvent(Event{Kind: EventStopped, Err: rep.Err})
	return rep
}

// stays says that the plan which takes this one's place goes on with a plugin.
func (p *Plan) stays(plugin any) bool { return p.Replaced() && p.next.plugins.has(plugin) }

// closing is the time for Close: after a clean end there is no hurry.
func (p *Plan) closing(r *run, kill context.Context) time.Duration {
	if r.draining() || kill.Err() != nil {
		return p.rest(kill)
	}
	return p.drain
}

// openUntil opens everything; a stop interrupts it, unless a plan before has left
// messages: to end them, and be it to hand them back, takes what is open.
func (p *Plan) openUntil(stop, kill context.Context) error {
	ctx, cancel := context.WithCancel(kill)
	defer cancel()
	if h := p.inherited; h != nil && len(h.roots) > 0 {
		ctx, cancel := context.WithTimeout(ctx, p.drain)
		defer cancel()
		return p.plugins.open(ctx)
	}
	defer context.AfterFunc(stop, cancel)()
	return p.plugins.open(ctx)
}

// work is the life of a pipeline between opening and closing: start the loops
// from the outputs up, wait until nothing is left or time is up, and stop the
// loops from the inputs down.
func (p *Plan) work(r *run, stop, kill context.Context) {
	reads, stopReading := context.WithCancel(context.Background())
	works, stopWork := context.WithCancel(context.Background())
	batches, stopBatches := context.WithCancel(context.Background())
	acks, stopAcks := context.WithCancel(context.Background())
	defer stopAcks()
	expired, expire := context.WithCancel(context.Background())
	defer expire()
	var readers sync.WaitGroup
	r.start(acks)
	r.begin(works, batches, expired)
	r.startReaders(&readers, reads)

	why := p.wait(r, stop, kill, stopReading)
	stopReading()
	if why == allEnded {
		readers.Wait()
	} else {
		r.advance(returning)
		expire()
	}
	r.closeQueues()
	stopBatches()
	finished := make(chan struct{})
	go func() { readers.Wait(); r.loops.Wait(); close(finished) }()
	p.finish(r, why, kill, finished, stopWork)
	r.finishAcks(time.Now().Add(p.rest(kill)), stopAcks)
}

// finish waits for the loops, which are told to end, and hands back what is left.
func (p *Plan) finish(r *run, why end, kill context.Context, finished <-chan struct{}, stopWork func()) {
	switch why {
	case allEnded:
		until(finished, time.Now().Add(p.rest(kill)), kill.Done())
		stopWork()
		return
	case stopAsked: // what is being written may finish
		until(finished, time.Now().Add(p.drain/5*4), kill.Done())
	}
	stopWork()
	until(finished, time.Now().Add(p.rest(kill)), nil)
	if r.replacing() && why == timeIsUp {
		p.next.inherited = r.leaves()
		return
	}
	r.handBack()
}

// rest is half of a drain's last fifth: one half is for calls to return, one for
// acks. After a kill it is short.
func (p *Plan) rest(kill context.Context) time.Duration {
	if kill.Err() != nil {
		return killGrace
	}
	return p.drain / 10
}

// end is how a run's work came to its end.
type end int

const (
	allEnded  end = iota // nothing is left
	timeIsUp             // the drain's time, but for its last fifth
	killed               // stop hard
	stopAsked            // by a failure: finish what is being written, return the rest
)

// wait waits until nothing is in flight and no reader is left, or something
// ends the run before.
func (p *Plan) wait(r *run, stop, kill context.Context, stopReading func()) end {
	var up <-chan time.Time
	stopped, drained, replaced := stop.Done(), p.drained, p.replaced
	for {
		select {
		case <-r.empty:
			return allEnded
		case <-drained:
			up, drained = p.beginDrain(r, stopReading), nil
		case <-replaced:
			r.next = p.next.layout
			r.replace() // readers look when they are told to stop
			stopReading()
			r.quiesce()
			up, replaced = time.After(reloadTime), nil
		case <-stopped:
			if up == nil {
				up = p.beginDrain(r, stopReading)
			}
			stopped, drained = nil, nil
		case <-r.failing:
			return stopAsked
		case <-up:
			return timeIsUp
		case <-kill.Done():
			return killed
		}
	}
}

// beginDrain begins a drain and says when its time is up.
func (p *Plan) beginDrain(r *run, stopReading func()) <-chan time.Time {
	most := p.drain / 5 * 4
	r.drain(time.Now().Add(most))
	stopReading()
	p.emitEvent(Event{Kind: EventDrain})
	r.handLate()
	r.quiesce()
	return time.After(most)
}

func (p *Plan) report(r *run) Report {
	s := Stats{r.roots.read(), r.pieces.read()}
	if left := s.Pieces.InFlight + s.Roots.InFlight; !s.Roots.Balanced() || !s.Pieces.Balanced() || left != 0 && !r.replacing() {
		r.log.Error("messages are not accounted for: please report this bug", "roots", s.Roots, "pieces", s.Pieces)
	}
	return Report{Pipeline: p.Name, Stats: s, Failures: r.failures.all(), Drained: r.draining(), HandedBack: r.handed.Load(), Err: r.failed()}
}
