package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"

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
	done     func()
}

// Do carries out commands, all or none, and then calls done. If the server has not answered, it is open whether they were
// carried out: [Once.Resume] then sees to it, which the next Do calls.
func (o *Once) Do(ctx context.Context, c *Client, commands [][]any, done func()) error {
	if err := o.Resume(ctx, c); err != nil {
		return err
	}
	t := &transaction{rand.Int64N(1 << 53), commands, done} // #nosec G404 -- not a secret
	_, err := c.TxPipelined(ctx, func(pipe goredis.Pipeliner) error { return o.fill(ctx, pipe, t) })
	return o.ended(ctx, c, t, err)
}

// Resume finishes the transaction whose answer was lost, if there is one: it carries it out unless the server has.
func (o *Once) Resume(ctx context.Context, c *Client) error {
	t := o.lost
	if t == nil {
		return nil
	}
	asked := errUnasked
	err := c.UniversalClient.Watch(ctx, func(tx *goredis.Tx) error {
		number := strconv.FormatInt(t.number, 10)
		carriedOut, err := tx.ZRangeByScore(ctx, o.Key, &goredis.ZRangeBy{Min: number, Max: number}).Result()
		if err != nil || slices.Contains(carriedOut, o.Member) {
			return err
		}
		_, asked = tx.TxPipelined(ctx, func(pipe goredis.Pipeliner) error { return o.fill(ctx, pipe, t) })
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

func (o *Once) fill(ctx context.Context, pipe goredis.Pipeliner, t *transaction) error {
	for _, args := range t.commands {
		pipe.Do(ctx, args...)
	}
	pipe.Do(ctx, "zadd", o.Key, t.number, o.Member)
	return nil
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
	return err
}
