package twophase

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

// Add is a key that a message adds unless it has a value.
type Add struct {
	M     *engine.Message
	Key   string
	Value []byte        // must not change afterwards
	TTL   time.Duration // 0: the cache's default

	verdict verdict
	base    base
	epoch   uint32 // when it was asked
	err     error
}

// verdict is what is known about an Add.
type verdict uint8

const (
	unknown verdict = iota
	isNew
	isKnown
	toWait
	isFailed
)

// Then is called with whether a message's key was new. Its error fails the message.
type Then func(m *engine.Message, added bool) error

// Add calls then for each message: at once if the result is certain, otherwise when the fate of other messages is
// known. Until then the message is parked (see [engine.Message.Park]). If a key can't be added, its message fails.
//
// A message never waits for itself, not even through others: then its key counts as known.
func (u *Use) Add(ctx context.Context, adds []Add, then Then) {
	err := u.room(ctx)
	for i := range adds {
		if adds[i].verdict = unknown; err != nil {
			adds[i].verdict, adds[i].err = isFailed, err
		}
	}
	var elsewhere pause
	for again := err == nil; again; {
		var replies []reply
		var q *questions
		if u.o.claiming() {
			q = u.askClaims(ctx, adds)
		} else {
			u.lookUp(ctx, adds)
		}
		again, replies = u.claim(adds, q, then)
		if u.inside && again {
			elsewhere.waitOrFail(ctx, adds)
		}
		u.o.answer(ctx, replies)
	}
	for i := range adds {
		a := &adds[i]
		switch a.verdict {
		case isNew, isKnown:
			if err := then(a.M, a.verdict == isNew); err != nil {
				a.M.Fail(err)
			}
		case isFailed:
			a.M.Fail(a.err)
		}
	}
}

// Together returns the trait for a step that adds keys: in a cache that processes share, the keys of many messages
// take one round trip.
func (u *Use) Together() int {
	if u.o.shared == nil {
		return 0
	}
	return wide
}

// lookUp asks the cache for keys about which nothing is known.
func (u *Use) lookUp(ctx context.Context, adds []Add) {
	u.o.spread(len(adds), func(i int) {
		a := &adds[i]
		if a.verdict != unknown {
			return
		}
		a.epoch = u.o.epoch(a.Key).Load()
		_, ok, err := u.o.get(ctx, a.Key)
		if a.base = absent; ok {
			a.base = present
		}
		if err != nil {
			a.verdict, a.err = isFailed, writebehind.Held(err)
		}
	})
}

// claim decides on keys that were looked up or asked for. again says that something may have changed, so that keys
// must be looked up again.
func (u *Use) claim(adds []Add, q *questions, then Then) (again bool, replies []reply) {
	o := u.o
	o.mu.Lock()
	defer o.mu.Unlock()
	q.hear(o)
	for i := range adds {
		a := &adds[i]
		if a.verdict != unknown {
			continue
		}
		switch known, err := u.known(a, q); {
		case u.closed:
			a.verdict, a.err = isFailed, errClosed
		case err != nil:
			a.verdict, a.err = isFailed, err
		case !known:
			again = true
		case a.base == present && o.chains[a.Key] == nil:
			a.verdict = isKnown
		default:
			a.verdict = u.decide(a, then)
			again = again || a.verdict == unknown
		}
	}
	q.forget(o)
	o.start()
	return again, o.review()
}

// known reports whether the base of an add is still up to date.
func (u *Use) known(a *Add, q *questions) (bool, error) {
	if q == nil {
		return a.epoch == u.o.epoch(a.Key).Load(), nil
	}
	b, ok, err := u.o.baseOf(a.Key)
	if a.base = b; err == nil && !ok {
		err = q.failed
	}
	return ok, err
}

