package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// run is a pipeline at work. A message is, at any time, in one of: a reader's
// slab, the lane queue, a lane, a batcher's inbox or open batch, an output's
// queue, a writer, or parked; open holds the ledger of its root all the while.
type run struct {
	plan     *Plan
	log      *slog.Logger
	lanes    *laneQueue
	routes   []*batcherRun
	outputs  map[*outputPlan]*outRun
	credits  credits
	open     ledgers
	failures failures

	roots, pieces law
	reading       atomic.Int64  // readers that have not ended
	upstream      atomic.Int64  // messages that lanes have yet to carry
	draining      atomic.Bool   // the end was asked for, not reached
	following     atomic.Int64  // readers among them that only their writers' end ends
	handing       atomic.Bool   // what is unfinished goes back to its source
	handed        atomic.Int64  // roots that did
	empty         chan struct{} // has room for one: nothing is in flight, and no reader left

	fence  sync.RWMutex // held for reading while messages end; see handBack
	closed bool         // guarded by fence: everything has been handed back

	ackCtx   context.Context
	over     context.Context // ends when all that is unfinished goes back
	settling *settleLoop
	mu       sync.Mutex // guards the fields below
	acks     []*ackLoop
	err      error
	failing  chan struct{} // closed with the first error
}

// Run opens everything, runs until all inputs have ended or stop ends, drains,
// closes everything, and reports. When kill ends, it stops hard: what is
// unfinished is handed back at once.
func (p *Plan) Run(stop, kill context.Context) Report {
	r := newRun(p)
	p.current.Store(r)
	err := p.openUntil(stop, kill)
	switch {
	case err == nil:
		r.work(stop, kill)
	case stop.Err() != nil:
		r.draining.Store(true)
		err = nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(kill), r.closing(kill))
	defer cancel()
	r.fail(errors.Join(err, p.close(ctx)))
	return r.report()
}

// closing is the time for Close: after a clean end there is no hurry.
func (r *run) closing(kill context.Context) time.Duration {
	if r.draining.Load() || kill.Err() != nil {
		return r.rest(kill)
	}
	return r.plan.drain
}

// openUntil opens everything; a stop interrupts it.
func (p *Plan) openUntil(stop, kill context.Context) error {
	ctx, cancel := context.WithCancel(kill)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	return p.open(ctx)
}

func newRun(p *Plan) *run {
	r := &run{plan: p, log: p.log, outputs: map[*outputPlan]*outRun{}, empty: make(chan struct{}, 1), failing: make(chan struct{})}
	r.failures.log = p.log
	r.credits = credits{starved: r.relieve, upstream: func() bool { return r.upstream.Load() > 0 }, msgs: p.maxMessages, bytes: p.maxBytes}
	r.lanes = newLaneQueue(p.workers, p.ordered, r.relieve)
	for _, o := range p.outputs {
		r.outputs[o] = newOutRun(r, o)
	}
	for _, b := range p.batchers {
		r.routes = append(r.routes, newBatcherRun(r, b))
	}
	return r
}

// work is the life of a pipeline between opening and closing: start the loops
// from the outputs up, wait until nothing is left or time is up, and stop the
// loops from the inputs down.
func (r *run) work(stop, kill context.Context) {
	reads, stopReading := context.WithCancel(context.Background())
	works, stopWork := context.WithCancel(context.Background())
	batches, stopBatches := context.WithCancel(context.Background())
	acks, stopAcks := context.WithCancel(context.Background())
	defer stopAcks()
	over, end := context.WithCancel(context.Background())
	defer end()
	r.ackCtx, r.over, r.settling = acks, over, startSettling(acks, r.log)

	var readers, loops sync.WaitGroup
	r.start(&loops, works, batches)
	r.startReaders(&readers, reads, over, works)

	why := r.wait(stop, kill, stopReading)
	stopReading()
	if why == allEnded {
		readers.Wait()
	}
	r.handing.Store(why != allEnded)
	if why != allEnded {
		end()
	}
	r.lanes.close()
	for _, o := range r.outputs {
		o.close()
	}
	stopBatches()
	finished := make(chan struct{})
	go func() { readers.Wait(); loops.Wait(); close(finished) }()
	r.finish(why, kill, finished, stopWork)
	r.finishAcks(time.Now().Add(r.rest(kill)), stopAcks)
}

