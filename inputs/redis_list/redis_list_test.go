package redislist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	goredis "github.com/redis/go-redis/v9"
)

func made(t testing.TB, url, key, more string) *input {
	t.Helper()
	if !strings.Contains(more, "consumer") {
		more += `, "consumer": "me"`
	}
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q%s}}`, url, key, more)).(*input)
}

func opened(t testing.TB, url, key, more string) *input {
	t.Helper()
	in := made(t, url, key, more)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// read reads until there are n messages.
func read(t testing.TB, in *input, n int) (texts []string, refs []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(texts) < n {
		b := engine.NewBatch(n - len(texts))
		_, err := in.Read(ctx, b)
		for m := range b.All() {
			texts, refs = append(texts, string(m.Bytes())), append(refs, m.Ref)
		}
		if err != nil || ctx.Err() != nil {
			t.Fatalf("read %q, want %d: %v", texts, n, err)
		}
	}
	return texts, refs
}

func settle(t testing.TB, in *input, fate engine.Fate, err *engine.Error, refs ...uint64) {
	t.Helper()
	var rs []engine.Result
	for _, ref := range refs {
		rs = append(rs, engine.Result{Ref: ref, Fate: fate, Err: err})
	}
	if again, e := in.Ack(t.Context(), rs); e != nil || len(again) > 0 {
		t.Fatalf("ack: %v, %d again", e, len(again))
	}
}

func list(c *goredis.Client, key string) string {
	return strings.Join(c.LRange(context.Background(), key, 0, -1).Val(), " ")
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

type ending struct {
	*input
	left int
}

func (e *ending) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if e.left == 0 {
		return e.input, engine.ErrEnd
	}
	a, err := e.input.Read(ctx, b)
	e.left -= b.Len()
	return a, err
}

func TestInput(t *testing.T) {
	url := redistest.URL(t)
	enginetest.Input(t, func(t *testing.T) engine.Input {
		key := redistest.Key(t)
		for _, p := range enginetest.Awkward() {
			redistest.Client(t, url).RPush(t.Context(), key, p)
		}
		return &ending{made(t, url, key, ""), len(enginetest.Awkward())}
	}, enginetest.Awkward()...)
}

func TestElementsInFlightAreKept(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key, "a", "b", "b", "c")
	first := opened(t, redistest.URL(t), key, "")
	texts, refs := read(t, first, 4)
	equal(t, "read", texts, []string{"a", "b", "b", "c"})
	mine := "{" + key + "}:processing:me"
	equal(t, "in flight", list(c, mine), "a b b c")
	settle(t, first, engine.Delivered, nil, refs[0], refs[1])
	equal(t, "in flight", list(c, mine), "b c")
	first.Conn().Client.Close() // as if the process were killed
	c.RPush(t.Context(), key, "d")
	second := opened(t, redistest.URL(t), key, "")
	texts, refs = read(t, second, 3)
	equal(t, "read after a restart", texts, []string{"b", "c", "d"})
	settle(t, second, engine.Filtered, nil, refs...)
	equal(t, "in flight", list(c, mine), "")
}

func TestTheOtherSide(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.LPush(t.Context(), key, "a", "b", "c")
	in := opened(t, redistest.URL(t), key, `, "side": "right"`)
	texts, refs := read(t, in, 3)
	equal(t, "read", texts, []string{"a", "b", "c"})
	back := (&engine.Error{Class: engine.Transient, Err: errors.New("a stop")}).HandedBack()
	settle(t, in, engine.Returned, back, refs[1:]...)
	texts, _ = read(t, in, 2)
	equal(t, "read again", texts, []string{"b", "c"})
}

func TestAFailedElementGoesBehindTheOthers(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key, "a", "b")
	in := opened(t, redistest.URL(t), key, "")
	_, refs := read(t, in, 1)
	settle(t, in, engine.Returned, engine.Errorf(engine.Rejected, "no"), refs...)
	in.mu.Lock()
	in.back[0].due = time.Now()
	in.mu.Unlock()
	texts, _ := read(t, in, 2)
	equal(t, "read", texts, []string{"b", "a"})
}

func TestAStopPutsEverythingBack(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key, "a", "b", "c")
	in := opened(t, redistest.URL(t), key, "")
	_, refs := read(t, in, 1)
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, in, engine.Returned, engine.Errorf(engine.Rejected, "no"), refs...)
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "the list", list(c, key), "a b c")
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	texts, _ := read(t, in, 3)
	equal(t, "read", texts, []string{"a", "b", "c"})
}

// An input that failed and is opened again continues with what it has in flight.
func TestReopened(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key, "a", "b")
	in := opened(t, redistest.URL(t), key, "")
	_, refs := read(t, in, 1)
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	texts, more := read(t, in, 1)
	equal(t, "read", texts, []string{"b"})
	settle(t, in, engine.Delivered, nil, append(refs, more...)...)
	equal(t, "in flight", list(c, in.processing), "")
}

func TestElementsOfADeadConsumerGoBack(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key, "a", "b")
	dead := opened(t, redistest.URL(t), key, `, "consumer": "dead"`)
	read(t, dead, 2)
	dead.Conn().Client.Close()
	in := opened(t, redistest.URL(t), key, `, "claim_after": "1s"`)
	texts, _ := read(t, in, 2)
	equal(t, "read", texts, []string{"a", "b"})
	equal(t, "consumers", c.ZRange(t.Context(), "{"+key+"}:consumers", 0, -1).Val(), []string{"me"})
	if _, next, err := in.Renew(t.Context(), nil); err != nil || next <= 0 {
		t.Errorf("renew: %v, %v", next, err)
	}
}

func TestErrors(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.Set(t.Context(), key, "x", 0)
	in := opened(t, redistest.URL(t), key, "")
	b := engine.NewBatch(1)
	_, err := in.Read(t.Context(), b) // its own list
	if err == nil {
		_, err = in.Read(t.Context(), b)
	}
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.Permanent {
		t.Errorf("a key of another type: %v", err)
	}
	away := made(t, "redis://127.0.0.1:1", key, "") // nobody listens there
	if err := away.Open(t.Context()); !engine.Passes(err) {
		t.Errorf("a server that is not there at the start: %v", err)
	}
	if said := enginetest.Problems(t, engine.Inputs, `{"redis_list": {"url": "redis://h"}}`); len(said) == 0 {
		t.Error("a list without a name is accepted")
	}
	if said := enginetest.Problems(t, engine.Inputs, `{"redis_list": {"cluster": "h", "key": "a{b"}}`); len(said) == 0 {
		t.Error("a key whose processing list would be in another slot is accepted")
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var c *goredis.Client
	var key string
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			c, key = redistest.Client(t, redistest.URL(t)), redistest.Key(t)
			return fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q, "timeout": "1s"}}`, wire.Over(redistest.URL(t)), key)
		},
		Send: func(t *testing.T, payloads ...string) {
			for _, p := range payloads {
				c.RPush(t.Context(), key, p)
			}
		},
		Left: func(t *testing.T) int {
			n := c.LLen(t.Context(), key).Val()
			for _, k := range c.Keys(t.Context(), "{"+key+"}:processing:*").Val() {
				n += c.LLen(t.Context(), k).Val()
			}
			return int(n)
		},
		Shared: true, Answers: 5,
	}.Run(t)
}