func (u *Use) decide(a *Add, then Then) verdict {
	o := u.o
	o.origins = a.M.Origins(o.origins[:0])
	c := o.chain(a.Key)
	defer o.tidy(c)
	exists, sure := c.exists(o.origins, a.base)
	switch {
	case sure && exists:
		return isKnown
	case o.bytes > maxPending:
		a.err = engine.WithClass(engine.Transient, errFull)
		return isFailed
	case !sure && a.base == unsure && u.inside:
		return unknown // until it is asked again
	case !sure && len(o.origins) == 0:
		a.M.Park() // no input has read it, so it can't wait: the engine fails it
		return toWait
	}
	w := u.note(add, c, a.Value, a.TTL, o.origins)
	ref := w.ref
	if !sure && !o.graph.Begin(&w.wait, o.origins, c.blockers(nil, o.origins), func() { o.cut(w, ref) }) {
		o.release(w)
		return isKnown
	}
	a.M.StakeOnDelivery(u.by, w.ref)
	if !sure {
		w.base, w.then, w.resume = a.base, then, a.M.ParkBehind()
		o.await(w)
		return toWait
	}
	w.passed = true
	o.show(w)
	return isNew
}

// show makes w visible to this pipeline. A write without a result is committed at once.
func (o *overlay) show(w *write) {
	w.state = pending
	w.chain.writes = append(w.chain.writes, w)
	w.chain.touch()
	if w.owed == 0 {
		o.commit(w)
	}
}

// Write is a key that a message sets or deletes.
type Write struct {
	M      *engine.Message
	Key    string
	Value  []byte        // must not change afterwards
	TTL    time.Duration // 0: the cache's default
	Delete bool
}

// Write records writes for when the messages' roots are settled. If there is no room, the message fails.
func (u *Use) Write(ctx context.Context, all []Write) {
	if err := u.room(ctx); err != nil {
		for i := range all {
			all[i].M.Fail(err)
		}
		return
	}
	o := u.o
	o.mu.Lock()
	for i := range all {
		if err := u.put(&all[i]); err != nil {
			all[i].M.Fail(err)
		}
	}
	replies := o.review()
	o.start()
	o.mu.Unlock()
	o.answer(ctx, replies)
}

func (u *Use) put(n *Write) error {
	o, k := u.o, set
	if n.Delete {
		k = del
	}
	o.origins = n.M.Origins(o.origins[:0])
	c := o.chain(n.Key)
	defer o.tidy(c)
	if w := c.last(); w != nil && w.by == u && w.state == pending && slices.Equal(w.origins, o.origins) {
		o.bytes += len(n.Value) - len(w.value)
		w.size += len(n.Value) - len(w.value)
		w.kind, w.value, w.ttl = k, n.Value, n.TTL
		c.touch()
		return nil
	}
	switch {
	case u.closed:
		return errClosed
	case o.bytes > maxPending:
		return engine.WithClass(engine.Transient, errFull)
	}
	w := u.note(k, c, n.Value, n.TTL, o.origins)
	n.M.StakeOnDelivery(u.by, w.ref)
	w.passed = true
	o.show(w)
	return nil
}

// Get returns the value of a key as this pipeline sees it.
func (u *Use) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	o := u.o
	o.mu.Lock()
	if c := o.chains[key]; c != nil {
		if w := c.last(); w != nil {
			defer o.mu.Unlock()
			return w.value, w.kind != del, nil
		}
	}
	o.mu.Unlock()
	value, ok, err = o.get(ctx, key)
	return value, ok, writebehind.Held(err)
}

// GetAll calls got with the value of each key, concurrently if the cache is slow.
func (u *Use) GetAll(ctx context.Context, keys []string, got func(i int, value []byte, ok bool, err error)) {
	u.o.spread(len(keys), func(i int) {
		value, ok, err := u.Get(ctx, keys[i])
		got(i, value, ok, err)
	})
}

// get reads the cache itself. A claim is not a value.
func (o *overlay) get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	defer recovered(&err)
	if value, ok, err = o.cache.Get(ctx, key); ok && isClaim(value) {
		return nil, false, nil
	}
	return value, ok, err
}

// epoch counts the writes of this key, and of some others, that have moved to the cache.
func (o *overlay) epoch(key string) *atomic.Uint32 {
	return &o.epochs[maphash.String(seed, key)%epochs]
}

var seed = maphash.MakeSeed()
