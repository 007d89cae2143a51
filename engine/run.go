package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// run is a pipeline at work. A message is, at any time, in one of: a reader's
// slab, the lane queue, a lane, a batcher's inbox or open batch, an output's
// queue, a writer, or parked; open holds the ledger of its root all the while.
type run struct {
	account

	plan       *Plan
	lanes      *laneQueue
	routes     []*batcherRun
	sole       *batcherRun             // that takes all messages, without a key; nil: they differ
	outputs    map[*outputPlan]*outRun // those of groups among them
	groups     []*groupRun
	composites map[*outputPlan]*routeRun
	holds      *holds
	timers     *timers
	credits    credits
	pace       pace

	reading   atomic.Int64 // readers that have not ended
	upstream  atomic.Int64 // messages that lanes and groups have yet to carry
	grouped   atomic.Int64 // those of them that lie in groups that are open
	draining  atomic.Bool  // the end was asked for, not reached
	following atomic.Int64 // readers among them that only their writers' end ends
	handing   atomic.Bool  // what is unfinished goes back to its source
	replacing atomic.Bool  // another plan is to take this one's place
	running   atomic.Bool  // everything is open
	ended     atomic.Bool  // the run is over
	started   time.Time
	replaying atomic.Int64  // readers that wait for positions to be settled
	retrying  atomic.Int64  // messages that wait for another try
	feeds     int64         // outputs that take more than dead letters
	gates     atomic.Int64  // outputs that are held, of those that take more than dead letters
	deadline  atomic.Int64  // of the drain, unix nanoseconds; 0: none
	empty     chan struct{} // has room for one: nothing is in flight, and no reader left

	fence  sync.RWMutex // held for reading while messages end; see handBack
	closed bool         // guarded by fence: everything has been handed back

	over      context.Context // ends when all that is unfinished goes back
	works     context.Context // of steps and writes
	loops     sync.WaitGroup  // lanes, batchers and writers
	lanesAt   []*lane
	readersAt []*reader
	mu        sync.Mutex // guards the fields below
	err       error
	failing   chan struct{} // closed with the first error
}

// Run opens everything, runs until all inputs have ended or stop ends, drains,
// closes everything, and reports. When kill ends, it stops hard: what is
// unfinished is handed back at once.
func (p *Plan) Run(stop, kill context.Context) Report {
	err := p.renew()
	r := newRun(p)
	p.current.Store(r)
	if err == nil {
		err = p.openUntil(stop, kill)
	}
	switch {
	case err == nil:
		r.running.Store(true)
		p.emitEvent(Event{Kind: EventStartup})
		r.work(stop, kill)
	case stop.Err() != nil:
		r.draining.Store(true)
		err = nil
	}
	p.isLast()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(kill), r.closing(kill))
	defer cancel()
	closing := p.close(ctx)
	r.fail(errors.Join(err, closing))
	r.ended.Store(true)
	if p.Replaced() {
		r.bequeath(closing)
	}
	rep := r.report()
	p.emitEvent(Event{Kind: EventStopped, Err: rep.Err})
	return rep
}

// closing is the time for Close: after a clean end there is no hurry.
func (r *run) closing(kill context.Context) time.Duration {
	if r.draining.Load() || kill.Err() != nil {
		return r.rest(kill)
	}
	return r.plan.drain
}

// openUntil opens everything; a stop interrupts it, unless a plan before has left
// messages: to end them, and be it to hand them back, takes what is open.
func (p *Plan) openUntil(stop, kill context.Context) error {
	ctx, cancel := context.WithCancel(kill)
	defer cancel()
	if h := p.inherited; h != nil && len(h.roots) > 0 {
		ctx, cancel := context.WithTimeout(ctx, p.drain)
		defer cancel()
		return p.open(ctx)
	}
	defer context.AfterFunc(stop, cancel)()
	return p.open(ctx)
}

