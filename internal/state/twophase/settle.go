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

// saver is the Settler of writes to a cache: sources are not told of their messages before they are in it.
type saver struct{ *Use }

// Save calls then once all that was committed before is in the cache, or refused by it.
func (s *saver) Save(then func()) { s.o.behind.Saved(then) }

// Settle commits the writes of roots that have ended well and forgets the others. It then decides on the messages that
// waited for either.
func (u *Use) Settle(ctx context.Context, committed, rolledBack []uint64) {
	o := u.o
	o.mu.Lock()
	for _, ref := range committed {
		o.tell(ref, true)
	}
	for _, ref := range rolledBack {
		o.tell(ref, false)
	}
	replies := o.review()
	o.start()
	o.mu.Unlock()
	o.answer(ctx, replies)
}

// Undo forgets the writes of a step that has failed with the steps inside it, and that starts over.
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

// tell records one end; with the last one the write's fate is known.
func (o *overlay) tell(ref uint64, well bool) {
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

// commit puts w on its way to the cache. It counts over all earlier writes of
// its key, whatever becomes of them.
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

// reply is what is reported to a message that waited.
type reply struct {
	w      *write
	ref    uint64 // of w then
	o      *overlay
	key    string
	resume func(func(*engine.Message) error)
	then   Then
	added  bool
	check  bool // the cache was asked long ago, and decides
	err    error
}

// reply returns what a waiting write's message is told.
func (w *write) reply(added bool) reply {
	return reply{w: w, ref: w.ref, o: w.chain.o, key: w.chain.key, resume: w.resume, then: w.then, added: added}
}

// cut has a message stop waiting that waits for itself, by way of others: its key counts as known.
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

// review decides on those that wait where something has changed.
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
				c.o.hold(w)
				i = 0 // it may decide for those before it
			}
			replies = append(replies, r)
		}
		c.touched = false
		c.o.tidy(c)
	}
	return replies
}

// answer releases messages that waited. It is called without the lock.
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

// verify asks the cache once more for a key that becomes free after a long wait: another
// pipeline may have written it.
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
