package objects

import (
	"context"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/network/call"
)

// acks follows which messages of an instance are settled.
type acks struct {
	in *Input
	source.Acks[mark]
}

// Ack settles all but what was returned, and takes the actions in `after`. What fails of that is tried again, and told,
// by the next Read.
func (a *acks) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	again, err = a.Acks.Ack(ctx, results)
	if c := a.in.conn.Load(); c != nil {
		_ = a.in.tidy(ctx, c)
	}
	return again, err
}

// leaser is the Acker of an input with notices, which are leased. It renews those that are
// not done, whether messages of their objects are under way or not.
type leaser struct{ *acks }

var _ engine.Leaser = (*leaser)(nil)

// Renew keeps the notices. A lost one is nobody's loss: its objects are read again.
func (l *leaser) Renew(ctx context.Context, _ []uint64) (lost []uint64, next time.Duration, err error) {
	const often = 10 * time.Second
	c := l.in.conn.Load()
	if c == nil {
		return nil, often, nil
	}
	next, err = c.notices.Renew(ctx, l.in.shared.list.holds())
	return nil, next, err
}

// atOnce is about how many objects something is done at once.
const atOnce = 8

// tidy does what is to be done about objects that are settled. What fails stays to be done.
func (in *Input) tidy(ctx context.Context, c *conn) error {
	all := in.shared.book.takeSettled()
	errs := make([]error, len(all))
	call.Beside(atOnce, len(all), func(i int) { errs[i] = in.act(ctx, c, all[i]) })
	var over, failed []*reading
	for i, e := range all {
		switch {
		case errs[i] == nil:
			over = append(over, e)
		case isFinal(errs[i]) && engine.ErrorOf(errs[i], "").Class != engine.Auth:
			in.log.Error("object was read and stays as it is", "key", e.Key, "err", errs[i])
			in.shared.book.spoilt(e)
			over, errs[i] = append(over, e), nil
		default:
			failed = append(failed, e)
		}
	}
	in.shared.book.keepSettled(failed)
	err := in.shared.list.remove(ctx, c, in.shared.book.finish(over))
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return err
}

// act does what is to be done about an object. One that has been replaced since is another.
func (in *Input) act(ctx context.Context, c *conn, e *reading) (err error) {
	switch a := &in.cfg.After; {
	case e.Keep:
	case a.Delete != nil:
		err = c.store.Delete(ctx, e.Key, e.ETag)
	case a.Tag != nil:
		var tags []Pair
		for name, value := range a.Tag.All() {
			tags = append(tags, Pair{name, value})
		}
		err = c.store.Tag(ctx, e.Key, e.ETag, tags)
	case a.Move != nil:
		err = c.store.Move(ctx, e.Key, e.ETag, *a.Move+e.Key[len(in.cfg.Prefix):])
	}
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrMissing) {
		in.log.Info("object was replaced or removed after it was read", "key", e.Key)
		return nil
	}
	return err
}
