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

// Guard makes a call that may panic, and abandons it when it does not return after ctx has
// ended.
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

// Pause waits for d; false: ctx ended before.
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

// Late says since when a call is past a deadline, or the zero time.
func Late(since int64, deadline time.Duration, now time.Time) time.Time {
	if since == 0 {
		return time.Time{}
	}
	if at := time.Unix(0, since); now.Sub(at) > deadline {
		return at
	}
	return time.Time{}
}

// Clock records since when a goroutine has been in a call, for the watcher of deadlines.
type Clock[T any] struct {
	Since atomic.Int64 // unix nanoseconds; 0: in none
	Of    atomic.Pointer[T]
}

// Start says that a call of o begins.
func (c *Clock[T]) Start(o *T) time.Time {
	now := time.Now()
	c.Of.Store(o)
	c.Since.Store(now.UnixNano())
	return now
}

// Stop says that it has ended.
func (c *Clock[T]) Stop() { c.Since.Store(0) }

// PowerOfTen says whether n is 1, 10, 100 and so on: how often something is logged that happens often.
func PowerOfTen(n int64) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// FirstLine is an error without what follows its first line, such as a stack.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Histogram counts observations; it is safe for concurrent use.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64
	sum    atomic.Uint64 // bits of a float64
}

// NewHistogram makes a histogram with these upper bounds.
func NewHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// LatencyBounds are in seconds, from a step in memory to a write that hangs.
var LatencyBounds = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}

// FillBounds are messages in a batch.
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

// Read is the histogram at present.
func (h *Histogram) Read() engine.Histogram {
	r := engine.Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)),
		Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
		r.Count += r.Counts[i]
	}
	return r
}

// Until waits for done, a deadline or an interruption.
func Until(done <-chan struct{}, deadline time.Time, interrupted <-chan struct{}) {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-interrupted:
	}
}

// Deadline is the context of one call of a plugin. Most calls never look at theirs,
// so timer and channel are made when one does: see context.WithDeadline, which it is
// from then on.
type Deadline struct {
	Parent context.Context
	At     time.Time

	mu    sync.Mutex // guards the fields below
	real  context.Context
	stop  context.CancelFunc
	ended bool
}

// End releases what the call has made of the context, and ends it for those that kept it.
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

// Value asks the context that is there: one derived from it looks for its parent this
// way, behind a call of Done.
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

// Masked is err, whose text then shows none of some secrets; nil stays nil.
func Masked(s *schema.Secrets, err error) error {
	if err == nil {
		return nil
	}
	e := engine.ErrorOf(err, "")
	e.Mask(s)
	return e
}
