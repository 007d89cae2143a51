package redislist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// Ack removes settled elements, and puts returned ones back.
func (in *input) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	c := in.Conn()
	ctx, cancel := c.Within(ctx)
	defer cancel()
	in.settling.Lock()
	defer in.settling.Unlock()
	if err := in.once.Resume(ctx, c.Client); err != nil {
		return rs, redis.Explain(err, "remove elements of "+in.processing)
	}
	var done, back []engine.Result
	var removals [][]any
	var texts []string
	in.mu.Lock()
	for _, r := range rs {
		text, held := in.held[r.Ref]
		switch {
		case !held:
		case r.Fate != engine.Returned:
			done, removals = append(done, r), append(removals, in.removal(text))
		case in.Stopping(): // Close puts it back, in order with all others
			delete(in.held, r.Ref)
		case r.Err == nil || r.Err.Unfinished():
			back, texts = append(back, r), append(texts, text)
		default:
			in.back = append(in.back, delayed{text, time.Now().Add(retryDelay)})
			delete(in.held, r.Ref)
		}
	}
	in.mu.Unlock()
	if len(done) > 0 {
		if e := in.once.Do(ctx, c.Client, removals, true, func() { in.forget(done) }); e != nil {
			err, again = redis.Explain(e, "remove elements of "+in.processing), done
		}
	}
	if e := in.restore(ctx, c, false, texts, func() { in.forget(back) }); e != nil {
		err, again = e, append(again, back...)
	}
	return again, err
}

// forget removes the elements of rs from held.
func (in *input) forget(rs []engine.Result) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, r := range rs {
		delete(in.held, r.Ref)
	}
}

// removal returns the command that removes one element in flight that equals text.
func (in *input) removal(text string) []any { return []any{"lrem", in.processing, 1, text} }

// restore puts elements back into the list, in front of the others or behind them, and keeps their order: those in front
// are pushed in reverse. It calls done when the server has done so. in.settling is held.
func (in *input) restore(ctx context.Context, c *conn, behind bool, texts []string, done func()) error {
	if len(texts) == 0 {
		return nil
	}
	push := "lpush"
	if (in.cfg.Side == "left") == behind {
		push = "rpush"
	}
	var commands [][]any
	for i := range texts {
		text := texts[len(texts)-1-i]
		if behind {
			text = texts[i]
		}
		commands = append(commands, in.removal(text), []any{push, in.cfg.Key, text})
	}
	return redis.Explain(in.once.Do(ctx, c.Client, commands, false, done), "put elements back into list "+in.cfg.Key)
}

// putBack puts back failed elements that are due.
func (in *input) putBack(ctx context.Context, c *conn, now time.Time) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	in.settling.Lock()
	defer in.settling.Unlock()
	if err := in.once.Resume(ctx, c.Client); err != nil {
		return err
	}
	var texts []string
	in.mu.Lock()
	n := 0
	for n < len(in.back) && !now.Before(in.back[n].due) { // they are in order: all wait equally long
		texts = append(texts, in.back[n].text)
		n++
	}
	in.mu.Unlock()
	return in.restore(ctx, c, true, texts, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.back = in.back[n:]
	})
}

// Renew sends heartbeats while no Read does, such as when reading is paused.
func (in *input) Renew(ctx context.Context, _ []uint64) (lost []uint64, next time.Duration, err error) {
	return nil, in.cfg.ClaimAfter / 4, in.recordAlive(ctx, in.Conn())
}

// heartbeat records that this consumer is alive, and when the fetch did so.
func (in *input) heartbeat(ctx context.Context, c *conn) error {
	c.alive = time.Now()
	return in.recordAlive(ctx, c)
}

// recordAlive records in Redis that this consumer is alive now, by the server's clock.
func (in *input) recordAlive(ctx context.Context, c *conn) error {
	now, err := in.now(ctx, c)
	if err == nil {
		_, err = c.Ask(ctx, 1, "zadd", in.consumers, now.UnixMilli(), in.consumer)
	}
	return redis.Explain(err, "record in "+in.consumers+" that this consumer is alive")
}

// now returns the server's time or, with a cluster, that of this machine.
func (in *input) now(ctx context.Context, c *conn) (time.Time, error) {
	if !in.cfg.Clustered() {
		short, cancel := c.Within(ctx)
		defer cancel()
		return c.Time(short).Result()
	}
	return time.Now(), nil // the client would send TIME to any node, and their clocks differ
}

// reclaim puts back the elements in flight of consumers that have sent no heartbeat for claim_after.
func (in *input) reclaim(ctx context.Context, c *conn) error {
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
		n, err := in.moveBack(ctx, c, redis.Processing(in.cfg.Key, name))
		if err != nil {
			return err
		}
		if n > 0 {
			in.log.Warn("a consumer is silent: its elements in flight are back in the list", "list", in.cfg.Key, "consumer", name,
				"elements", n)
		}
		for _, key := range []string{in.consumers, in.once.Key} {
			if _, err := c.Ask(ctx, 1, "zrem", key, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveBack moves all elements in flight of a consumer to the front of the list, the newest first, which keeps their order.
func (in *input) moveBack(ctx context.Context, c *conn, from string) (n int, err error) {
	for ; ; n++ {
		_, err := c.Ask(ctx, 1, "lmove", from, in.cfg.Key, "RIGHT", in.side)
		if errors.Is(err, goredis.Nil) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
