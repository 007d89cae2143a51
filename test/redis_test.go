package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/redistest"
	"github.com/redis/go-redis/v9"
)

// redisRelaying is a flowd that copies n messages from a stream or list to another.
type redisRelaying struct {
	*testing.T
	*process
	c         redis.UniversalClient
	kind      string // "stream" or "list"
	in, out   string
	n         int
	dir, text string
}

// redisRelay fills the input and starts flowd. server has the config fields with which flowd connects; c is the test's own
// client.
func redisRelay(t *testing.T, kind, server string, c redis.UniversalClient, n int) *redisRelaying {
	t.Helper()
	group := map[string]string{"stream": "group: g, delete: true,", "list": ""}[kind]
	// In a cluster, these keys are on the last and the first node.
	r := &redisRelaying{T: t, c: c, kind: kind, in: "in{a}", out: "out{b}", n: n, dir: t.TempDir()}
	r.text = fmt.Sprintf(`
inputs:
  in: {redis_%s: {%s, key: "%s", %s consumer: me, claim_after: 2s, timeout: 2s}}
batchers:
  all: {batch: {size: 100, timeout: 5ms}, output: out}
outputs:
  out:
    redis_%[1]s: {%[2]s, key: "%[5]s", timeout: 2s}
    concurrency: 2
engine: {rate_limit: {messages: 200, per: 50ms}, on_failure: {retry: {max_attempts: 0, intervals: [50ms]}}}
`, kind, server, r.in, group, r.out)
	for from := 0; from < n; from += 1000 {
		pipe := c.Pipeline()
		for i := from; i < min(n, from+1000); i++ {
			if kind == "stream" {
				pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: r.in, Values: []any{"payload", i, "n", i}})
			} else {
				pipe.RPush(t.Context(), r.in, i)
			}
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	return r
}

func (r *redisRelaying) start() {
	r.process = start(r.T, r.dir, "-c", write(r.T, r.dir, "relay.yaml", r.text))
}

// countWritten returns the length of the output, or 0 while the server is not reachable.
func (r *redisRelaying) countWritten() int64 {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if r.kind == "stream" {
		return r.c.XLen(ctx, r.out).Val()
	}
	return r.c.LLen(ctx, r.out).Val()
}

// waitForWritten waits until the output has n messages.
func (r *redisRelaying) waitForWritten(n int) {
	r.Helper()
	for late := time.Now().Add(deadline); r.countWritten() < int64(n); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			r.Fatalf("%d of %d messages were written after %v", r.countWritten(), n, deadline)
		}
	}
}

// checkAllArrived waits until the input is empty and stops flowd. Each message must have arrived at least once, and no
// others.
func (r *redisRelaying) checkAllArrived() {
	r.Helper()
	redistest.Until(r.T, func() error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		left, err := r.c.LLen(ctx, r.in).Result()
		if r.kind == "stream" {
			left, err = r.c.XLen(ctx, r.in).Result()
		}
		if err == nil && left > 0 {
			err = fmt.Errorf("%d messages are left", left)
		}
		if err == nil && r.kind == "list" {
			if left = r.c.LLen(ctx, r.in+"~:processing:me").Val(); left > 0 {
				err = fmt.Errorf("%d messages are in flight", left)
			}
		}
		return err
	})
	r.Signal(syscall.SIGTERM)
	r.Wait().Want(r.T, 0)
	seen := make([]int, r.n)
	for _, text := range r.payloads() {
		var i int
		if err := json.Unmarshal([]byte(text), &i); err != nil || i < 0 || i >= r.n {
			r.Fatalf("%q has arrived, but was not sent", text)
		}
		seen[i]++
	}
	missing, twice := 0, 0
	for _, times := range seen {
		switch {
		case times == 0:
			missing++
		case times > 1:
			twice++
		}
	}
	if missing > 0 {
		r.Errorf("%d of %d messages are lost", missing, r.n)
	}
	r.Logf("%d messages, %d duplicates", r.n, twice)
}

