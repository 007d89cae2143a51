package redispubsub

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
)

func opened(t testing.TB, fields string) *input {
	t.Helper()
	in := enginetest.New(t, engine.Inputs, `{"redis_pubsub": {`+fields+`}}`).(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// read reads n messages, as CHANNEL PATTERN PAYLOAD.
func read(t testing.TB, in *input, n int) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(all) < n {
		b := engine.NewBatch(n - len(all))
		if _, err := in.Read(ctx, b); err != nil || ctx.Err() != nil {
			t.Fatalf("read %q, want %d: %v", all, n, err)
		}
		for m := range b.All() {
			meta := m.Meta.Map()
			all = append(all, fmt.Sprint(meta["channel"], " ", meta["pattern"], " ", string(m.Bytes())))
		}
	}
	return all
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChannelsAndPatterns(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c := redistest.Client(t, url)
	in := opened(t, fmt.Sprintf(`"url": %q, "channels": %q, "patterns": "%s.*"`, url, key, key))
	for _, name := range []string{"", ".a", "no", ".b"} {
		c.Publish(t.Context(), key+name, "p"+name)
	}
	equal(t, read(t, in, 3), []string{key + " <nil> p", key + ".a " + key + ".* p.a", key + ".b " + key + ".* p.b"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.Read(ctx, engine.NewBatch(1)); err != nil {
		t.Error(err)
	}
}

func TestMessagesBeyondTheBufferAreDroppedAndCounted(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c := redistest.Client(t, url)
	in := opened(t, fmt.Sprintf(`"url": %q, "channels": %q, "buffer": "1KiB"`, url, key))
	const n = 10
	for range n {
		c.Publish(t.Context(), key, strings.Repeat("x", 400))
	}
	var dropped int
	redistest.Until(t, func() error {
		c := in.Conn()
		c.mu.Lock()
		defer c.mu.Unlock()
		if dropped = c.dropped; len(c.waiting) == 2 && !c.logged.IsZero() && dropped == n-3 {
			return nil
		}
		return fmt.Errorf("%d wait, %d are dropped", len(c.waiting), dropped)
	})
	read(t, in, 2)
	c.Publish(t.Context(), key, "y")
	equal(t, read(t, in, 1), []string{key + " <nil> y"})
}

func TestAConnectionThatIsLost(t *testing.T) {
	r := redistest.Own(t)
	in := opened(t, fmt.Sprintf(`"url": %q, "channels": "a"`, r.URL()))
	redistest.Client(t, r.URL()).Publish(t.Context(), "a", "1")
	equal(t, read(t, in, 1), []string{"a <nil> 1"})
	r.Stop()
	_, err := in.Read(t.Context(), engine.NewBatch(1))
	if err == nil || !strings.Contains(err.Error(), "messages are lost until") {
		t.Errorf("got %v", err)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := in.Open(t.Context()); err == nil {
		t.Error("a server that is gone can be subscribed to")
	}
	r.Start(t)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Client(t, r.URL()).Publish(t.Context(), "a", "2")
	equal(t, read(t, in, 1), []string{"a <nil> 2"})
}

func TestAServerThatIsNotThereAtTheStartIsWaitedFor(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"redis_pubsub": {"url": "redis://127.0.0.1:1", "channels": "a"}}`) // nobody listens there
	if err := in.(engine.Opener).Open(t.Context()); !engine.Passes(err) {
		t.Errorf("got %v", err)
	}
}

func TestConfig(t *testing.T) {
	for component, want := range map[string]string{
		`{"url": "redis://h"}`:                                    "names no channel",
		`{"url": "redis://h", "channels": ["a", ""]}`:             "empty name",
		`{"url": "redis://h", "channel": "a", "channels": ["a"]}`: "write `channels`",
		`{"url": "redis://h", "patterns": "a*", "buffer": "1B"}`:  "buffer",
	} {
		said := strings.Join(enginetest.Problems(t, engine.Inputs, `{"redis_pubsub": `+component+`}`), "\n")
		if !strings.Contains(said, want) {
			t.Errorf("%s: got %q, want %q in it", component, said, want)
		}
	}
}
