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

// Ack settles all messages except those that are returned, and takes the actions in `after`. The next Read retries an
// action that fails, and returns its error.
func (a *acks) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	again, err = a.Acks.Ack(ctx, results)
	if c, ok := a.in.Connected(); ok {
		_ = a.in.tidy(ctx, c)
	}
	return again, err
}

// leaser is the Acker of an input with notices, which are leased. It renews all that are not done, even if no message of
// their objects is in flight.
type leaser struct{ *acks }

var _ engine.Leaser = (*leaser)(nil)

// Renew renews the leases of the notices. A lost lease loses no message: the objects are read again.
func (l *leaser) Renew(ctx context.Context, _ []uint64) (lost []uint64, next time.Duration, err error) {
	const often = 10 * time.Second
	c, ok := l.in.Connected()
	if !ok {
		return nil, often, nil
	}
	next, err = c.notices.Renew(ctx, l.in.shared.list.heldNotices())
	return nil, next, err
}

// atOnce is how many objects are acted on at once.
const atOnce = 8

// tidy takes the actions in `after` for settled objects. Those that fail are left for the next call.
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
			in.shared.book.keep(e)
			over, errs[i] = append(over, e), nil
		default:
			failed = append(failed, e)
		}
	}
	in.shared.book.putBackSettled(failed)
	err := in.shared.list.removeNotices(ctx, c, in.shared.book.finish(over))
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return err
}

// act takes the action in `after` for an object. An object that has been replaced since is left alone.
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
