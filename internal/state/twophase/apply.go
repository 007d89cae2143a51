package twophase

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

const (
	// maxBacklog is how many committed writes one cache may still have to do.
	maxBacklog = 1 << 16
	// slow is the average duration of a call from which goroutines pay off.
	slow = 100 * time.Microsecond
	// wide is the maximum number of concurrent calls to a slow cache.
	wide = 256
)

// start passes committed writes to the queue. The lock is held.
func (o *overlay) start() {
	if len(o.queue) > 0 {
		o.behind.Put(o.queue...)
		clear(o.queue)
		o.queue = o.queue[:0]
	}
}

// begin removes writes that later writes replace.
func (o *overlay) begin(batch []*write) []*write {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, w := range batch {
		if w.void {
			o.settled(w)
		} else {
			batch[n] = w
			n++
		}
	}
	if n < len(batch) {
		o.wake()
	}
	return batch[:n]
}

func (o *overlay) one(ctx context.Context, w *write) (err error) {
	defer recovered(&err)
	if w.kind == del {
		err = o.cache.Delete(ctx, w.chain.key)
	} else {
		err = o.cache.Set(ctx, w.chain.key, w.value, w.ttl)
	}
	if err == nil {
		o.local.replaced(w.chain.key)
	}
	return err
}

// made ends writes that the cache has made or rejected.
func (o *overlay) made(batch []*write) {
	o.mu.Lock()
	var lost error
	before := o.lost
	for _, w := range batch {
		if w.lost != nil {
			lost = w.lost
			o.lost++
			w.by.lost, w.by.why = w.by.lost+1, w.lost
		}
		switch {
		case w.lost != nil: // the cache is unchanged
		case w.kind == del:
			o.written(w.chain, absent)
		default:
			o.written(w.chain, present)
		}
		o.epoch(w.chain.key).Add(1)
		o.settled(w)
	}
	o.wake()
	replies := o.review()
	inAll := o.lost
	o.mu.Unlock()
	if lost != nil {
		o.log.Error("writes of delivered messages are not in the cache", "cache", o.name, "writes", inAll-before,
			"in_all", inAll, "err", lost)
	}
	o.answer(context.Background(), replies)
}

// settled releases a committed write.
func (o *overlay) settled(w *write) {
	o.backlog--
	o.withdraw(w)
	o.release(w)
}

// wake lets calls that wait for committed writes check again.
func (o *overlay) wake() {
	close(o.round)
	o.round = make(chan struct{})
}

// spread calls f for 0 to n-1: one after the other while calls are quick, otherwise concurrently.
func (o *overlay) spread(n int, f func(i int)) {
	began := time.Now()
	for i := range n {
		f(i)
		if i&(i+1) == 0 && !o.quick && time.Since(began) > slow*time.Duration(i+1) {
			call.Beside(wide, n-i-1, func(k int) { f(i + 1 + k) })
			return
		}
	}
}

// recovered, deferred around a call of a cache, turns its panic into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = engine.Errorf(engine.Panicked, "the cache panicked: %v", r)
	}
}
