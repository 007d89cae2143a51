package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// Once sends transactions that must not take effect twice. An answer may be lost after the server has carried out a
// transaction. Each transaction therefore leaves its number as a score in a sorted set, and a repetition looks there
// first. A server that gets the lost request only after the repetition still carries out both. One goroutine at a time
// may use a Once.
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

// Do sends commands as one transaction, and then calls done. If the server does not answer, nobody knows whether it has
// carried them out. The next Do calls [Once.Resume], which finds out. frees says that the commands only remove elements:
// a server that is out of memory accepts removals, but no transactions.
func (o *Once) Do(ctx context.Context, c *Client, commands [][]any, frees bool, done func()) error {
	if err := o.Resume(ctx, c); err != nil {
		return err
	}
	t := &transaction{rand.Int64N(1 << 53), commands, frees, done} // #nosec G404 -- not a secret
	return o.ended(ctx, c, t, o.send(ctx, c, t))
}

// Resume finishes the transaction whose answer was lost, if there is one. It repeats the transaction unless the server has
// carried it out, and then calls its done.
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

// send sends a transaction. A server without memory for the number gets the removals alone: if their answer is lost, they
// may be repeated.
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

// firstError returns the first error of commands that were sent together. The client library returns the error of the
// first command only, and does not say why a transaction was discarded.
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
	if Says(err, "READONLY ") { // the library closes the connection to a replica after a plain command only
		_, _ = c.Wait(ctx, 1, "zrem", o.Key, "")
	}
	return err
}
