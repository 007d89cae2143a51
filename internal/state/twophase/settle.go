package twophase

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/writebehind"
)

var (
	_ engine.Settler = (*Use)(nil)
	_ engine.Undoer  = (*Use)(nil)
	_ engine.Saver   = (*saver)(nil)
)

// saver is the Settler of writes to a cache: sources learn of settled messages only once their writes are in the
// cache.
type saver struct{ *Use }

// Save calls then once everything committed so far is in the cache, or the cache has rejected it.
func (s *saver) Save(then func()) { s.o.behind.Saved(then) }

// Settle commits the writes of delivered roots and drops the others. Then it decides on messages that waited for
// either.
func (u *Use) Settle(ctx context.Context, committed, rolledBack []uint64) {
	o := u.o
	o.mu.Lock()
	for _, ref := range committed {
		o.countSettled(ref, true)
	}
	for _, ref := range rolledBack {
		o.countSettled(ref, false)
	}
	replies := o.review()
	o.start()
	o.mu.Unlock()
	o.answer(ctx, replies)
}

// Undo drops the writes of a step that has failed with the steps inside it, and is retried.
func (u *Use) Undo(refs []uint64) {
	o := u.o
	o.mu.Lock()
	for _, ref := range refs {
		if w := o.find(ref); w != nil && w.state != committed {
			o.withdraw(w)
			o.release(w)
		}
	}
	replies := o.review()
	o.start()
	o.mu.Unlock()
	o.answer(context.Background(), replies)
}

// countSettled records one end. The last one determines the write's fate.
func (o *overlay) countSettled(ref uint64, well bool) {
	w := o.find(ref)
	if w == nil {
		return
	}
	w.owed--
	w.bad = w.bad || !well
	switch {
	case w.owed > 0:
	case w.state == pending && w.passed && !w.bad && !w.void:
		o.commit(w)
	default:
		o.withdraw(w)
		o.release(w)
	}
}

// commit queues w for the cache. It takes precedence over all earlier writes of its key, whatever happens to them.
func (o *overlay) commit(w *write) {
	for _, earlier := range w.chain.writes {
		if earlier == w {
			break
		}
		earlier.void = true
	}
	w.state = committed
	o.backlog++
	o.queue = append(o.queue, w)
	w.chain.touch()
}

// reply is the answer to a waiting message.
type reply struct {
	w      *write
	ref    uint64 // of w at that time
	o      *overlay
	key    string
	resume func(func(*engine.Message) error)
	then   Then
	added  bool
	check  bool // the cache was asked long ago, so ask again
	err    error
}

// reply returns the answer for the message of a waiting write.
func (w *write) reply(added bool) reply {
	return reply{w: w, ref: w.ref, o: w.chain.o, key: w.chain.key, resume: w.resume, then: w.then, added: added}
}

// cut ends the wait of a message that waits for itself through others: its key counts as known.
func (o *overlay) cut(w *write, ref uint64) {
	o.mu.Lock()
	var replies []reply
	if w.ref == ref && w.state == waiting {
		replies = append(replies, w.reply(false))
		o.withdraw(w)
		replies = append(replies, o.review()...)
	}
	o.mu.Unlock()
	o.answer(context.Background(), replies)
}

// review decides on waiting messages in changed chains.
func (b *book) review() (replies []reply) {
	for len(b.touched) > 0 {
		c := b.touched[len(b.touched)-1]
		b.touched = b.touched[:len(b.touched)-1]
		for i := 0; i < len(c.waiters); {
			w := c.waiters[i]
			exists, sure := c.exists(w.origins, w.base)
			if !sure && b.graph.Change(&w.wait, c.blockers(nil, w.origins)) {
				i++
				continue
			}
			r := w.reply(sure && !exists)
			r.check = r.added && c.last() == nil && c.claim == nil
			value := w.value
			b.withdraw(w)
			if r.added {
				w.chain, w.value = c, value
				c.o.show(w)
				i = 0 // this may decide earlier ones
			}
			replies = append(replies, r)
		}
		c.touched = false
		c.o.tidy(c)
	}
	return replies
}

// answer continues messages that waited. It is called without the lock.
func (b *book) answer(ctx context.Context, replies []reply) {
	for len(replies) > 0 {
		r := replies[0]
		replies = replies[1:]
		if r.check {
			replies = append(replies, r.verify(ctx)...)
		}
		r.resume(func(m *engine.Message) error {
			if r.err != nil {
				return r.err
			}
			if r.added {
				r.o.mu.Lock()
				if r.w.ref == r.ref {
					r.w.passed = true
				}
				r.o.mu.Unlock()
			}
			return r.then(m, r.added)
		})
	}
}

// verify asks the cache again about a key that becomes free after a long wait: another pipeline may have written it.
func (r *reply) verify(ctx context.Context) (more []reply) {
	ctx, cancel := context.WithTimeout(ctx, writebehind.Patience)
	defer cancel()
	_, ok, err := r.o.get(ctx, r.key)
	if err == nil && !ok {
		return nil
	}
	r.added, r.err = false, writebehind.Held(err)
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	if c := r.w.chain; r.w.ref == r.ref && r.w.state == pending {
		b := absent
		if ok {
			b = present
		}
		r.o.based(c, b)
		r.o.withdraw(r.w)
	}
	return r.o.review()
}
