package twophase

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// The keeper is a goroutine of an overlay with claims. It deletes claims that no message needs, renews those in use,
// and polls keys that other processes hold.

// manage passes a chain's claim to the keeper. now says that there is something to do at once.
func (o *overlay) manage(c *chain, now bool) {
	o.known[c] = c.claim
	switch {
	case !o.running:
		o.running, o.turn = true, make(chan struct{})
		o.life, o.end = context.WithCancel(context.Background())
		go o.keeper()
	case now:
		o.poke()
	}
}

func (o *overlay) poke() {
	select {
	case o.awake <- struct{}{}:
	default:
	}
}

func (o *overlay) keeper() {
	for {
		o.mu.Lock()
		now := time.Now()
		q, next := o.chores(now)
		if len(q.all) == 0 && (next.IsZero() || o.users == 0) {
			o.running = false
			o.end()
			close(o.turn)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if len(q.all) > 0 {
			o.carryOut(q)
			continue
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-o.awake:
			_ = timing.Sleep(o.life, scanGap)
		}
		timer.Stop()
	}
}

// chores returns what to do now, and when there is more to do; zero: never. The lock is held.
func (o *overlay) chores(now time.Time) (q *questions, next time.Time) {
	q = &questions{began: now}
	polls := 0
	for c, k := range o.known {
		s, at := engine.CacheSwap{Key: c.key}, k.due
		switch {
		case k.asked != nil:
			continue
		case k.releasing:
			s.Old = k.value
		case k.value != nil:
			s.Old, s.New, s.TTL = k.value, k.value, lease
			if due := k.since.Add(renewal); due.After(at) {
				at = due
			}
		case k.foreign && (k.regain || len(c.waiters) > 0):
			if at.Before(o.pollAt) {
				at = o.pollAt
			}
			if polls == mostPolls && !at.After(now) {
				at = now.Add(pollGap)
			}
			if !at.After(now) {
				polls++
				s = o.attempt(c.key)
			}
		default:
			delete(o.known, c) // until a message waits
			continue
		}
		if at.After(now) || len(q.all) == mostSwaps {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		k.busy = true
		q.add(c, s)
	}
	if polls > 0 {
		o.pollAt = now.Add(pollGap)
	}
	return q, next
}

// carryOut makes swaps, and handles the answers.
func (o *overlay) carryOut(q *questions) {
	ctx, cancel := context.WithTimeout(o.life, writebehind.Patience)
	o.swap(ctx, q.swaps)
	cancel()
	o.mu.Lock()
	lost := 0
	var replies []reply
	holding := sync.OnceValue(o.holding)
	for i, x := range q.all {
		k, s := x.c.claim, &q.swaps[i]
		k.busy = false
		switch {
		case k.writes != x.writes: // the cache's answer may be outdated
		case s.New == nil:
			o.deleted(x.c, s)
		case s.Old != nil:
			lost += o.renewed(x.c, s, q.began)
		default:
			lost += o.polled(x, s, q.began)
			replies = append(replies, o.overdue(x.c, q.began, holding)...)
		}
	}
	replies = append(replies, o.review()...)
	q.forget(o)
	o.start()
	close(o.turn)
	o.turn = make(chan struct{})
	o.mu.Unlock()
	if lost > 0 {
		o.log.Warn("another process or pipeline has taken over keys of messages in flight, which may be delivered twice: "+
			"this one could not reach the cache for too long", "cache", o.name, "keys", lost)
	}
	o.answer(context.Background(), replies)
}

// deleted handles the answer to the deletion of a claim.
func (o *overlay) deleted(c *chain, s *engine.CacheSwap) {
	k, now := c.claim, time.Now()
	if s.Err != nil && o.users > 0 && now.Before(k.since.Add(lease)) {
		k.due = now.Add(retrying)
		return
	}
	k.value, k.releasing, k.due = nil, false, time.Time{}
	o.releases--
	if len(c.waiters) > 0 {
		o.wait(c)
	}
}

// renewed handles the answer to a renewal. It returns 1 if the claim is lost.
func (o *overlay) renewed(c *chain, s *engine.CacheSwap, began time.Time) int {
	k := c.claim
	switch {
	case s.Err != nil:
		k.due = time.Now().Add(retrying)
	case s.Done:
		k.since, k.due = began, time.Time{}
	case c.committed(): // its write has replaced the claim, or will
		k.value = nil
	case s.Found == nil: // expired
		k.regain, k.due = true, time.Time{}
		o.wait(c)
	case isClaim(s.Found):
		k.due = time.Now().Add(firstPoll)
		o.wait(c)
		return 1
	default:
		k.value = nil
		o.based(c, present)
		return 1
	}
	return 0
}

// polled handles the answer to an attempt. It returns 1 if an expired claim is lost.
func (o *overlay) polled(q question, s *engine.CacheSwap, began time.Time) int {
	k := q.c.claim
	lost := k.regain && !q.c.committed() && s.Err == nil && s.Found != nil && !bytes.HasPrefix(s.Found, []byte(o.owner))
	o.answered(q, s, began)
	if !lost {
		return 0
	}
	k.regain = false
	return 1
}

// overdue ends long waits for another process if this pipeline holds keys for the waiting messages, or for messages
// that wait for them: the other process may wait for one of these keys, which can't be seen here. As in a cycle
// within this process, the key of a message that must not wait counts as known.
func (o *overlay) overdue(c *chain, now time.Time, holding func() map[engine.Origin]bool) (replies []reply) {
	if !c.claim.foreign {
		return nil
	}
	for _, w := range slices.Clone(c.waiters) {
		if now.Sub(w.since) < patience {
			continue
		}
		w.since = now
		if o.graph.Awaited(w.origins, holding()) {
			replies = append(replies, w.reply(false))
			o.withdraw(w)
		}
	}
	return replies
}

// holding returns the roots for which this pipeline holds keys.
func (b *book) holding() map[engine.Origin]bool {
	all := map[engine.Origin]bool{}
	for _, w := range b.slots {
		if w.by != nil && w.state == pending && w.chain.claim != nil && w.chain.claim.value != nil {
			for _, origin := range w.origins {
				all[origin] = true
			}
		}
	}
	return all
}

// leave ends a step's use of claims. It waits for a while until claims that no message needs are deleted.
func (o *overlay) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaitKeeper(ctx, func() bool { return o.releases == 0 })
	if o.users--; o.users > 0 {
		return
	}
	if o.local != nil {
		o.local.join(-1)
	}
	if o.running {
		o.end()
		o.poke()
		o.awaitKeeper(ctx, func() bool { return false })
	}
}

// awaitKeeper waits until the keeper has ended, enough returns true, or ctx ends. The lock is held, except while it
// waits.
func (o *overlay) awaitKeeper(ctx context.Context, enough func() bool) {
	for o.running && !enough() && ctx.Err() == nil {
		turn := o.turn
		o.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
		}
		o.mu.Lock()
	}
}
