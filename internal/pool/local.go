package pool

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/inner"
)

// Local is a Transport to slots of this process.
type Local struct {
	pool  *Pool
	steps engine.Runner

	mu      sync.Mutex // guards the fields below
	free    int
	queue   []task
	running map[task]*run
}

type task struct {
	c   *Call
	try int
}

// run is a task on a slot.
type run struct {
	cancel context.CancelCauseFunc
	lost   bool // it does not return, and has lost its slot
}

// NewLocal makes the transport to n slots.
func NewLocal(p *Pool, steps engine.Runner, slots int) *Local {
	return &Local{pool: p, steps: steps, free: slots, running: map[task]*run{}}
}

// Launch queues an attempt for the next free slot.
func (l *Local) Launch(c *Call, try int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, task{c, try})
	l.pump()
}

// pump fills the free slots. l.mu is held.
func (l *Local) pump() {
	for l.free > 0 && len(l.queue) > 0 {
		t := l.queue[0]
		l.queue[0] = task{}
		l.queue = l.queue[1:]
		ctx, cancel := context.WithCancelCause(context.Background())
		r := &run{cancel: cancel}
		l.free--
		l.running[t] = r
		go l.work(ctx, t, r)
	}
}

func (l *Local) work(ctx context.Context, t task, r *run) {
	if l.pool.Taken(t.c.ID, t.try) {
		result, err := Run(ctx, l.steps, slices.Collect(t.c.Jobs.All()))
		l.pool.Answer(t.c.ID, t.try, result, err)
	}
	r.cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, t)
	if !r.lost {
		l.free++
		l.pump()
	}
}

// Revoke stops an attempt. If its steps do not react, they lose their slot.
func (l *Local) Revoke(c *Call, try int) {
	t := task{c, try}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.running[t]
	if r == nil {
		l.queue = slices.DeleteFunc(l.queue, func(q task) bool { return q == t })
		return
	}
	r.cancel(ErrRevoked)
	time.AfterFunc(l.pool.Timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[t] == r && !r.lost {
			r.lost = true
			l.free++
			l.pump()
		}
	})
}

// Run runs steps on copies of messages. It turns a panic of the steps into an error.
func Run(ctx context.Context, steps engine.Runner, of []*engine.Message) (r *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, engine.Errorf(engine.Panicked, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	b := inner.Copy(of)
	if err := steps.Run(ctx, b); err != nil {
		return nil, err
	}
	return Gather(b, of), nil
}
