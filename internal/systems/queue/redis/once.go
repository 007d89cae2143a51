package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// Once sends transactions that must not take effect twice, although their answers may be lost. Each transaction stores its number as
// a score in a sorted set, and a repetition looks there first. If the lost request reaches the server only after the repetition, the
// server still executes both. Once is not safe for concurrent use.
type Once struct {
	Key    string // of the sorted set, in the slot of all other keys
	Member string // of this client

	lost *transaction // the transaction whose answer was lost; nil: none
}

type transaction struct {
	number   int64
	commands [][]any
	frees    bool // the commands only remove elements
	done     func()
}

// Do sends commands as one transaction, and then calls done. If the answer is lost, it is unknown whether the server has executed
// them. The next Do calls [Once.Resume], which finds out. frees means that the commands only remove elements: a server that is out of
// memory accepts removals, but no transactions.
func (o *Once) Do(ctx context.Context, c *Client, commands [][]any, frees bool, done func()) error {
	if err := o.Resume(ctx, c); err != nil {
		return err
	}
	t := &transaction{rand.Int64N(1 << 53), commands, frees, done} // #nosec G404 -- not a secret
	return o.finish(ctx, c, t, o.send(ctx, c, t))
}

// Resume finishes the transaction whose answer was lost, if there is one. It repeats the transaction unless the server has executed
// it, and then calls its done.
func (o *Once) Resume(ctx context.Context, c *Client) error {
	t := o.lost
	if t == nil {
		return nil
	}
	sendErr := errNotRepeated
	err := c.UniversalClient.Watch(ctx, func(tx *goredis.Tx) error {
		executed, err := tx.Do(ctx, "zrangebyscore", o.Key, t.number, t.number).StringSlice()
		if err != nil || slices.Contains(executed, o.Member) {
			return err
		}
		sendErr = o.send(ctx, tx, t)
		return sendErr
	}, o.Key) // the repetition fails if the lost transaction is executed meanwhile
	if err != nil && (sendErr == errNotRepeated || errors.Is(sendErr, goredis.TxFailedErr)) {
		c.reloadSlots(ctx, err)
		c.Watch.record(err)
		return err
	}
	return o.finish(ctx, c, t, err)
}

var errNotRepeated = errors.New("the transaction was not repeated")

// pipeliner is a client, or a connection that watches a key.
type pipeliner interface {
	Pipelined(ctx context.Context, fill func(goredis.Pipeliner) error) ([]goredis.Cmder, error)
	TxPipelined(ctx context.Context, fill func(goredis.Pipeliner) error) ([]goredis.Cmder, error)
}

// send sends a transaction. If the server has no memory for the number, it gets only the removals. If their answer is lost, they may
// be repeated.
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
	if t.frees && HasErrorPrefix(err, "OOM ") {
		err = firstError(to.Pipelined(ctx, fill))
	}
	return err
}

// firstError returns the first error of commands that were sent together. The client library returns the error of the
// first command only, and does not say why a transaction was discarded.
func firstError(cmds []goredis.Cmder, err error) error {
	const discarded = "EXECABORT "
	for _, cmd := range cmds {
		if e := cmd.Err(); err == nil || HasErrorPrefix(err, discarded) && !HasErrorPrefix(e, discarded) {
			err = e
		}
	}
	return err
}

// finish records the result of an attempt of a transaction.
func (o *Once) finish(ctx context.Context, c *Client, t *transaction, err error) error {
	c.reloadSlots(ctx, err)
	c.Watch.record(err)
	o.lost = nil
	if err == nil {
		t.done()
	} else if _, answered := errors.AsType[goredis.Error](err); !answered {
		o.lost = t
	}
	if HasErrorPrefix(err, "READONLY ") { // the library closes the connection to a replica only after a plain command, not after a transaction
		_, _ = c.Wait(ctx, 1, "zrem", o.Key, "")
	}
	return err
}
