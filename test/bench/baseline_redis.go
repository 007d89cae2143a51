package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisRelay copies entries from the stream args[1] to args[2] at the URL args[0]. It reads with a consumer group, adds in
// pipelines, and acknowledges what it has added.
func redisRelay(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := redis.ParseURL(args[0])
	if err != nil {
		return err
	}
	c, in, out := redis.NewClient(o), args[1], args[2]
	defer c.Close()
	if err := c.XGroupCreate(ctx, in, "bench", "0").Err(); err != nil {
		return err
	}
	work := context.WithoutCancel(ctx) // entries that were read are still copied
	for ctx.Err() == nil {
		streams, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "bench", Consumer: "one", Streams: []string{in, ">"},
			Count: 1000, Block: 100 * time.Millisecond}).Result()
		if err == redis.Nil || ctx.Err() != nil { //nolint:errorlint // as the library documents it
			continue
		}
		if err != nil {
			return err
		}
		pipe, ids := c.Pipeline(), make([]string, 0, 1000)
		for _, e := range streams[0].Messages {
			var m map[string]any
			if err := json.Unmarshal([]byte(e.Values["payload"].(string)), &m); err != nil {
				return err
			}
			m["severity"] = "critical"
			body, err := json.Marshal(m)
			if err != nil {
				return err
			}
			pipe.XAdd(work, &redis.XAddArgs{Stream: out, Values: []any{"payload", body}})
			ids = append(ids, e.ID)
		}
		if _, err := pipe.Exec(work); err != nil {
			return err
		}
		if err := c.XAck(work, in, "bench", ids...).Err(); err != nil {
			return err
		}
	}
	return nil
}
