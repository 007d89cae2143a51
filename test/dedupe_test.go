package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/redistest"
)

const dedupePipeline = `
inputs:
  in: {file: {path: in.ndjson}}
processors:
  - dedupe: {key: id, cache: seen}
batchers:
  all: {batch: {size: 1000, timeout: 20ms}, output: out}
outputs:
  out: {redis_list: {url: %[1]q, key: out}}
engine: {rate_limit: {messages: 50, per: 10ms}}
resources: {caches: {seen: {redis: {url: %[1]q, prefix: "seen:"}}}}
`

// TestDedupeAfterAKill kills one of several flowds that share a dedupe cache in Redis. Two others read the same messages.
// They must deliver all messages that the first has not, and may repeat only those that it had in flight.
func TestDedupeAfterAKill(t *testing.T) {
	t.Parallel()
	const n = 3000
	server := redistest.Own(t)
	c := redistest.Client(t, server.URL())
	run := func() *process {
		var text strings.Builder
		for _, id := range rand.Perm(n) {
			fmt.Fprintf(&text, `{"id":%d}`+"\n", id)
		}
		dir := t.TempDir()
		write(t, dir, "in.ndjson", text.String())
		return start(t, dir, "-c", write(t, dir, "p.yaml", fmt.Sprintf(dedupePipeline, server.URL())))
	}
	first := run()
	redistest.Until(t, func() error {
		if got := c.LLen(t.Context(), "out").Val(); got < n/4 {
			return fmt.Errorf("%d messages are delivered", got)
		}
		return nil
	})
	first.Signal(syscall.SIGKILL)
	_ = first.Cmd.Wait()
	var orphans []string
	for it := c.Scan(t.Context(), 0, "seen:*", 1000).Iterator(); it.Next(t.Context()); {
		if v := c.Get(t.Context(), it.Val()).Val(); v != "true" {
			orphans = append(orphans, it.Val())
		}
	}
	if len(orphans) == 0 {
		t.Error("the killed process had no messages in flight")
	}
	others := []*process{run(), run()}
	redistest.Until(t, func() error {
		if got := c.LLen(t.Context(), "out").Val(); got < n/2 {
			return fmt.Errorf("%d messages are delivered", got)
		}
		return nil
	})
	for _, key := range orphans { // as if their leases had expired
		if ttl := c.PTTL(t.Context(), key).Val(); ttl > 30*time.Second {
			t.Errorf("a key of the killed process expires in %v, want at most 30s", ttl)
		}
		c.Del(t.Context(), key)
	}
	for _, p := range others {
		p.Wait().Want(t, 0)
	}
	seen := map[int]int{}
	for _, body := range c.LRange(t.Context(), "out", 0, -1).Val() {
		var m struct{ ID int }
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		seen[m.ID]++
	}
	twice := 0
	for _, times := range seen {
		twice += times - 1
	}
	if len(seen) != n || twice > len(orphans) {
		t.Errorf("%d of %d messages were delivered, with %d duplicates and %d in flight when the process was killed", len(seen), n, twice,
			len(orphans))
	}
	t.Logf("%d in flight, %d duplicates", len(orphans), twice)
}
