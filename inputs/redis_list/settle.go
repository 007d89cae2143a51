package redislist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Ack removes what is settled, and puts back the rest.
func (in *input) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	c := in.conn.Load()
	var done, back []engine.Result
	var cmds []*goredis.Cmd
	var texts []string
	in.mu.Lock()
	for _, r := range rs {
		text, held := in.held[r.Ref]
		switch {
		case !held:
		case r.Fate != engine.Returned:
			done = append(done, r)
			cmds = append(cmds, redis.Cmd(ctx, 1, "lrem", in.processing, 1, text))
		case in.stopped.Load(): // Close puts it back, with all others in their order
			delete(in.held, r.Ref)
		case r.Err == nil || r.Err.Unfinished():
			back, texts = append(back, r), append(texts, text)
		default:
			in.back = append(in.back, later{text, time.Now().Add(pause)})
			delete(in.held, r.Ref)
		}
	}
	in.mu.Unlock()
	short, cancel := c.Within(ctx)
	defer cancel()
	c.Send(short, cmds)
	for i, r := range done {
		if e := cmds[i].Err(); e != nil {
			err, again = redis.Explain(e, "remove elements of "+in.processing), append(again, r)
			continue
		}
		in.forget(r.Ref)
	}
	if len(back) == 0 {
		return again, err
	}
	if e := in.restore(short, c, false, texts); e != nil {
		return append(again, back...), e
	}
	for _, r := range back {
		in.forget(r.Ref)
	}
	return again, err
}

func (in *input) forget(ref uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.held, ref)
}

// restore puts elements back into the list: in front, or behind the others. The last is put first, so that they are in
// their order again.
func (in *input) restore(ctx context.Context, c *conn, behind bool, texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	push := "lpush"
	if (in.cfg.Side == "left") == behind {
		push = "rpush"
	}
	_, err := c.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		for i := range texts {
			text := texts[len(texts)-1-i]
			if behind {
				text = texts[i]
			}
			pipe.Do(ctx, "lrem", in.processing, 1, text)
			pipe.Do(ctx, push, in.cfg.Key, text)
		}
		return nil
	})
	return redis.Explain(err, "put elements back into list "+in.cfg.Key)
}

// putBack puts back what has failed and is due.
func (in *input) putBack(ctx context.Context, c *conn, now time.Time) error {
	var texts []string
	in.mu.Lock()
	n := 0
	for n < len(in.back) && !now.Before(in.back[n].due) { // in this order: all wait equally long
		texts = append(texts, in.back[n].text)
		n++
	}
	in.mu.Unlock()
	if n == 0 {
		return nil
	}
	short, cancel := c.Within(ctx)
	defer cancel()
	if err := in.restore(short, c, true, texts); err != nil {
		return err
	}
	in.mu.Lock()
	in.back = in.back[n:]
	in.mu.Unlock()
	return nil
}

// Renew gives a sign of life also while no Read follows.
func (in *input) Renew(ctx context.Context, _ []uint64) (lost []uint64, next time.Duration, err error) {
	return nil, in.cfg.ClaimAfter / 4, in.sign(ctx, in.conn.Load())
}

// live gives a sign of life, of the fetch.
func (in *input) live(ctx context.Context, c *conn) error {
	c.alive = time.Now()
	return in.sign(ctx, c)
}

// sign notes when this consumer was alive, by the server's clock.
func (in *input) sign(ctx context.Context, c *conn) error {
	now, err := in.now(ctx, c)
	if err == nil {
		_, err = c.Ask(ctx, 1, "zadd", in.consumers, now.UnixMilli(), in.consumer)
	}
	return redis.Explain(err, "note in "+in.consumers+" that this consumer is alive")
}

// now is the time of the server that has the list.
func (in *input) now(ctx context.Context, c *conn) (time.Time, error) {
	if !in.cfg.Clustered() {
		short, cancel := c.Within(ctx)
		defer cancel()
		return c.Time(short).Result()
	}
	return time.Now(), nil // the client asks any node
}

// bury puts back what consumers had in flight that have been silent for too long.
func (in *input) bury(ctx context.Context, c *conn) error {
	now, err := in.now(ctx, c)
	if err != nil {
		return err
	}
	answer, err := c.Ask(ctx, 1, "zrangebyscore", in.consumers, "-inf",
		"("+strconv.FormatInt(now.Add(-in.cfg.ClaimAfter).UnixMilli(), 10))
	if err != nil {
		return err
	}
	all, _ := answer.([]any)
	for _, x := range all {
		name := fmt.Sprint(x)
		if name == in.consumer {
			continue
		}
		n, err := in.inherit(ctx, c, redis.Processing(in.cfg.Key, name))
		if err != nil {
			return err
		}
		if n > 0 {
			in.log.Warn("a consumer is silent: what it had in flight is back in the list", "list", in.cfg.Key, "consumer", name,
				"elements", n)
		}
		if _, err := c.Ask(ctx, 1, "zrem", in.consumers, name); err != nil {
			return err
		}
	}
	return nil
}

// inherit moves the elements of another consumer in front of the list, the newest first.
func (in *input) inherit(ctx context.Context, c *conn, from string) (n int, err error) {
	for ; ; n++ {
		_, err := c.Ask(ctx, 1, "lmove", from, in.cfg.Key, "RIGHT", in.sides)
		if errors.Is(err, goredis.Nil) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
