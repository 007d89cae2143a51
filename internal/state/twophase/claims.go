package twophase

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// Several processes may use the same cache. Before a pipeline decides that a key is new, it claims the key: it writes
// a value of its own under the key, unless the key has a value. When the message is delivered, its value replaces the
// claim. When no message of the pipeline needs the claim, the pipeline deletes it. A pipeline that finds a claim of
// another one lets its messages wait, and polls until the claim has become a value or is gone.
//
// A claim expires, so that the keys of a dead process become free. The keeper renews the claims of messages that stay
// in flight. A process that can't reach the cache for a whole lease loses its claims although it is alive: another
// process may then deliver messages with the same keys.
//
// The same applies to several pipelines of one process, with the claims of [local] if the cache belongs to the
// process.
const (
	// lease is how long a claim is valid without renewal.
	lease = 30 * time.Second
	// renewal is the age at which a claim is renewed. Several renewals may fail before the lease ends.
	renewal = 10 * time.Second
	// patience is how long a message waits for another process while others may wait for its own claims: see overdue.
	patience = time.Minute

	// insidePatience is how long a step inside another one waits for another process. With the pauses between five
	// attempts, this is longer than a lease.
	insidePatience = 8 * time.Second

	firstPoll = 50 * time.Millisecond
	lastPoll  = time.Second
	// afterError is the delay of a poll after an error. It is longer than retrying, so that pipelines whose claims
	// expired during an outage come first.
	afterError = 5 * time.Second
	retrying   = time.Second
	// pollGap and mostPolls bound the cost of polls: 1,000 keys a second. Other keys wait for their turn.
	pollGap   = 100 * time.Millisecond
	mostPolls = 100
	// scanGap is how long the keeper lets work gather before it scans all claims.
	scanGap = 5 * time.Millisecond
	// leaving is how long a step that ends waits for the deletion of claims. The rest expires.
	leaving = 5 * time.Second
	// mostSwaps is how many keys the keeper changes at once.
	mostSwaps = 1000
)

// base is the content of a cache under a key.
type base uint8

const (
	absent  base = iota
	present      // a value
	unsure       // the claim of another process
)

// claim is what a pipeline knows about a key in a shared cache.
type claim struct {
	asked     chan struct{} // closed when the step that asks the cache has the answer; nil: no step asks
	busy      bool          // the keeper asks
	writes    int           // writes of this pipeline under the key
	value     []byte        // this pipeline's claim; nil: it does not hold the key
	since     time.Time     // earliest possible time of the last write of the claim; zero: unknown
	foreign   bool          // another process holds the key
	regain    bool          // this pipeline has lost the key, but still needs it
	releasing bool          // the claim is to be deleted
	due       time.Time     // when the keeper has something to do
	delay     time.Duration // before the last poll

	// The cache's answer, from [questions.hear] to [questions.forget].
	found bool  // the key has a value
	err   error // the cache has not answered
}

// claims is the part of an overlay that deals with other processes.
type claims struct {
	shared   engine.SharedCache // nil: the cache belongs to this process
	local    *local             // for such a cache; nil: no other step knows it
	owner    string             // prefix of this pipeline's claims
	serial   uint64             // of the last claim
	users    int                // users of the overlay
	known    map[*chain]*claim  // the claims that the keeper manages
	releases int                // claims to be deleted
	pollAt   time.Time          // when polls may continue
	running  bool               // the keeper runs
	awake    chan struct{}      // room for one
	turn     chan struct{}      // closed after each round of the keeper, and at its end
	life     context.Context    // of the keeper
	end      context.CancelFunc
}

// mark begins the value of every claim. Values of steps never begin with it, since they are JSON.
const mark = "\x00flowd claim "

func newClaims(shared *engine.Shared, cache Store) claims {
	c := claims{owner: mark + rand.Text() + " ", known: map[*chain]*claim{}, awake: make(chan struct{}, 1)}
	if c.shared, _ = cache.(engine.SharedCache); c.shared == nil {
		c.local = newLocal(shared, cache)
	}
	return c
}

// claiming reports whether others use the cache, too.
func (c *claims) claiming() bool { return c.shared != nil || c.local != nil && c.local.several.Load() }

func isClaim(value []byte) bool { return bytes.HasPrefix(value, []byte(mark)) }

// attempt returns a swap that claims a free key.
func (o *overlay) attempt(key string) engine.CacheSwap {
	o.serial++
	return engine.CacheSwap{Key: key, New: strconv.AppendUint([]byte(o.owner), o.serial, 36), TTL: lease}
}

// question is a request to the cache about a claim.
type question struct {
	c      *chain
	writes int // value of claim.writes when the cache was asked
}

// questions are asked together. Methods do nothing on a nil pointer.
type questions struct {
	all    []question
	swaps  []engine.CacheSwap
	began  time.Time
	open   chan struct{} // closed when the answers are known
	failed error         // error of waiting for the answer to another step's question
}

func (q *questions) add(c *chain, s engine.CacheSwap) {
	q.all, q.swaps = append(q.all, question{c, c.claim.writes}), append(q.swaps, s)
}

// askClaims claims the keys about which nothing is known, in one call.
func (u *Use) askClaims(ctx context.Context, adds []Add) *questions {
	o := u.o
	q := &questions{open: make(chan struct{}), began: time.Now()}
	var others []chan struct{}
	o.mu.Lock()
	for i := range adds {
		if adds[i].verdict != unknown {
			continue
		}
		c := o.chain(adds[i].Key)
		if c.claim == nil {
			c.claim = &claim{}
		}
		switch k := c.claim; {
		case k.asked == q.open, k.value != nil, k.foreign, k.releasing:
		case k.asked != nil:
			others = append(others, k.asked)
		default:
			k.asked = q.open
			q.add(c, o.attempt(c.key))
		}
	}
	o.mu.Unlock()
	if len(q.swaps) > 0 {
		o.swap(ctx, q.swaps)
	}
	for _, other := range others {
		select {
		case <-other:
		case <-ctx.Done():
			q.failed = writebehind.Held(ctx.Err())
		}
	}
	return q
}