// payloads returns all payloads in the output.
func (r *redisRelaying) payloads() (texts []string) {
	if r.kind == "list" {
		return r.c.LRange(r.Context(), r.out, 0, -1).Val()
	}
	for from := "-"; ; {
		var some []redis.XMessage
		redistest.Until(r.T, func() (err error) { // a cluster client may still use a node that was stopped
			if some, err = r.c.XRangeN(r.Context(), r.out, from, "+", 1000).Result(); err != nil {
				if c, ok := r.c.(*redis.ClusterClient); ok {
					c.ReloadState(r.Context())
				}
			}
			return err
		})
		for _, e := range some {
			text, n := fmt.Sprint(e.Values["payload"]), fmt.Sprint(e.Values["n"])
			if text != n {
				r.Fatalf("a message has the payload %s, but the field n is %s", text, n)
			}
			texts = append(texts, text)
		}
		if len(some) == 0 {
			return texts
		}
		from = "(" + some[len(some)-1].ID
	}
}

// testRedisRelay copies n messages with streams and with lists, and calls disturb meanwhile.
func testRedisRelay(t *testing.T, n int, settings []string, disturb func(r *redisRelaying, server *redistest.Redis, net *proxy)) {
	for _, kind := range []string{"stream", "list"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Own(t, settings...)
			net := startProxy(t, server.Address)
			r := redisRelay(t, kind, fmt.Sprintf("url: %q", "redis://"+net.addr), redistest.Client(t, server.URL()), n)
			disturb(r, server, net)
			r.checkAllArrived()
		})
	}
}

// TestRedisKilled kills flowd several times while messages flow.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	const lives = 4
	testRedisRelay(t, 1500*(lives+1), nil, func(r *redisRelaying, _ *redistest.Redis, _ *proxy) {
		for i := range lives {
			r.waitForWritten(1000 * (i + 1))
			r.Signal(syscall.SIGKILL)
			_ = r.Cmd.Wait()
			r.start()
		}
	})
}

// TestRedisNetwork cuts connections while messages flow, then refuses new ones, and then stops all traffic.
func TestRedisNetwork(t *testing.T) {
	t.Parallel()
	testRedisRelay(t, 6000, nil, func(r *redisRelaying, _ *redistest.Redis, net *proxy) {
		for i := range 3 {
			r.waitForWritten(800 * (i + 1))
			net.cut()
		}
		net.set(true, 0)
		net.cut()
		r.Says("the server closed the connection")
		net.set(false, 0)
		r.waitForWritten(3500)
		net.silence()
		r.Says("i/o timeout")
		net.cut()
		net.endSilence()
	})
}

// TestRedisRestarted restarts the server with its data while messages flow.
func TestRedisRestarted(t *testing.T) {
	t.Parallel()
	testRedisRelay(t, 4000, []string{"--appendonly", "yes", "--appendfsync", "always"},
		func(r *redisRelaying, server *redistest.Redis, _ *proxy) {
			for i := range 2 {
				r.waitForWritten(1200 * (i + 1))
				server.Stop()
				server.Start(r.T)
			}
		})
}

// TestRedisWithoutMemory makes the server reject writes for a while, and then the credentials.
func TestRedisWithoutMemory(t *testing.T) {
	t.Parallel()
	testRedisRelay(t, 3000, []string{"--maxmemory-policy", "noeviction"},
		func(r *redisRelaying, server *redistest.Redis, net *proxy) {
			r.waitForWritten(500)
			r.c.Do(r.Context(), "config", "set", "maxmemory", "1")
			r.Says("maxmemory")
			r.c.Do(r.Context(), "config", "set", "maxmemory", "0")
			r.waitForWritten(1500)
			if err := r.c.Do(r.Context(), "acl", "setuser", "default", "resetpass", ">new").Err(); err != nil {
				r.Fatal(err)
			}
			net.cut()
			r.Says("NOAUTH")
			if err := r.c.Do(r.Context(), "acl", "setuser", "default", "nopass").Err(); err != nil {
				r.Fatal(err)
			}
		})
}

// TestAnUnreachableCacheHoldsMessages: messages wait while the server of a cache is not reachable, and this is not an attempt.
func TestAnUnreachableCacheHoldsMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	server.Stop()
	file := write(t, t.TempDir(), "p.yaml", fmt.Sprintf(`
inputs: {in: {generate: {count: 50, body: '{"id": counter()}'}}}
processors:
  - log: came
  - {dedupe: {key: id, window: 1h, cache: seen}, retry: {max_attempts: 1}}
outputs: {out: {drop: {}}}
resources: {caches: {seen: {redis: {url: %q}}}}
`, server.URL()))
	p := start(t, t.TempDir(), "-c", file)
	p.Says("came")
	p.Says("step waiting: server unreachable")
	server.Start(t)
	p.Wait().Want(t, 0, "50 received: 50 delivered")
}

