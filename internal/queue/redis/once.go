package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// Once carries out transactions that must not take effect twice. An answer may be lost after the server has carried a
// transaction out. Each one therefore leaves its number as a score in a sorted set, which the next call looks at. One
// goroutine at a time may use a Once.
type Once struct {
	Key    string // of the sorted set, in the slot of all other keys
	Member string // of this client

	lost *transaction // whose answer was lost; nil: none
}

type transaction struct {
	number   int64
	commands [][]any
	frees    bool
	done     func()
}

// Do carries out commands, all or none, and then calls done. If the server has not answered, it is open whether they were
// carried out: [Once.Resume] then sees to it, which the next Do calls. frees says that the commands only remove, which a
// server that is out of memory permits, although it permits no transactions.
func (o *Once) Do(ctx context.Context, c *Client, commands [][]any, frees bool, done func()) error {
	if err := o.Resume(ctx, c); err != nil {
		return err
	}
	t := &transaction{rand.Int64N(1 << 53), commands, frees, done} // #nosec G404 -- not a secret
	return o.ended(ctx, c, t, o.send(ctx, c, t))
}

// Resume finishes the transaction whose answer was lost, if there is one: it carries it out unless the server has.
func (o *Once) Resume(ctx context.Context, c *Client) error {
	t := o.lost
	if t == nil {
		return nil
	}
	asked := errUnasked
	err := c.UniversalClient.Watch(ctx, func(tx *goredis.Tx) error {
		carriedOut, err := tx.Do(ctx, "zrangebyscore", o.Key, t.number, t.number).StringSlice()
		if err != nil || slices.Contains(carriedOut, o.Member) {
			return err
		}
		asked = o.send(ctx, tx, t)
		return asked
	}, o.Key) // which fails if the lost transaction is carried out meanwhile
	if err != nil && (asked == errUnasked || errors.Is(asked, goredis.TxFailedErr)) {
		c.moved(ctx, err)
		c.Watch.note(err)
		return err
	}
	return o.ended(ctx, c, t, err)
}

var errUnasked = errors.New("the transaction was not repeated")

// pipeliner is a client, or a connection that watches a key.
type pipeliner interface {
	Pipelined(ctx context.Context, fill func(goredis.Pipeliner) error) ([]goredis.Cmder, error)
	TxPipelined(ctx context.Context, fill func(goredis.Pipeliner) error) ([]goredis.Cmder, error)
}

// send sends a transaction. Without memory for its number, a removal whose answer is lost may be repeated.
func (o *Once) send(ctx context.Context, to pipeliner, t *transaction) error {
	fill := func(pipe goredis.Pipeliner) error {
		for _, args := range t.commands {
			pipe.Do(ctx, args...)
		}
		return nil
	}
	cmds, err := to.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		_ = fill(pipe)
		pipe.Do(ctx, "zadd", o.Key, t.number, o.Member)
		return nil
	})
	err = firstError(cmds, err)
	if t.frees && Says(err, "OOM ") {
		err = firstError(to.Pipelined(ctx, fill))
	}
	return err
}

// firstError is the error of commands that were sent together. The client itself looks at the first command alone, and
// for a transaction that was discarded it does not say why.
func firstError(cmds []goredis.Cmder, err error) error {
	const discarded = "EXECABORT "
	for _, cmd := range cmds {
		if e := cmd.Err(); err == nil || Says(err, discarded) && !Says(e, discarded) {
			err = e
		}
	}
	return err
}

// ended notes how an attempt of a transaction has ended.
func (o *Once) ended(ctx context.Context, c *Client, t *transaction, err error) error {
	c.moved(ctx, err)
	c.Watch.note(err)
	o.lost = nil
	if err == nil {
		t.done()
	} else if _, answered := errors.AsType[goredis.Error](err); !answered {
		o.lost = t
	}
	if Says(err, "READONLY ") { // the client leaves a replica when it refuses a plain command, but not a transaction
		_, _ = c.Wait(ctx, 1, "zrem", o.Key, "")
	}
	return err
}
