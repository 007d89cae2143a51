package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/timing"
)

// item is an object to read, and the notice that named it, if one did.
type item struct {
	obj    Object
	notice *Notice
}

// list finds objects, each for the instance that asks first.
type list struct {
	src  *Source
	book *book
	turn chan struct{} // has room for one: who finds more

	page  []item
	token string
	begun bool
	due   time.Time // of the next listing

	mu   sync.Mutex // guards the fields below
	held map[*Notice]bool
	owed []*Notice // to be removed
}

// next is the next object; [engine.ErrEnd] says that all have been listed.
func (l *list) next(ctx context.Context, c *conn) (item, error) {
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
			if i.notice != nil || !l.book.knows(i.obj.Key, i.obj.ETag) {
				return i, nil
			}
		}
		more := l.list
		if c.notices != nil {
			more = l.receive
		}
		if err := more(ctx, c); err != nil {
			return item{}, err
		}
	}
	return item{}, ctx.Err()
}

// list gets a page of the listing, or begins the next one.
func (l *list) list(ctx context.Context, c *conn) error {
	if l.begun && l.token == "" {
		l.book.listed()
		if l.src.Interval == 0 {
			return engine.ErrEnd
		}
		if err := timing.Sleep(ctx, time.Until(l.due)); err != nil {
			return err
		}
		l.begun = false
	}
	if err := l.book.full(); err != nil {
		return err
	}
	if !l.begun {
		l.due = time.Now().Add(l.src.Interval)
	}
	p, err := c.store.List(ctx, l.src.Prefix, "", l.token)
	if err != nil {
		l.begun, l.token = false, "" // a token may be what is wrong
		return err
	}
	l.begun, l.token = true, p.Token
	for i := range p.Objects {
		if l.src.wants(p.Objects[i].Key) {
			l.page = append(l.page, item{obj: p.Objects[i]})
		}
	}
	return nil
}

// receive waits for notices.
func (l *list) receive(ctx context.Context, c *conn) error {
	all, err := c.notices.Receive(ctx)
	var idle []*Notice // about nothing that is to be read
	for _, n := range all {
		l.hold(n)
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
	return l.remove(ctx, c, idle)
}

func (l *list) hold(n *Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[n] = true
}

// holds are the notices that are not done.
func (l *list) holds() (all []*Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.held {
		all = append(all, n)
	}
	return all
}

// remove removes notices, and those that could not be removed before.
func (l *list) remove(ctx context.Context, c *conn, done []*Notice) error {
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

// drop gives all notices back that are not done.
func (l *list) drop(ctx context.Context, c *conn) error {
	all := l.holds()
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

// refusal is why a notice can't be read, as the error of a message.
func refusal(n *Notice) error {
	return engine.WithClass(engine.Decode, fmt.Errorf("notice: %w", n.Err))
}