// TestRedisSentinel stops the master. The sentinels promote its replica, and flowd continues there.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinels(t)
	server := fmt.Sprintf("sentinel: {master: %s, addresses: [%s]}", redistest.MasterName, strings.Join(set.Sentinels, ", "))
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: set.Sentinels, Protocol: 2})
	defer c.Close()
	r := redisRelay(t, "stream", server, c, 4000)
	r.waitForWritten(1000)
	// Replication is asynchronous: acknowledged writes that the replica lacks would be lost with the master.
	r.Signal(syscall.SIGTSTP)
	redistest.Until(t, func() error {
		master := redistest.Client(t, set.Master.URL())
		if n := master.XInfoGroups(t.Context(), r.in).Val(); len(n) != 1 || n[0].Pending > 0 {
			return errors.New("messages are in flight")
		}
		if n, err := master.Wait(t.Context(), 1, time.Second).Result(); err != nil || n != 1 {
			return fmt.Errorf("%d replicas are in sync: %w", n, err)
		}
		return nil
	})
	set.Master.Stop()
	r.Signal(syscall.SIGCONT)
	r.checkAllArrived()
	if n := redistest.Client(t, set.Replica.URL()).XLen(t.Context(), r.out).Val(); n < 4000 {
		t.Errorf("the new master has %d messages, want at least 4000", n)
	}
}

// TestRedisCluster makes the cluster promote a replica while messages flow.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addresses(), Protocol: 2})
	defer c.Close()
	r := redisRelay(t, "stream", fmt.Sprintf("cluster: [%s]", strings.Join(nodes.Addresses(), ", ")), c, 4000)
	r.waitForWritten(1000)
	if err := redistest.Client(t, nodes[3].URL()).ClusterFailover(t.Context()).Err(); err != nil { // replaces the first node
		t.Fatal(err)
	}
	redistest.Until(t, func() error {
		info := redistest.Client(t, nodes[3].URL()).Info(t.Context(), "replication").Val()
		if !strings.Contains(info, "role:master") {
			return errors.New("the replica is not a master yet")
		}
		return nil
	})
	nodes[0].Stop()
	now := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[1].Address, nodes[3].Address}, Protocol: 2})
	defer now.Close()
	r.c = now // the old client is slow to notice that a node has stopped
	r.checkAllArrived()
}

// TestRedisExample runs the example, and redrives its dead letters.
func TestRedisExample(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	c := redistest.Client(t, server.URL())
	ctx := t.Context()
	c.HSet(ctx, "customer:7", "name", "Kim", "plan", "gold")
	for _, p := range []string{`{"id": 1, "customer": 7}`, `{"id": 1, "customer": 7}`, `{"id": 2, "customer": 8}`, `{"id": 3}`} {
		c.XAdd(ctx, &redis.XAddArgs{Stream: "orders", Values: []string{"payload", p, "by", "web"}})
	}
	p := start(t, repo, "-c", "examples/redis.yaml", "-s", "inputs.orders.redis_stream.url="+server.URL(),
		"-s", "processors[1].redis.url="+server.URL(), "-s", "outputs.shipping.redis_stream.url="+server.URL(),
		"-s", "outputs.dead.redis_stream.url="+server.URL(), "-s", "resources.caches.seen.redis.url="+server.URL())
	redistest.Until(t, func() error {
		if s, d := c.XLen(ctx, "shipping").Val(), c.XLen(ctx, "orders-dead").Val(); s != 2 || d != 1 {
			return fmt.Errorf("%d shipped, %d dead letters", s, d)
		}
		return nil
	})
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "4 received", "2 delivered", "1 dead-lettered", "1 filtered")
	var got []string
	for _, e := range c.XRange(ctx, "shipping", "-", "+").Val() {
		got = append(got, fmt.Sprint(e.Values["payload"], e.Values["by"]))
	}
	want := []string{`{"id": 1, "customer": {"name":"Kim","plan":"gold"}}web`, `{"id": 2, "customer": {}}web`}
	if !slices.Equal(got, want) {
		t.Errorf("shipped %q, want %q", got, want)
	}
	flowd(t, repo, "", "queue", "redrive", server.URL(), "orders-dead").Want(t, 0, "1")
	if last := c.XRevRangeN(ctx, "orders", "+", "-", 1).Val()[0].Values; fmt.Sprint(last) != `map[by:web payload:{"id": 3}]` {
		t.Errorf("redriven: %v", last)
	}
}
