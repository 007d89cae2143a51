// Package writebehind writes what delivered messages leave in caches: deduplication keys, values and states. Start at
// [Queue].
package writebehind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// Queue writes to one cache, in rounds. A round writes everything that was put since the last one began.
//
// The messages behind the writes have ended, so nobody else could retry a write. If the cache is down, the queue
// therefore retries a round without limit. Meanwhile sources do not learn how the messages ended (see [Queue.Saved]),
// and steps make new messages wait (see [Queue.Outage]).
//
// Its methods are safe for concurrent use. It calls its functions from one goroutine, without a lock.
type Queue[T any] struct {
	Name  string // of the cache, for errors and the log
	Log   *slog.Logger
	Width int // concurrent writes

	Begin  func(round []T) []T                  // returns the part of a round that is still worth writing
	Spread func(n int, write func(i int))       // calls write for 0 to n-1, up to Width at once
	Write  func(ctx context.Context, x T) error // an error is final if its class is permanent, rejected or too_large
	Refuse func(x T, err error)                 // x was not written; called concurrently
	End    func(round []T)                      // everything that Begin returned is written or rejected

	mu    sync.Mutex // guards the fields below
	next  []T
	given []T // given up, to be rejected
	spare []T // memory for next
	then  []func()
	busy  bool // a goroutine is writing
	users int
	life  context.Context // of the goroutine; ends when the rest is given up
	end   context.CancelFunc

	failed int // consecutive failed attempts
	err    error
	since  time.Time
}

// Patience bounds a call of a cache that no step waits for.
const Patience = 10 * time.Second

const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
	// hiccups is how many consecutive attempts may fail before messages wait: one failure does not mean that the
	// cache is down.
	hiccups = 2
)

// Put queues values. It does not keep the slice.
func (q *Queue[T]) Put(all ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = append(q.next, all...)
	q.start()
}

// Saved calls then once everything put so far is written or rejected: at once, or from another goroutine. It never
// does if the queue is given up before.
func (q *Queue[T]) Saved(then func()) {
	q.mu.Lock()
	if !q.busy && len(q.next) == 0 {
		q.mu.Unlock()
		then()
		return
	}
	defer q.mu.Unlock()
	q.then = append(q.then, then)
	q.start()
}

// Outage returns why messages that would write must wait, or nil. The error holds the step: no attempt counts.
func (q *Queue[T]) Outage() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed < hiccups {
		return nil
	}
	return &engine.Error{Class: engine.Transient, Holds: true,
		Err: fmt.Errorf("cache %s can't be written: %w", q.Name, q.err)}
}

// Trouble describes an outage for operators, or returns nil.
func (q *Queue[T]) Trouble() *engine.Trouble {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed < hiccups {
		return nil
	}
	return &engine.Trouble{
		Indicator: "cache_failing",
		Impact:    "Messages wait before this step, and delivered messages are not acknowledged.",
		Cause:     fmt.Sprintf("Cache %s can't be written: %v", q.Name, q.err),
		Action:    "Check that what keeps the cache works, can be reached and has room. flowd retries by itself; no restart is needed.",
		Since:     q.since,
	}
}

// Join counts a step that uses the queue.
func (q *Queue[T]) Join() {
	q.mu.Lock()
	q.users++
	q.mu.Unlock()
}

// Leave ends a step's use. It waits until everything put so far is written. If ctx ends first and no other step uses
// the queue, the rest is given up.
func (q *Queue[T]) Leave(ctx context.Context) error {
	done := make(chan struct{})
	q.Saved(func() { close(done) })
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		q.mu.Lock()
		err = fmt.Errorf("cache %s: not all that delivered messages leave there was written: %w", q.Name,
			errors.Join(ctx.Err(), q.err))
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.users--; q.users == 0 && q.busy {
		q.given, q.next, q.then = append(q.given, q.next...), nil, nil
		q.end()
	}
	return err
}

// start starts the writing goroutine. q.mu is held. It ends when nothing is left.
func (q *Queue[T]) start() {
	if !q.busy {
		q.busy = true
		q.life, q.end = context.WithCancel(context.Background())
		go q.work()
	}
}

func (q *Queue[T]) work() {
	for {
		ctx, round, then := q.nextRound()
		if ctx == nil {
			return
		}
		if len(round) > 0 && !q.write(ctx, round) {
			then = nil
		}
		for _, f := range then {
			f()
		}
	}
}

// nextRound takes what was put since the last call, and the callbacks that wait for it. The context is nil if there
// is nothing.
func (q *Queue[T]) nextRound() (ctx context.Context, round []T, then []func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.given) > 0 {
		round, q.given = q.given, nil
		return q.life, round, nil
	}
	if len(q.next) == 0 && len(q.then) == 0 {
		q.busy, q.next, q.spare = false, nil, nil
		q.end()
		return nil, nil, nil
	}
	if q.life.Err() != nil { // put by a step that joined after the others had given up
		q.life, q.end = context.WithCancel(context.Background())
	}
	round, then = q.next, q.then
	q.next, q.then, q.spare = q.spare[:0], nil, nil
	return q.life, round, then
}

// write writes a round, and reports whether it was written, not given up.
func (q *Queue[T]) write(ctx context.Context, round []T) bool {
	all := q.Begin(round)
	left := all
	for try := 1; len(left) > 0 && ctx.Err() == nil; try++ {
		if try > 1 {
			_ = timing.Sleep(ctx, wait(try))
		}
		left = q.attempt(ctx, left)
	}
	for _, x := range left {
		q.Refuse(x, ctx.Err())
	}
	q.End(all)
	clear(round)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.spare = round[:0]; len(left) > 0 {
		q.failed, q.err = 0, nil // nobody retries: a later step starts afresh
	}
	return len(left) == 0
}

// attempt writes everything once, and returns what must be retried.
func (q *Queue[T]) attempt(ctx context.Context, all []T) (again []T) {
	within, cancel := context.WithTimeout(ctx, Patience*time.Duration(1+len(all)/q.Width))
	defer cancel()
	var mu sync.Mutex // guards again and why
	var why error
	q.Spread(len(all), func(i int) {
		err := q.Write(within, all[i])
		switch {
		case err == nil:
		case final(err):
			q.Refuse(all[i], err)
		default:
			mu.Lock()
			defer mu.Unlock()
			again, why = append(again, all[i]), err
		}
	})
	if ctx.Err() == nil {
		q.note(why)
	}
	return again
}

// final reports whether retries can't succeed.
func final(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && !e.Holds && (e.Class == engine.Permanent || e.Class == engine.Rejected || e.Class == engine.TooLarge)
}

// note records the outcome of an attempt, and logs the beginning and the end of an outage.
func (q *Queue[T]) note(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil:
		if q.failed++; q.failed == 1 {
			q.since = time.Now()
		}
		q.err = err
		if q.failed == hiccups {
			q.Log.Error("cache is down: messages wait", "cache", q.Name, "err", err)
		}
	case q.failed > 0:
		if q.failed >= hiccups {
			q.Log.Info("cache is up again", "cache", q.Name, "after", time.Since(q.since).Round(time.Millisecond))
		}
		q.failed, q.err = 0, nil
	}
}

// wait returns the pause before an attempt, from the second on.
func wait(try int) time.Duration {
	most := mostWait
	if try < 8 {
		most = min(mostWait, firstWait<<(try-2))
	}
	return most/2 + rand.N(most/2+1)
}
