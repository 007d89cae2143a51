package flow

import (
	"context"
	"slices"
	"sync"
)

// Credits bound what is in flight in a pipeline, in messages and bytes. Readers wait for
// them in turn; in front of them messages that steps have no bytes for, and lanes that
// split, which wait only while something beyond the lanes can give credits back. Nothing
// else waits.
type Credits struct {
	Starved  func()      // called without the lock when somebody begins to wait
	Upstream func() bool // whether lanes have work, for which a reader that splits can wait

	mu      sync.Mutex // guards the fields below
	Msgs    int        // free; below zero by what was taken on account
	Bytes   int
	beyond  int  // messages that lanes have handed on and that have not ended
	Most    int  // messages in all
	kept    int  // messages that wait outside the queues: for an attempt, a key, a limit
	shut    bool // all outputs are held: there is nothing to read for
	lanes   []*waiter
	line    []*InLine // messages that wait for bytes, see growth.go
	given   bool      // something was given back since stalls was asked
	readers []*waiter
}

// InLine is a message that waits until so many bytes are free.
type InLine struct {
	Bytes, Msgs int
	Grown       int             // bytes that earlier steps have added to it
	GoOn        func(bytes int) // called under the lock
}

type waiter struct {
	want, got int
	reads     bool
	ready     chan struct{}
}

// Read takes credits for up to want messages; 0 when ctx ends first. What waits
// for them says so while it does.
func (c *Credits) Read(ctx context.Context, want int, waits func(yes bool)) int {
	c.mu.Lock()
	if len(c.lanes) == 0 && len(c.line) == 0 && len(c.readers) == 0 && c.open() {
		defer c.mu.Unlock()
		return c.grant(want)
	}
	waits(true)
	defer waits(false)
	return c.wait(ctx, &waiter{want: want, ready: make(chan struct{})}, &c.readers)
}

// Split takes credits for up to want parts, on account when waiting can't help.
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
	return c.wait(ctx, w, &c.lanes)
}

// helpless says that nothing will give credits back to w.
func (c *Credits) helpless(w *waiter) bool {
	return c.beyond == 0 && !(w.reads && c.Upstream())
}

// Recheck checks again which waiters can't be helped by waiting.
func (c *Credits) Recheck() { c.Put(0, 0, 0) }

// wait queues up in a list; c.mu is held and let go.
func (c *Credits) wait(ctx context.Context, w *waiter, in *[]*waiter) int {
	*in = append(*in, w)
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

// open says whether readers may read: they pause while half of the credits are
// with messages that wait, and while no output works.
func (c *Credits) open() bool { return c.free() && 2*c.kept < c.Most && !c.shut }

// Keep counts messages that begin, or with n < 0 end, to wait outside the queues.
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

// Charge takes bytes, and messages beyond those granted; never waits.
func (c *Credits) Charge(msgs, bytes int) {
	c.mu.Lock()
	c.Msgs -= msgs
	c.Bytes -= bytes
	c.mu.Unlock()
}

// Put gives credits back. beyond is by how much the messages beyond the lanes change.
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
		c.first()
	}
	for len(c.lanes) == 0 && len(c.line) == 0 && len(c.readers) > 0 && c.open() {
		w := c.readers[0]
		c.readers = c.readers[1:]
		w.got = c.grant(w.want)
		close(w.ready)
	}
}

// Take takes bytes if that many are free.
func (c *Credits) Take(bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Bytes < bytes {
		return false
	}
	c.Bytes -= bytes
	return true
}

// LineUp has a message, counted beyond the lanes, wait for bytes in front of the readers. Who
// has most comes first: with it, most comes back, and what went on on account and waits
// again is not overtaken by another that would.
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

// first lets the first in the line go on; c.mu is held.
func (c *Credits) first() {
	w := c.line[0]
	c.line = slices.Delete(c.line, 0, 1)
	c.Bytes -= w.Bytes
	c.beyond += w.Msgs
	w.GoOn(w.Bytes)
}

// Stalls lets the first in the line go on if it is not known why nothing was given back
// since the last call. What is on account then ends before it happens again.
func (c *Credits) Stalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) > 0 && !c.given && c.Bytes >= 0 {
		c.first()
	}
	c.given = false
}

// Waits is how many messages wait outside the queues.
func (c *Credits) Waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// Used is how many bytes of how many are in flight.
func (c *Credits) Used(bytes int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes - c.Bytes
}

// Waiting says how many readers, with messages in the line, and lanes wait.
func (c *Credits) Waiting() (readers, lanes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.readers) + len(c.line), len(c.lanes)
}