// finish waits for the loops, which are told to end, and hands back what is left.
func (r *run) finish(why ending, kill context.Context, finished <-chan struct{}, stopWork func()) {
	switch why {
	case allEnded:
		until(finished, time.Now().Add(r.rest(kill)), kill.Done())
		stopWork()
		return
	case stopAsked: // what is being written may finish
		until(finished, time.Now().Add(r.plan.drain/5*4), kill.Done())
	}
	stopWork()
	until(finished, time.Now().Add(r.rest(kill)), nil)
	r.handBack()
}

// rest is half of a drain's last fifth: one half is for calls to return, one for
// acks. After a kill it is short.
func (r *run) rest(kill context.Context) time.Duration {
	if kill.Err() != nil {
		return killGrace
	}
	return r.plan.drain / 10
}

const killGrace = 250 * time.Millisecond

// start starts writers, batchers and lanes.
func (r *run) start(loops *sync.WaitGroup, works, batches context.Context) {
	for _, o := range r.plan.outputs {
		for range o.concurrency {
			w := &writer{out: r.outputs[o]}
			loops.Go(func() { w.loop(works) })
		}
	}
	for _, b := range r.routes {
		if b.plan.batcher != nil {
			loops.Go(func() { b.loop(batches) })
		}
	}
	for i := range r.plan.workers {
		l := newLane(r, i, r.plan.steps)
		loops.Go(func() { l.loop(works) })
	}
}

func (r *run) startReaders(readers *sync.WaitGroup, reads, over, works context.Context) {
	for _, in := range r.plan.inputs {
		r.reading.Add(int64(len(in.inputs)))
		if in.follows {
			r.following.Add(int64(len(in.inputs)))
		}
	}
	for _, in := range r.plan.inputs {
		for _, instance := range in.inputs {
			rd := newReader(r, in, instance)
			readers.Go(func() {
				ctx := reads
				if in.follows { // its writers' end stops it
					ctx = over
				}
				err := rd.loop(ctx, works)
				if s, ok := instance.(Stopper); ok && ctx.Err() != nil {
					err = errors.Join(err, guard(works, s.Stop))
				}
				if in.follows {
					r.following.Add(-1)
				}
				r.readerEnded(err)
			})
		}
	}
}

// ending is how a run's work came to its end.
type ending int

const (
	allEnded  ending = iota // nothing is left
	timeIsUp                // the drain's time, but for its last fifth
	killed                  // stop hard
	stopAsked               // by a failure: finish what is being written, return the rest
)

// wait waits until nothing is in flight and no reader is left, or something
// ends the run before.
func (r *run) wait(stop, kill context.Context, stopReading func()) ending {
	var up <-chan time.Time
	stopped := stop.Done()
	for {
		select {
		case <-r.empty:
			return allEnded
		case <-stopped:
			r.draining.Store(true)
			stopReading()
			r.quiesce()
			timer := time.NewTimer(r.plan.drain / 5 * 4)
			defer timer.Stop()
			up, stopped = timer.C, nil
		case <-r.failing:
			return stopAsked
		case <-up:
			return timeIsUp
		case <-kill.Done():
			return killed
		}
	}
}

// until waits for done, a deadline or an interruption.
func until(done <-chan struct{}, deadline time.Time, interrupted <-chan struct{}) {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-interrupted:
	}
}

// handBack ends everything that is still open as returned. Who comes too late
// with a message finds the fence closed.
func (r *run) handBack() {
	r.fence.Lock()
	defer r.fence.Unlock()
	r.closed = true
	t := tally{r: r}
	r.open.returnAll(&t, Errorf(Transient, "the pipeline stopped before this message was finished"))
	t.pieces[Returned] = r.pieces.inFlight.Load()
	t.apply()
}

