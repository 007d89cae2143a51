package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// run is a pipeline at work. A message is, at any time, in one of: a reader's
// slab, the lane queue, a lane, a batcher's inbox or open batch, an output's
// queue, a writer, or parked; open holds the ledger of its root all the while.
type run struct {
	account
	life

	plan       *layout
	next       *layout   // that follows; set before replace
	inherited  *Handover // from the one before; nil: nothing
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
	following atomic.Int64 // readers among them that only their writers' end ends
	started   time.Time
	replaying atomic.Int64  // readers that wait for positions to be settled
	retrying  atomic.Int64  // messages that wait for another try
	feeds     int64         // outputs that take more than dead letters
	gates     atomic.Int64  // outputs that are held, of those that take more than dead letters
	empty     chan struct{} // has room for one: nothing is in flight, and no reader left

	expired   context.Context // ends when all that is unfinished goes back
	works     context.Context // of steps and writes
	loops     sync.WaitGroup  // lanes, batchers and writers
	lanesAt   []*lane
	readersAt []*reader
	mu        sync.Mutex // guards the fields below
	err       error
	failing   chan struct{} // closed with the first error
}

func newRun(p *layout, inherited *Handover) *run {
	r := &run{plan: p, inherited: inherited, started: time.Now(), outputs: map[*outputPlan]*outRun{}, composites: map[*outputPlan]*routeRun{}, timers: newTimers(), empty: make(chan struct{}, 1), failing: make(chan struct{})}
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
	r.inherit(inherited)
	return r
}

// begin starts writers, batchers and lanes.
func (r *run) begin(works, batches, expired context.Context) {
	r.works, r.expired = works, expired
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

func (r *run) startReaders(readers *sync.WaitGroup, reads context.Context) {
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
				rd.reenter(r.works)
				ctx := reads
				if in.follows { // its writers' end stops it
					ctx = r.expired
				}
				err := rd.loop(ctx, r.works)
				if s, ok := instance.(Stopper); ok && ctx.Err() != nil && !r.staysOpen(instance) {
					err = errors.Join(err, guard(r.works, s.Stop))
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
	return r.replacing() && r.next.plugins.has(plugin)
}

// handLate hands back what would be tried again only after the drain's end.
func (r *run) handLate() {
	if !r.enter() {
		return
	}
	defer r.leave()
	t := tally{r: r, past: true}
	for _, b := range r.timers.beyond(time.Unix(0, r.life.deadline.Load())) {
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
	r.life.close(func() {
		t := tally{r: r}
		why := Errorf(Transient, "the pipeline stopped before this message was finished")
		why.HandedBack()
		left := r.pieces.inFlight.Load()
		t.pieces[Dropped] = min(t.returnAll(why), left) // a merge is one piece of several roots
		t.pieces[Returned] = left - t.pieces[Dropped]
		t.apply()
	})
}

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
		r.err = Masked(r.plan.secrets, err)
	}
}

// failed is why the run has failed, or nil.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// closeQueues ends lanes and writers when they have done what they are at.
func (r *run) closeQueues() {
	r.lanes.close()
	for _, o := range r.outputs {
		o.close()
	}
}

// retires says whether a write still uses an output, which is closed when that comes
// back.
func (r *run) retires(plugin any) bool {
	for _, o := range r.outputs {
		if o.retire(plugin) {
			return true
		}
	}
	return false
}
