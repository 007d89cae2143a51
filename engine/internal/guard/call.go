package guard

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Guard runs a call and returns its error. A panic is an error, too. If the call does not return within [KillGrace] after
// ctx has ended, Guard abandons it and returns an error.
func Guard(ctx context.Context, call func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer engine.Recovered(&err)
		err = call(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(KillGrace):
		return errors.New("did not end when told to, and is abandoned")
	}
}

// Pause waits for d. It returns false if ctx has ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Late returns when a call began that has been running for longer than deadline, or the zero time.
func Late(since int64, deadline time.Duration, now time.Time) time.Time {
	if since == 0 {
		return time.Time{}
	}
	if at := time.Unix(0, since); now.Sub(at) > deadline {
		return at
	}
	return time.Time{}
}

// Clock records since when a goroutine has been in a call, for the watcher of stuck calls.
type Clock[T any] struct {
	Since atomic.Int64 // unix nanoseconds; 0: it is in no call
	Of    atomic.Pointer[T]
}

// Start records that a call of o begins, and returns the time.
func (c *Clock[T]) Start(o *T) time.Time {
	now := time.Now()
	c.Of.Store(o)
	c.Since.Store(now.UnixNano())
	return now
}

// Stop records that the call has ended.
func (c *Clock[T]) Stop() { c.Since.Store(0) }

// PowerOfTen says whether n is 1, 10, 100 and so on. Only those occurrences of frequent events are logged.
func PowerOfTen(n int64) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// FirstLine is the first line of an error, without a stack trace.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Histogram counts observations. It is safe for concurrent use.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64
	sum    atomic.Uint64 // bits of a float64
}

// NewHistogram makes a histogram with these upper bounds.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// LatencyBounds are bounds in seconds, from a step in memory to a write that hangs.
var LatencyBounds = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}

// FillBounds are bounds in messages per batch.
var FillBounds = []float64{1, 10, 50, 100, 500, 1000, 5000, 10000}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Read returns the present counts.
func (h *Histogram) Read() engine.Histogram {
	r := engine.Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)),
		Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
		r.Count += r.Counts[i]
	}
	return r
}

// Until waits until done is closed, the deadline has passed, or interrupted is closed.
func Until(done <-chan struct{}, deadline time.Time, interrupted <-chan struct{}) {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-interrupted:
	}
}

// Deadline is the context of one call of a plugin. Most calls never look at their context, so its timer and channel are
// made by context.WithDeadline when a call first does.
type Deadline struct {
	Parent context.Context
	At     time.Time

	mu    sync.Mutex // guards the fields below
	real  context.Context
	stop  context.CancelFunc
	ended bool
}

// End releases the timer, and ends the context for code that has kept it.
func (d *Deadline) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.stop != nil {
		d.stop()
	}
}

func (d *Deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.stop = context.WithDeadline(d.Parent, d.At)
		if d.ended {
			d.stop()
		}
	}
	return d.real
}

func (d *Deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Parent.Deadline(); ok && at.Before(d.At) {
		return at, true
	}
	return d.At, true
}

func (d *Deadline) Done() <-chan struct{} { return d.context().Done() }

func (d *Deadline) Err() error {
	d.mu.Lock()
	idle := d.real == nil && !d.ended
	d.mu.Unlock()
	if idle && d.Parent.Err() == nil && time.Now().Before(d.At) {
		return nil
	}
	return d.context().Err()
}

// Value asks the context that was made, if there is one, because package context finds the parent of a derived context in
// this way, after a call of Done.
func (d *Deadline) Value(key any) any {
	d.mu.Lock()
	ctx := d.real
	d.mu.Unlock()
	if ctx == nil {
		ctx = d.Parent
	}
	return ctx.Value(key)
}

const KillGrace = 250 * time.Millisecond

// Masked is err with secrets masked in its text; nil stays nil.
func Masked(s *schema.Secrets, err error) error {
	if err == nil {
		return nil
	}
	e := engine.ErrorOf(err, "")
	e.Mask(s)
	return e
}
