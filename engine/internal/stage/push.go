package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
)

// pushed is the instance number of an input's pusher, in ledgers and in what is left to the next plan.
const pushed = -1

// pusher reads messages that are pushed into an input while it runs. It is one more reader of that input: it takes
// credits, obeys the rate limits and runs the input's own steps. A pause does not stop it.
type pusher struct {
	*reader
	asks chan *Push
	over chan struct{} // closed when nothing is read any more
}

func newPusher(x *balance, in *InputPlan) *pusher {
	plan := *in // its source takes back single messages, whatever the input's source does
	plan.Takes, plan.Delays = engine.TakesOne, 0
	plan.Bounded, plan.Early, plan.Follows = false, false, false
	p := &pusher{reader: newReader(x, &plan, nil), asks: make(chan *Push), over: make(chan struct{})}
	p.index = pushed
	return p
}

// Push is messages that are pushed into an input. It is their Acker.
type Push struct {
	ctx  context.Context // of whoever pushes
	msgs []*engine.Message
	read chan struct{} // closed when all messages were read, or will not be
	done chan struct{} // closed when all results are there

	mu      sync.Mutex // guards the fields below
	results []*engine.Result
	left    int
}

var _ engine.Acker = (*Push)(nil)

// NewPush makes a Push of the messages of b, which must not change until Run.Push has returned. ctx is of whoever
// pushes: messages that were not read when it ends are not read later.
func NewPush(ctx context.Context, b *engine.Batch) *Push {
	p := &Push{ctx: ctx, read: make(chan struct{}), done: make(chan struct{})}
	for m := range b.All() {
		p.msgs = append(p.msgs, m)
	}
	p.left = len(p.msgs)
	p.results = make([]*engine.Result, p.left)
	if p.left == 0 {
		close(p.done)
	}
	return p
}

// Done is closed when all messages have ended.
func (p *Push) Done() <-chan struct{} { return p.done }

// Results returns how the messages have ended, in their order; nil: not yet.
func (p *Push) Results() []*engine.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*engine.Result(nil), p.results...)
}

// Ack records results.
func (p *Push) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.left
	for _, r := range results {
		if p.results[r.Ref] == nil {
			p.results[r.Ref] = &r
			p.left--
		}
	}
	if p.left == 0 && before > 0 {
		close(p.done)
	}
	return nil, nil
}

// refuse ends all messages from an index on, which were not read.
func (p *Push) refuse(from int, why error) {
	var results []engine.Result
	err := engine.Errorf(engine.Transient, "it was not read: %w", why).HandedBack()
	for i := from; i < len(p.msgs); i++ {
		results = append(results, engine.Result{Ref: uint64(i), Fate: engine.Returned, Err: err})
	}
	_, _ = p.Ack(p.ctx, results) // can't fail
}

var (
	errUnread   = errors.New("there was no room for it in time")
	errStopped  = errors.New("the pipeline reads no more")
	errReplaced = errors.New("the pipeline is being reloaded")
)

// Push has an input read the messages of p, and returns when it has read them or reads no more. It returns an error if
// there is no such input, or if nothing can be pushed into it now.
func (r *Run) Push(input string, p *Push) error {
	x := r.pushers[input]
	switch {
	case x == nil:
		return fmt.Errorf("pipeline %s has no input %q", r.layout.Name, input)
	case r.layout.ExactlyOnce:
		return fmt.Errorf("nothing can be pushed into pipeline %s, since pushed messages can't take part in the transactions of "+
			"engine.exactly_once", r.layout.Name)
	case !r.IsOpen():
		return fmt.Errorf("pipeline %s is starting, and reads nothing yet", r.layout.Name)
	}
	select {
	case x.asks <- p:
		<-p.read
	case <-p.ctx.Done():
		p.refuse(0, errUnread)
	case <-x.over:
		p.refuse(0, x.whyOver())
	}
	return nil
}

// whyOver is why nothing is read any more.
func (x *pusher) whyOver() error {
	if x.Replacing() {
		return errReplaced
	}
	return errStopped
}

// loop reads what is pushed until reads ends. It begins with messages that the plan before has left.
func (x *pusher) loop(reads, work context.Context, inherited *Handover) {
	defer close(x.over)
	x.reenter(work, inherited)
	x.ends()
	for {
		select {
		case p := <-x.asks:
			x.serve(reads, work, p)
		case <-reads.Done():
			return
		}
	}
}

// serve reads the messages of one push. While it does, it counts as a reader, so that the run does not end.
func (x *pusher) serve(reads, work context.Context, p *Push) {
	defer close(p.read)
	if !x.begins() {
		p.refuse(0, errStopped)
		return
	}
	defer x.ends()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	defer context.AfterFunc(reads, cancel)()
	next := 0
	for next < len(p.msgs) && ctx.Err() == nil {
		next += x.readSome(ctx, reads, work, p, next)
	}
	if x.acks != nil {
		x.acks.Close()
		x.acks = nil
	}
	switch {
	case next == len(p.msgs):
	case reads.Err() != nil:
		p.refuse(next, x.whyOver())
	default:
		p.refuse(next, errUnread)
	}
}

// readSome reads messages of p from an index on, as many as credits and limits allow now, and returns how many.
func (x *pusher) readSome(ctx, reads, work context.Context, p *Push, from int) (n int) {
	x.keepPace(ctx)
	room := x.room(ctx)
	if room == 0 {
		return 0
	}
	b := flow.NewSlab(room)
	for from+n < len(p.msgs) && b.Room() > 0 {
		src := p.msgs[from+n]
		m := b.Add(src.Bytes())
		m.Ref, m.Meta = uint64(from+n), src.Meta
		n++
	}
	slab(b).Room = 0
	if n < room {
		x.credits.Put(room-n, 0, 0)
	}
	if !x.receive(reads, work, b, p) {
		return 0
	}
	return n
}

// begins counts the pusher as a reader, unless no reader is left: the run may be over then.
func (x *pusher) begins() bool {
	reading := &x.balance.intake.reading
	for n := reading.Load(); n > 0; n = reading.Load() {
		if reading.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// ends is the end of what begins began.
func (x *pusher) ends() {
	x.balance.intake.reading.Add(-1)
	x.balance.quiesce()
}