func newRun(p *Plan) *run {
	r := &run{plan: p, started: time.Now(), outputs: map[*outputPlan]*outRun{}, composites: map[*outputPlan]*routeRun{}, timers: newTimers(), empty: make(chan struct{}, 1), failing: make(chan struct{})}
	r.log, r.timeout = p.log, p.timeout
	r.failures.log, r.failures.secrets = p.log, p.secrets
	r.credits = credits{starved: r.relieve, upstream: func() bool { return r.upstream.Load() > 0 }, msgs: p.maxMessages, bytes: p.maxBytes, most: p.maxMessages}
	r.holds = newHolds(p.ordered, p.orderBy, &r.credits, toLanes{r}.push)
	r.lanes = newLaneQueue(p.workers, p.ordered, r.relieve)
	r.lanes.popped = r.takeAway
	for _, o := range p.outputs {
		if o.route == nil {
			r.outputs[o] = newOutRun(r, o)
			if o.feeds {
				r.feeds++
			}
		}
	}
	for _, g := range p.groups {
		x := newGroupRun(r, g)
		r.groups, r.outputs[&g.outputPlan] = append(r.groups, x), x.out
	}
	for _, b := range p.batchers {
		r.routes = append(r.routes, newBatcherRun(r, b))
	}
	if len(r.routes) == 1 && p.batchers[0].match == nil && p.batchers[0].key == nil && !p.batchers[0].goesOn {
		r.sole = r.routes[0]
	}
	r.inherit(p.inherited)
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
	r.over = over
	r.start(acks)

	r.works = works
	r.begin(batches)
	var readers sync.WaitGroup
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
	go func() { readers.Wait(); r.loops.Wait(); close(finished) }()
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
	if r.replacing.Load() && why == timeIsUp {
		r.plan.next.inherited = r.leaves()
		return
	}
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

// begin starts writers, batchers and lanes.
func (r *run) begin(batches context.Context) {
	for _, o := range r.outputs {
		for range o.plan.concurrency {
			o.writers = append(o.writers, newWriter(o))
		}
	}
	for _, o := range r.outputs {
		for _, w := range o.writers {
			r.loops.Add(1)
			go r.write(w)
		}
	}
	for _, b := range r.routes {
		if b.plan.batcher != nil {
			r.loops.Go(func() { b.loop(batches) })
		}
	}
	for i := range r.plan.workers {
		l := newLane(r, i)
		r.lanesAt = append(r.lanesAt, l)
		r.loops.Go(func() { l.loop(r.works) })
	}
	r.loops.Go(func() { r.timers.loop(batches) })
	r.loops.Go(func() { r.watch(batches) })
}

// write runs a writer. One whose call was abandoned has left its place to another.
func (r *run) write(w *writer) {
	if w.loop(r.works) {
		r.loops.Done()
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
		for i, instance := range in.inputs {
			rd := newReader(r, in, instance)
			rd.index = i
			r.readersAt = append(r.readersAt, rd)
			readers.Go(func() {
				rd.reenter(works)
				ctx := reads
				if in.follows { // its writers' end stops it
					ctx = over
				}
				err := rd.loop(ctx, works)
				if s, ok := instance.(Stopper); ok && ctx.Err() != nil && !r.staysOpen(instance) {
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

// staysOpen says that the plan that takes this one's place goes on with a plugin.
func (r *run) staysOpen(plugin any) bool {
	return r.replacing.Load() && slices.Contains(r.plan.next.adopted, plugin)
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
	stopped, drained, replaced := stop.Done(), r.plan.drained, r.plan.replaced
	for {
		select {
		case <-r.empty:
			return allEnded
		case <-drained:
			up, drained = r.drain(stopReading), nil
		case <-replaced:
			r.replacing.Store(true) // readers look when they are told to stop
			stopReading()
			r.quiesce()
			up, replaced = time.After(reloadTime), nil
		case <-stopped:
			if up == nil {
				up = r.drain(stopReading)
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

// drain begins a drain and says when its time is up.
func (r *run) drain(stopReading func()) <-chan time.Time {
	r.draining.Store(true)
	r.deadline.Store(time.Now().Add(r.plan.drain / 5 * 4).UnixNano())
	stopReading()
	r.plan.emitEvent(Event{Kind: EventDrain})
	r.handLate()
	r.quiesce()
	return time.After(r.plan.drain / 5 * 4)
}

// tooLate says that a drain will have ended before a time.
func (r *run) tooLate(at time.Time) bool {
	d := r.deadline.Load()
	return r.handing.Load() || d > 0 && at.UnixNano() > d
}

// handLate hands back what would be tried again only after the drain's end.
func (r *run) handLate() {
	if !r.enter() {
		return
	}
	defer r.leave()
	t := tally{r: r, past: true}
	for _, b := range r.timers.beyond(time.Unix(0, r.deadline.Load())) {
		r.waited(b)
		for i := range b.in.Msgs {
			t.hand(&b.in.Msgs[i])
		}
	}
	t.apply()
}

// handBack ends everything that is still open as returned, or as lost where a source
// takes nothing back. Who comes too late with a message finds the fence closed.
func (r *run) handBack() {
	r.fence.Lock()
	defer r.fence.Unlock()
	r.closed = true
	t := tally{r: r}
	why := Errorf(Transient, "the pipeline stopped before this message was finished")
	why.unfinished = true
	left := r.pieces.inFlight.Load()
	t.pieces[Dropped] = min(r.open.returnAll(&t, why), left) // a merge is one piece of several roots
	t.pieces[Returned] = left - t.pieces[Dropped]
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
		r.err = without(r.plan.secrets, err)
	}
}

func (r *run) report() Report {
	s := Stats{r.roots.read(), r.pieces.read()}
	if left := s.Pieces.InFlight + s.Roots.InFlight; !s.Roots.Balanced() || !s.Pieces.Balanced() || left != 0 && !r.replacing.Load() {
		r.log.Error("messages are not accounted for: please report this bug", "roots", s.Roots, "pieces", s.Pieces)
	}
	rep := Report{Pipeline: r.plan.Name, Stats: s, Failures: r.failures.all(), Drained: r.draining.Load(), HandedBack: r.handed.Load()}
	r.mu.Lock()
	rep.Err = r.err
	r.mu.Unlock()
	return rep
}
