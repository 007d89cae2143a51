package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// Client exchanges messages with the processes of a step or an output.
type Client struct {
	prog  *Program
	cfg   Workers
	whole bool // it gets whole batches
	slots []*slot

	mu sync.Mutex // held while a slot is chosen
}

// NewClient returns a client that has no processes yet.
func NewClient(cfg ClientConfig, kind string, env engine.Env) *Client {
	return &Client{prog: New(cfg.Config, kind, env), cfg: cfg.Workers, whole: env.Whole}
}

// Open locates the program, and starts all processes. An error says that the program can't be used.
func (c *Client) Open(ctx context.Context) error {
	if err := c.prog.Find(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	c.slots = nil
	for i := range c.cfg.Concurrency {
		c.slots = append(c.slots, newSlot(c, i))
	}
	var all sync.WaitGroup
	failed := make([]*engine.Error, len(c.slots))
	for i, s := range c.slots {
		all.Go(func() {
			s.start()
			if failed[i] = s.lastError(); failed[i] == nil && ctx.Err() != nil {
				failed[i] = engine.Errorf(engine.Transient, "the start was interrupted: %w", ctx.Err())
			}
		})
	}
	stop := context.AfterFunc(ctx, func() {
		for _, s := range c.slots {
			s.cancel()
		}
	})
	all.Wait()
	stop()
	for _, err := range failed {
		if err != nil {
			_ = c.Close(context.WithoutCancel(ctx))
			return err
		}
	}
	return nil
}

// Close ends the processes, once they have finished their work.
func (c *Client) Close(ctx context.Context) error {
	var all sync.WaitGroup
	for _, s := range c.slots {
		all.Go(func() { s.close(ctx) })
	}
	all.Wait()
	return nil
}

// Trouble reports a program that can't be started, or says that it is not ready.
func (c *Client) Trouble() *engine.Trouble {
	for _, s := range c.slots {
		if t := s.trouble(); t != nil {
			return t
		}
	}
	return nil
}

// item is a message with its result.
type item struct {
	m *engine.Message
	r *frame.Result
}

// Exchange passes messages to the program, and calls apply with each result, in their order, when all results are there.
func (c *Client) Exchange(ctx context.Context, messages []*engine.Message, apply func(*engine.Message, *frame.Result)) {
	if len(messages) == 0 {
		return
	}
	results, items := make([]frame.Result, len(messages)), make([]item, len(messages))
	for i, m := range messages {
		items[i] = item{m, &results[i]}
	}
	groups := c.groups(items)
	if len(groups) == 1 {
		c.exchangeGroup(ctx, groups[0])
	} else {
		var all sync.WaitGroup
		for _, g := range groups {
			all.Go(func() { c.exchangeGroup(ctx, g) })
		}
		all.Wait()
	}
	for i, m := range messages {
		apply(m, &results[i])
	}
}

// groups divides messages into batches of the program. Messages that are too large fail.
func (c *Client) groups(items []item) (groups [][]item) {
	most := min(c.cfg.Window, len(items))
	switch {
	case c.cfg.Batch > 0:
		most = c.cfg.Batch
	case !c.whole:
		most = min(most, defaultBatch, (len(items)+len(c.slots)-1)/len(c.slots))
	}
	limit := int(c.prog.cfg.MaxMessage)
	start, size := 0, 0
	for i, it := range items {
		n := it.m.Size()
		if n > limit {
			fail(items[i:i+1], engine.Errorf(engine.Permanent, "the message has %d bytes, more than max_message, %s (raise it, if "+
				"messages may be that long)", n, c.prog.cfg.MaxMessage))
		}
		if i > start && (n > limit || i-start == most || size+n > limit) {
			groups, start, size = append(groups, items[start:i]), i, 0
		}
		if n > limit {
			start = i + 1
			continue
		}
		size += n
	}
	if start < len(items) {
		groups = append(groups, items[start:])
	}
	return groups
}

// fail gives messages an error as their result.
func fail(items []item, err *engine.Error) {
	for _, it := range items {
		*it.r = frame.Result{Outcome: frame.Failed, Err: err}
	}
}

// exchangeGroup passes a batch to the process with the least work. If it crashes, the messages that it has not answered
// are tried again.
func (c *Client) exchangeGroup(ctx context.Context, items []item) {
	s := c.leastLoaded(int64(len(items)))
	defer s.load.Add(-int64(len(items)))
	weight := int64(min(len(items), c.cfg.Window))
	if err := s.room.Acquire(ctx, weight); err != nil {
		fail(items, waiting(ctx))
		return
	}
	if left, _ := s.run(ctx, items, weight); len(left) > 0 {
		s.recover(ctx, left)
	}
}

// waiting returns the error of messages whose turn has not come in time. They are not to blame, so it does not count.
func waiting(ctx context.Context) *engine.Error {
	e := late(ctx, "the program was busy with earlier messages for the whole time")
	e.Class, e.Holds = engine.Transient, true
	return e
}

// leastLoaded returns the slot with the least work, and adds n messages to that.
func (c *Client) leastLoaded(n int64) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := slices.MinFunc(c.slots, func(a, b *slot) int { return int(a.load.Load() - b.load.Load()) })
	s.load.Add(n)
	return s
}

// late returns the error of messages whose time is over.
func late(ctx context.Context, what string) *engine.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return engine.Errorf(engine.Timeout, "%s (raise its `timeout`): %w", what, ctx.Err())
	}
	return engine.Errorf(engine.Transient, "the work was cut off: %w", ctx.Err())
}

// timeoutOf returns how long the messages of ctx may take; 0: any time.
func timeoutOf(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), time.Millisecond)
	}
	return 0
}
