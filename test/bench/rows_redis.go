package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowd-io/flowd/internal/testing/redistest"
)

var redisRows = []row{
	{
		name: "redis", does: "stream → set → stream, with acknowledgements", data: padded, needs: redisServer, cap: 200_000,
		run:         func(w *world, r *row, c *contestant, n int, _ bool) (sample, error) { return runRedis(w, r, c, n) },
		contestants: []contestant{inFlowd("redis"), theLimit("go-redis", "redis-relay $url $from $to")},
		goals:       []goal{{than: "go-redis", atLeast: 0.85}},
	},
}

// redisServer starts a server, which runs until this process exits, or says why it can't.
func redisServer(w *world) error {
	if w.redis != "" {
		return nil
	}
	var t skipRecorder
	done := make(chan struct{})
	go func() { // Skip ends this goroutine
		defer close(done)
		w.redis = redistest.URL(&t)
	}()
	<-done
	if w.redis == "" {
		return errors.New(t.why)
	}
	return nil
}

// runRedis is the runner of rows that move n messages from one stream to another. It measures the time between the arrival
// of the first and of the last message.
func runRedis(w *world, r *row, c *contestant, n int) (s sample, err error) {
	o, err := redis.ParseURL(w.redis)
	if err != nil {
		return s, err
	}
	client := redis.NewClient(o)
	defer client.Close()
	w.serial++
	from, to := fmt.Sprintf("bench-from-%d", w.serial), fmt.Sprintf("bench-to-%d", w.serial)
	defer client.Del(w.ctx, from, to)
	for at := 0; at < n; at += 1000 {
		pipe := client.Pipeline()
		for i := at; i < min(n, at+1000); i++ {
			pipe.XAdd(w.ctx, &redis.XAddArgs{Stream: from, Values: []any{"payload", r.data.line(nil, i)}})
		}
		if _, err := pipe.Exec(w.ctx); err != nil {
			return s, err
		}
	}
	p, err := w.start(c.command, map[string]string{"url": w.redis, "from": from, "to": to}, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	began, err := waitForEntries(w, client, to, n, p.ended)
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, p.stderr.String())
	}
	took := max(time.Since(began), time.Millisecond)
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, took), checkRedisStream(w, client, to, r.data, n)
}

// waitForEntries waits until a stream has n entries, and returns when it saw the first. It fails if the process that adds
// them ends.
func waitForEntries(w *world, c *redis.Client, stream string, n int, ended <-chan struct{}) (first time.Time, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		has, err := c.XLen(w.ctx, stream).Result()
		if err != nil {
			return first, err
		}
		if has > 0 && first.IsZero() {
			first = time.Now()
		}
		if has >= int64(n) {
			return first, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return first, errors.New("the process exited")
		case <-late:
			return first, fmt.Errorf("%d of %d messages arrived in stream %s", has, n, stream)
		}
	}
}

// checkRedisStream checks the entries of a stream, which must have one field more than the input.
func checkRedisStream(w *world, c *redis.Client, stream string, d data, n int) error {
	seen := make(ids, n)
	for from := "-"; ; {
		some, err := c.XRangeN(w.ctx, stream, from, "+", 1000).Result()
		if err != nil {
			return err
		}
		for _, e := range some {
			body, _ := e.Values["payload"].(string)
			id, err := seen.mark([]byte(body))
			if err != nil {
				return err
			}
			if err := compareDocuments([]byte(body), d.line(nil, id), critical); err != nil {
				return err
			}
			from = "(" + e.ID
		}
		if len(some) == 0 {
			return nil
		}
	}
}
