package stage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/order"
)

// Run is a pipeline at work.
type Run struct {
	ledger.Account // what it owes to sources and steps
	life.Life      // how far it has come, and the fence: whoever ends messages is inside
	traffic        // what moves its messages
	parts          // what they go through
	loops          // that do so
	verdict        // why it ends

	plan      *Layout   // whose run it is
	Next      *Layout   // that follows; set before Replace
	inherited *Handover // what the plan before has left; nil: nothing
	started   time.Time // when it was made
}

// traffic is what moves messages, and the counts by which the run knows that they move.
type traffic struct {
	laneQueue *flow.LaneQueue
	credits   flow.Credits
	pace      flow.Pace
	timers    *flow.Timers
	holds     *order.Holds

	reading   atomic.Int64 // readers that have not ended
	following atomic.Int64 // readers among them that end with the writers that feed them
	replaying atomic.Int64 // readers that wait for positions to be settled
	hurried   atomic.Int64 // inputs that want their messages back soon
	upstream  atomic.Int64 // messages that lanes and groups have yet to carry
	grouped   atomic.Int64 // those of them in open groups
	retrying  atomic.Int64 // messages that wait for another attempt
	shut      atomic.Int64 // outputs that are held, of those that take more than dead letters
	idling    atomic.Int64 // since when lanes work without a result, unix nanoseconds; 0: they don't
}

// parts are what messages go through, in their order.
type parts struct {
	readers    []*reader
	lanes      []*lane
	groups     []*group
	batchers   []*batcher
	sole       *batcher // that takes all messages, without a key; nil: they differ
	composites map[*OutputPlan]*composite
	stages     []*stage // of groups and outputs
	sinks      map[*OutputPlan]*sink
	feeds      int64 // sinks that take more than dead letters
}

// loops are the goroutines beside the readers.
type loops struct {
	Loops   sync.WaitGroup
	works   context.Context // of steps and writes
	expired context.Context // ends when all that is unfinished goes back
}

// verdict is how a run comes to its end.
type verdict struct {
	Empty   chan struct{} // has room for one: nothing is in flight, and no reader left
	Failing chan struct{} // closed with the first error that ends the run
	failed  sync.Once

	mu  sync.Mutex // guards the field below
	err error
}

// NewRun makes a run of a pipeline, which does nothing yet.
func NewRun(p *Layout, inherited *Handover) *Run {
	r := &Run{plan: p, inherited: inherited, started: time.Now()}
	r.Log, r.Timeout = p.Log, p.Timeout
	r.Failures.Log, r.Failures.Secrets = p.Log, p.Secrets
	r.Holding = func(a *ledger.AckLoop) engine.Holding { return &holding{r, a} }
	r.Empty, r.Failing = make(chan struct{}, 1), make(chan struct{})
	r.timers = flow.NewTimers()
	r.credits = flow.Credits{Msgs: p.MaxMessages, Bytes: p.MaxBytes, Most: p.MaxMessages}
	r.credits.Starved, r.credits.Upstream = r.relieve, func() bool { return r.upstream.Load() > 0 }
	r.holds = order.NewHolds(p.Ordered, p.OrderBy, &r.credits, toLanes{r}.Push)
	r.laneQueue = flow.NewLaneQueue(p.Workers, p.Ordered && !p.Turns, r.relieve)
	r.laneQueue.Popped = r.TakeAway
	r.sinks, r.composites = map[*OutputPlan]*sink{}, map[*OutputPlan]*composite{}
	for _, o := range p.Outputs {
		if o.Route == nil {
			r.sinks[o] = newSink(r, o)
			r.stages = append(r.stages, r.sinks[o].stage)
			if o.Feeds {
				r.feeds++
			}
		}
	}
	for _, g := range p.Groups {
		x := newGroup(r, g)
		r.groups, r.stages = append(r.groups, x), append(r.stages, x.stage)
	}
	for _, b := range p.Batchers {
		r.batchers = append(r.batchers, newBatcher(r, b))
	}
	if len(r.batchers) == 1 && p.Batchers[0].Match == nil && p.Batchers[0].Key == nil && !p.Batchers[0].GoesOn {
		r.sole = r.batchers[0]
	}
	for i := range p.Workers {
		r.lanes = append(r.lanes, newLane(r, i))
	}
	for _, in := range p.Inputs {
		for i, instance := range in.Inputs {
			rd := newReader(r, in, instance)
			rd.index = i
			r.readers = append(r.readers, rd)
		}
	}
	r.inherit(inherited)
	return r
}

// Begin starts the workers of the stages, the batchers and the lanes.
func (r *Run) Begin(works, batches, expired context.Context) {
	r.works, r.expired = works, expired
	for _, o := range r.sinks {
		o.isUnopened()
	}
	for _, s := range r.stages {
		s.start()
	}
	for _, b := range r.batchers {
		if b.plan.Batcher != nil {
			r.Loops.Go(func() { b.loop(batches) })
		}
	}
	for _, l := range r.lanes {
		r.Loops.Go(func() { l.loop(r.works) })
	}
	r.Loops.Go(func() { r.timers.Loop(batches) })
	r.Loops.Go(func() { r.watch(batches) })
}

// StartReaders starts a reader for each instance of each input; they read until reads ends.
func (r *Run) StartReaders(readers *sync.WaitGroup, reads context.Context) {
	for _, in := range r.plan.Inputs {
		r.reading.Add(int64(len(in.Inputs)))
		if in.Follows {
			r.following.Add(int64(len(in.Inputs)))
		}
	}
	for _, rd := range r.readers {
		readers.Go(func() {
			rd.reenter(r.works)
			ctx := reads
			if rd.plan.Follows { // its writers' end stops it
				ctx = r.expired
			}
			err := rd.loop(ctx, r.works)
			if s, ok := rd.in.(engine.Stopper); ok && ctx.Err() != nil && !r.staysOpen(rd.in) {
				err = errors.Join(err, guard.Guard(r.works, s.Stop))
			}
			if rd.plan.Follows {
				r.following.Add(-1)
			}
			r.readerEnded(err)
		})
	}
}

// staysOpen says that the plan that replaces this one continues with a plugin.
func (r *Run) staysOpen(plugin any) bool {
	return r.Replacing() && r.Next.Plugins.Has(plugin)
}

func (r *Run) readerEnded(err error) {
	if err != nil {
		r.Log.Error("input ended", "err", err)
		r.note(err)
	}
	r.reading.Add(-1)
	r.Quiesce()
}

// Fail ends the run early with an error.
func (r *Run) Fail(err error) {
	if err == nil {
		return
	}
	r.note(err)
	r.failed.Do(func() { close(r.Failing) })
}

func (r *Run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = guard.Masked(r.plan.Secrets, err)
	}
}

// Failed is why the run has failed, or nil.
func (r *Run) Failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// CloseQueues ends lanes and workers when they are done with the batch at hand.
func (r *Run) CloseQueues() {
	r.laneQueue.Close()
	for _, s := range r.stages {
		s.close()
	}
}

// Retires says whether a write still uses an output. If so, the output is closed when that write comes back.
func (r *Run) Retires(plugin any) bool {
	for _, o := range r.sinks {
		if o.retire(plugin) {
			return true
		}
	}
	return false
}