// pause is for steps inside others, where messages can't park: the call waits for other processes.
type pause struct {
	began time.Time
	last  time.Duration
}

// waitOrFail waits for a while, or fails the keys that are still unknown if that has taken too long.
func (p *pause) waitOrFail(ctx context.Context, adds []Add) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	p.last = min(max(2*p.last, firstPoll), lastPoll)
	if time.Since(p.began) < insidePatience && timing.Sleep(ctx, p.last) == nil {
		return
	}
	for i := range adds {
		if adds[i].verdict == unknown {
			adds[i].verdict, adds[i].err = isFailed, engine.WithClass(engine.Transient, errElsewhere)
		}
	}
}

var errElsewhere = errors.New("another process or pipeline has had a message with this key in flight for too long " +
	"(a step inside another step can't wait longer: write it under the pipeline's `processors`)")

// hear handles the answers. The lock is held.
func (q *questions) hear(o *overlay) {
	if q == nil {
		return
	}
	close(q.open)
	for i, x := range q.all {
		x.c.claim.asked = nil
		o.answered(x, &q.swaps[i], q.began)
	}
}

func (o *overlay) claimOf(key string) *claim {
	if c := o.chains[key]; c != nil {
		return c.claim
	}
	return nil
}

// baseOf returns the content of the cache under a key whose claim was asked for. ok is false if it is unknown.
func (o *overlay) baseOf(key string) (b base, ok bool, err error) {
	k := o.claimOf(key)
	switch {
	case k == nil:
		return unsure, false, nil
	case k.err != nil:
		return unsure, false, k.err
	case k.found:
		return present, true, nil
	case k.foreign, k.releasing:
		return unsure, true, nil
	}
	return absent, k.value != nil, nil
}

// forget invalidates the answers.
func (q *questions) forget(o *overlay) {
	if q == nil {
		return
	}
	for _, x := range q.all {
		if k := x.c.claim; k != nil {
			k.found, k.err = false, nil
			o.tidy(x.c)
		}
	}
}

// answered handles the cache's answer to an attempt.
func (o *overlay) answered(q question, s *engine.CacheSwap, began time.Time) {
	c, k := q.c, q.c.claim
	switch {
	case s.Err != nil:
		k.err = writebehind.Held(s.Err)
		k.due = time.Now().Add(afterError)
	case k.writes != q.writes, !s.Done && s.Found == nil: // ask again
		k.due = time.Time{}
	case s.Done:
		o.claimed(c, s.New, began)
	case bytes.HasPrefix(s.Found, []byte(o.owner)): // the answer to an earlier attempt was lost
		o.claimed(c, s.Found, time.Time{})
	case isClaim(s.Found):
		o.wait(c)
		k.delay = min(max(2*k.delay, firstPoll), lastPoll)
		k.due = time.Now().Add(k.delay)
	default:
		k.found, k.foreign, k.regain = true, false, false
		o.based(c, present)
	}
}

// claimed records that this pipeline holds a key.
func (o *overlay) claimed(c *chain, value []byte, since time.Time) {
	k := c.claim
	k.value, k.since, k.foreign, k.regain, k.delay, k.due = value, since, false, false, 0, time.Time{}
	o.based(c, absent)
	o.manage(c, since.IsZero())
}

// wait makes the keeper poll a key while a message needs it.
func (o *overlay) wait(c *chain) {
	c.claim.value, c.claim.foreign = nil, true
	o.based(c, unsure)
	o.manage(c, true)
}

// based tells messages that wait in c what the cache contains.
func (o *overlay) based(c *chain, b base) {
	for _, w := range c.waiters {
		w.base = b
	}
	c.touch()
}

// written records that a write of this pipeline has replaced the cache's content under a key.
func (o *overlay) written(c *chain, b base) {
	k := c.claim
	if k == nil {
		o.based(c, b)
		return
	}
	if k.releasing {
		o.releases--
	}
	k.writes++
	k.value, k.foreign, k.regain, k.releasing, k.due = nil, false, false, false, time.Time{}
	if b == absent && len(c.waiters) > 0 { // the key must be claimed first
		o.wait(c)
		return
	}
	o.based(c, b)
}

// released reports whether the claim of a chain without messages is gone. Otherwise it begins to delete the claim.
func (o *overlay) released(c *chain) bool {
	k := c.claim
	switch {
	case k == nil:
		return true
	case k.asked != nil, k.busy, k.releasing, k.found, k.err != nil:
		return false
	case k.value == nil, o.users == 0:
		delete(o.known, c)
		c.claim = nil
		return true
	}
	k.releasing, k.due = true, time.Time{}
	o.releases++
	o.manage(c, true)
	return false
}

// swap changes values in the cache.
func (o *overlay) swap(ctx context.Context, all []engine.CacheSwap) {
	defer func() {
		if r := recover(); r != nil {
			for i := range all {
				all[i].Err = engine.Errorf(engine.Panicked, "the cache panicked: %v", r)
			}
		}
	}()
	if o.shared != nil {
		o.shared.Swap(ctx, all)
		return
	}
	o.spread(len(all), func(i int) { o.local.swap(ctx, &all[i], o.get) })
}
