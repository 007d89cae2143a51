package flow

import (
	"context"
	"slices"
	"sync"
)

// Credits limit the messages and bytes that are in flight in a pipeline. Three kinds of waiters get free credits in this
// order: lanes that split messages, messages that lack bytes to grow, and readers. Lanes and messages wait only while
// others can give credits back; otherwise they overdraw the credits. Nothing else waits. Credits are safe for concurrent
// use.
type Credits struct {
	Starved  func()      // called without the lock when a waiter begins to wait
	Upstream func() bool // whether lanes have work, so that a reader that splits can wait for it

	mu      sync.Mutex // guards the fields below
	Msgs    int        // free messages; negative: overdrawn
	Bytes   int        // free bytes; negative: overdrawn
	beyond  int        // messages that have left the lanes and have not ended
	Most    int        // all messages, free or not
	kept    int        // messages that wait outside the queues: for an attempt, a key or a rate limit
	shut    bool       // all outputs are held, so readers pause
	lanes   []*waiter
	line    []*InLine // messages that wait for bytes; see growth.go of package steps
	given   bool      // bytes were given back since the last call of Stalls
	readers []*waiter
}

// InLine is a message that waits until so many bytes are free.
type InLine struct {
	Bytes, Msgs int
	Grown       int             // bytes that earlier steps have added to it
	GoOn        func(bytes int) // lets it continue; called under the lock
}

type waiter struct {
	want, got int
	reads     bool
	ready     chan struct{}
}

// Read takes credits for up to want messages, and returns for how many; 0: ctx has ended first. If it has to wait, it calls
// waits with true, and with false when the wait is over. first says that it waits in front of other readers.
func (c *Credits) Read(ctx context.Context, want int, first bool, waits func(yes bool)) int {
	c.mu.Lock()
	if len(c.lanes) == 0 && len(c.line) == 0 && len(c.readers) == 0 && c.open() {
		defer c.mu.Unlock()
		return c.grant(want)
	}
	waits(true)
	defer waits(false)
	w := &waiter{want: want, ready: make(chan struct{})}
	at := len(c.readers)
	if first {
		at = 0
	}
	return c.wait(ctx, w, &c.readers, at)
}

// Split takes credits for up to want parts, and returns for how many. It overdraws the credits if waiting can't help.
func (c *Credits) Split(ctx context.Context, want int, reads bool) int {
	c.mu.Lock()
	w := &waiter{want: want, reads: reads, ready: make(chan struct{})}
	if c.free() {
		defer c.mu.Unlock()
		return c.grant(want)
	}
	if c.helpless(w) {
		defer c.mu.Unlock()
		c.Msgs -= want
		return want
	}
	return c.wait(ctx, w, &c.lanes, len(c.lanes))
}

// helpless says that nobody will give credits back while w waits.
func (c *Credits) helpless(w *waiter) bool {
	return c.beyond == 0 && !(w.reads && c.Upstream())
}

// Recheck checks again whether waiters can continue.
func (c *Credits) Recheck() { c.Put(0, 0, 0) }

// wait queues up in a list, at a place, until w gets credits. c.mu is held, and released.
func (c *Credits) wait(ctx context.Context, w *waiter, in *[]*waiter, at int) int {
	*in = slices.Insert(*in, at, w)
	c.mu.Unlock()
	c.Starved()
	select {
	case <-w.ready:
	case <-ctx.Done():
		c.mu.Lock()
		*in = slices.DeleteFunc(*in, func(x *waiter) bool { return x == w })
		c.mu.Unlock()
	}
	return w.got
}

func (c *Credits) free() bool { return c.Msgs > 0 && c.Bytes > 0 }

// open says whether readers may read. They pause while messages that wait have half of the credits, and while all outputs
// are held.
func (c *Credits) open() bool { return c.free() && 2*c.kept < c.Most && !c.shut }

// Keep counts n more messages that wait outside the queues, or with n < 0 fewer.
func (c *Credits) Keep(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	c.kept += n
	c.mu.Unlock()
	if n < 0 {
		c.Recheck()
	}
}

// Close makes readers pause, or continue.
func (c *Credits) Close(shut bool) {
	c.mu.Lock()
	c.shut = shut
	c.mu.Unlock()
	c.Recheck()
}

func (c *Credits) grant(want int) int {
	n := min(want, c.Msgs)
	c.Msgs -= n
	return n
}

// Charge takes credits without waiting, even if it overdraws them.
func (c *Credits) Charge(msgs, bytes int) {
	c.mu.Lock()
	c.Msgs -= msgs
	c.Bytes -= bytes
	c.mu.Unlock()
}

// Put gives credits back, and changes the number of messages beyond the lanes. Waiters then get what is free.
func (c *Credits) Put(msgs, bytes, beyond int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Msgs += msgs
	c.Bytes += bytes
	c.beyond += beyond
	c.given = c.given || bytes > 0
	for i := 0; i < len(c.lanes); {
		w := c.lanes[i]
		switch {
		case c.free():
			w.got = c.grant(w.want)
		case c.helpless(w):
			c.Msgs -= w.want
			w.got = w.want
		default:
			i++
			continue
		}
		c.lanes = slices.Delete(c.lanes, i, i+1)
		close(w.ready)
	}
	for len(c.line) > 0 && (c.Bytes >= c.line[0].Bytes || c.beyond == 0 && !c.Upstream()) {
		c.releaseFirst()
	}
	for len(c.lanes) == 0 && len(c.line) == 0 && len(c.readers) > 0 && c.open() {
		w := c.readers[0]
		c.readers = c.readers[1:]
		w.got = c.grant(w.want)
		close(w.ready)
	}
}

// Take takes bytes if that many are free, and says whether it has.
func (c *Credits) Take(bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Bytes < bytes {
		return false
	}
	c.Bytes -= bytes
	return true
}

// LineUp makes a message, which counted as beyond the lanes, wait for bytes in front of the readers. The message to which
// steps have added most comes first, since its end gives most back. A message that has overdrawn the credits and waits
// again therefore stays first, so that no second one overdraws them.
func (c *Credits) LineUp(w *InLine) {
	c.mu.Lock()
	at, _ := slices.BinarySearchFunc(c.line, w, func(x, w *InLine) int {
		if x.Grown >= w.Grown {
			return -1
		}
		return 1
	})
	c.line = slices.Insert(c.line, at, w)
	c.mu.Unlock()
	c.Put(0, 0, -w.Msgs)
	c.Starved()
}

// releaseFirst lets the first message of the line continue; c.mu is held.
func (c *Credits) releaseFirst() {
	w := c.line[0]
	c.line = slices.Delete(c.line, 0, 1)
	c.Bytes -= w.Bytes
	c.beyond += w.Msgs
	w.GoOn(w.Bytes)
}

// Stalls is called now and then. It lets the first message of the line continue if no bytes were given back since the last
// call, unless the credits are overdrawn already.
func (c *Credits) Stalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) > 0 && !c.given && c.Bytes >= 0 {
		c.releaseFirst()
	}
	c.given = false
}

// Waits is how many messages wait outside the queues.
func (c *Credits) Waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// Used is how many bytes are in flight, if bytes is how many there are in all.
func (c *Credits) Used(bytes int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes - c.Bytes
}

// Waiting returns how many readers and messages of the line wait, and how many lanes.
func (c *Credits) Waiting() (readers, lanes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.readers) + len(c.line), len(c.lanes)
}
