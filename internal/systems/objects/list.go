package objects

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
)

const emptyPause = 100 * time.Millisecond // after an empty page that is not the last

// item is an object to read, and the notice that named it, if one did.
type item struct {
	obj    Object
	notice *Notice
}

// list finds objects to read. Each object goes to one instance: the first that asks.
type list struct {
	src  *Source
	log  *slog.Logger
	book *book
	turn chan struct{} // a lock with a deadline: room for the one instance that looks for objects

	page  []item
	token string
	seen  *listing // nil: none has begun
	over  bool
	due   time.Time // of the next listing
	left  int       // objects of this listing that are not read, because no more can be remembered

	mu   sync.Mutex       // guards the fields below
	full time.Time        // since when listings leave objects out; zero: they do not
	held map[*Notice]bool // not done
	owed []*Notice        // done, and to be removed from the queue
}

// nextItem returns the next object to read. [engine.ErrEnd] says that all have been listed.
func (l *list) nextItem(ctx context.Context, c *conn) (item, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return item{}, ctx.Err()
	}
	for ctx.Err() == nil {
		for len(l.page) > 0 {
			i := l.page[0]
			l.page = l.page[1:]
			if i.notice == nil && l.book.knows(l.seen, i.obj.Key, i.obj.ETag) {
				continue
			}
			if i.notice == nil && l.book.full(i.obj.Key) {
				l.left++
				continue
			}
			return i, nil
		}
		more := l.nextPage
		if c.notices != nil {
			more = l.receive
		}
		if err := more(ctx, c); err != nil {
			return item{}, err
		}
	}
	return item{}, ctx.Err()
}

// nextPage gets a page of the listing, or begins the next listing.
func (l *list) nextPage(ctx context.Context, c *conn) error {
	if l.seen != nil && l.token == "" {
		l.seen.Complete(time.Now())
		l.seen = nil
		l.over = l.src.Interval == 0
		l.noteFull()
	}
	if l.over && l.left > 0 {
		return engine.Errorf(engine.Permanent, "objects not read: %d, because %s (%s)", l.left, l.cause(), fullRemedy)
	}
	if l.over {
		return engine.ErrEnd
	}
	if l.seen == nil {
		if err := timing.Sleep(ctx, time.Until(l.due)); err != nil {
			return err
		}
		l.due, l.left = time.Now().Add(l.src.Interval), 0
	}
	seen := l.seen
	if seen == nil {
		seen = l.book.List(nil)
	}
	p, err := c.store.List(ctx, l.src.Prefix, "", l.token)
	if err != nil {
		if l.token != "" && engine.ErrorOf(err, engine.Transient).Class == engine.Rejected { // of the token, perhaps
			l.log.Warn("the listing can't be continued and starts over: objects may be read again", "err", err)
			l.seen, l.token = nil, ""
		}
		return err
	}
	l.seen, l.token = seen, p.Token
	if len(p.Objects) == 0 && p.Token != "" { // stores may do so, and a hostile one does not stop
		return timing.Sleep(ctx, emptyPause)
	}
	for i := range p.Objects {
		if l.src.wants(p.Objects[i].Key) {
			l.page = append(l.page, item{obj: p.Objects[i]})
		}
	}
	return nil
}

// noteFull logs that a listing has left objects out, or no longer does: other objects may have been deleted meanwhile.
func (l *list) noteFull() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.left == 0 && !l.full.IsZero():
		l.full = time.Time{}
		l.log.Info("all objects can be remembered again")
	case l.left > 0 && l.full.IsZero():
		l.full = time.Now()
		l.log.Error("new objects are not read", "objects", l.left, "err", l.cause(), "remedy", fullRemedy)
	}
}

const fullRemedy = "choose another `after`, a longer `prefix`, or `notify`; or delete objects that were read"

func (l *list) cause() string {
	return fmt.Sprintf("at most %d read objects can be remembered", l.book.most)
}

func (l *list) trouble() *engine.Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full.IsZero() {
		return nil
	}
	return &engine.Trouble{Indicator: "objects_left_out", Impact: "new objects are not read", Cause: l.cause(),
		Action: fullRemedy, Since: l.full}
}

// receive waits for notices.
func (l *list) receive(ctx context.Context, c *conn) error {
	all, err := c.notices.Receive(ctx)
	var idle []*Notice // that name no object to read
	for _, n := range all {
		l.holdNotice(n)
		if n.Err != nil {
			n.left = 1
			l.page = append(l.page, item{notice: n})
		}
		for i := range n.Objects {
			if o := n.Objects[i]; l.src.wants(o.Key) {
				n.left++
				l.page = append(l.page, item{o, n})
			}
		}
		if n.left == 0 {
			idle = append(idle, n)
		}
	}
	if err != nil {
		return err
	}
	return l.removeNotices(ctx, c, idle)
}

func (l *list) holdNotice(n *Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[n] = true
}

// heldNotices returns the notices that are not done.
func (l *list) heldNotices() (all []*Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.held {
		all = append(all, n)
	}
	return all
}

// removeNotices removes notices from the queue, with those that could not be removed before.
func (l *list) removeNotices(ctx context.Context, c *conn, done []*Notice) error {
	l.mu.Lock()
	all := append(l.owed, done...)
	l.owed = nil
	l.mu.Unlock()
	if len(all) == 0 || c.notices == nil {
		return nil
	}
	err := c.notices.Done(ctx, all)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.owed = append(l.owed, all...)
		return err
	}
	for _, n := range all {
		delete(l.held, n)
	}
	return nil
}

// releaseNotices gives back all notices that are not done.
func (l *list) releaseNotices(ctx context.Context, c *conn) error {
	all := l.heldNotices()
	if c.notices == nil || len(all) == 0 {
		return nil
	}
	l.mu.Lock()
	clear(l.held)
	l.owed = nil
	l.mu.Unlock()
	l.page = nil
	return c.notices.Release(ctx, all)
}

// refusal returns the error of the message that stands for a notice that can't be understood.
func refusal(n *Notice) error {
	return engine.WithClass(engine.Decode, fmt.Errorf("notice: %w", n.Err))
}