// enter must be called before messages end and leave after; false: all of them
// have been handed back meanwhile.
func (r *run) enter() bool {
	r.fence.RLock()
	if r.closed {
		r.fence.RUnlock()
		return false
	}
	return true
}

func (r *run) leave() { r.fence.RUnlock() }

func (r *run) readerEnded(err error) {
	if err != nil {
		r.log.Error("input ended", "err", err)
		r.note(err)
	}
	r.reading.Add(-1)
	r.quiesce()
}

// fail ends the run early with an error.
func (r *run) fail(err error) {
	if err == nil {
		return
	}
	r.note(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.failing:
	default:
		close(r.failing)
	}
}

func (r *run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// ends is why batchers must send at once what they hold, or "".
func (r *run) ends() Trigger {
	switch {
	case r.upstream.Load() > 0:
		return ""
	case r.draining.Load() && r.reading.Load() == r.following.Load():
		return ByDrain // what follows may wait for what lies here
	case r.reading.Load() > 0:
		return ""
	}
	return ByEnd
}

// quiesce looks whether an end has been reached: of what comes to the batchers,
// or of all.
func (r *run) quiesce() {
	if r.ends() == "" {
		return
	}
	for _, b := range r.routes {
		if open, _ := b.keeps(); open > 0 {
			b.poke()
		}
	}
	if r.reading.Load() == 0 && r.pieces.inFlight.Load() == 0 {
		select {
		case r.empty <- struct{}{}:
		default:
		}
	}
}

// relieve sends open batches on when readers or lanes wait for credits that
// nothing else can free: to outputs with an idle writer, the oldest first, a
// tenth of the credits. It is called whenever one of its conditions may have
// become true.
func (r *run) relieve() {
	readers, lanes := r.credits.waiting()
	if readers+lanes == 0 || !r.lanes.stuck(lanes) {
		return
	}
	var ask []*batcherRun
	for _, b := range r.routes {
		if b.plan.batcher == nil {
			continue
		}
		open, incoming := b.keeps()
		if incoming {
			return
		}
		for _, o := range b.outputs {
			if open > 0 && o.hungry() {
				ask = append(ask, b)
				break
			}
		}
	}
	for _, b := range ask {
		b.relieve(max(1, r.plan.maxMessages/10))
	}
}

// acksOf is the loop of an acker: the one at work, so that no two call it at once,
// or a new one.
func (r *run) acksOf(to Acker, input string, n int) *ackLoop {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.acks {
		if a.to == to && a.owe(n) {
			return a
		}
	}
	a := startAcks(r.ackCtx, to, input, r.log)
	a.owe(n)
	r.acks = append(slices.DeleteFunc(r.acks, (*ackLoop).ended), a)
	return a
}

// finishAcks waits until sources know everything.
func (r *run) finishAcks(deadline time.Time, cancel func()) {
	r.mu.Lock()
	acks := r.acks
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		for _, a := range acks {
			a.close()
		}
		r.settling.close()
		for _, a := range acks {
			<-a.done
		}
		<-r.settling.done
		close(done)
	}()
	until(done, deadline, nil)
	cancel()
}

func (r *run) report() Report {
	s := Stats{r.roots.read(), r.pieces.read()}
	if !s.Roots.Balanced() || !s.Pieces.Balanced() || s.Pieces.InFlight != 0 || s.Roots.InFlight != 0 {
		r.log.Error("messages are not accounted for: please report this bug", "roots", s.Roots, "pieces", s.Pieces)
	}
	rep := Report{Pipeline: r.plan.Name, Stats: s, Failures: r.failures.all(), Drained: r.draining.Load(), HandedBack: r.handed.Load()}
	r.mu.Lock()
	rep.Err = r.err
	r.mu.Unlock()
	return rep
}
