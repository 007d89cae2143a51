package redisstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	goredis "github.com/redis/go-redis/v9"
)

// made returns an input for a stream, with more fields.
func made(t testing.TB, url, key, more string) *input {
	t.Helper()
	for name, value := range map[string]string{"group": "g", "consumer": "me"} {
		if !strings.Contains(more, `"`+name+`"`) {
			more += fmt.Sprintf(`, %q: %q`, name, value)
		}
	}
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q%s}}`, url, key, more)).(*input)
}

// opened returns an open input. It is closed when the test ends.
func opened(t testing.TB, url, key, more string) *input {
	t.Helper()
	in := made(t, url, key, more)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// got is a message that was read.
type got struct {
	text  string
	ref   uint64
	count int
	err   *engine.Error
}

// read reads until there are n messages.
func read(t testing.TB, in *input, n int) (all []got) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(all) < n {
		b := engine.NewBatch(n - len(all))
		_, err := in.Read(ctx, b)
		for m := range b.All() {
			all = append(all, got{string(m.Bytes()), m.Ref, m.Attempt, m.Err()})
		}
		for m := range b.Ended() {
			all = append(all, got{string(m.Bytes()), m.Ref, m.Attempt, m.Err()})
		}
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatalf("read %d messages, want %d", len(all), n)
		}
	}
	return all
}

func texts(all []got) (t []string) {
	for _, g := range all {
		t = append(t, g.text)
	}
	return t
}

func settle(t testing.TB, in *input, fate engine.Fate, err *engine.Error, all ...got) {
	t.Helper()
	var rs []engine.Result
	for _, g := range all {
		rs = append(rs, engine.Result{Ref: g.ref, Fate: fate, Err: err})
	}
	again, e := in.Ack(t.Context(), rs)
	if e != nil || len(again) > 0 {
		t.Fatalf("ack: %v, %d again", e, len(again))
	}
}

// add adds entries with a payload.
func add(t testing.TB, c *goredis.Client, key string, payloads ...string) (ids []string) {
	t.Helper()
	for _, p := range payloads {
		id, err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: []string{"payload", p}}).Result()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// left returns the number of entries of the group that are not settled.
func left(t testing.TB, c *goredis.Client, key string) int64 {
	t.Helper()
	p, err := c.XPending(t.Context(), key, "g").Result()
	if err != nil {
		t.Fatal(err)
	}
	return p.Count
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// ending is an input that ends after a number of messages.
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
		add(t, redistest.Client(t, url), key, enginetest.Awkward()...)
		return &ending{made(t, url, key, ""), len(enginetest.Awkward())}
	}, enginetest.Awkward()...)
}

func TestConfig(t *testing.T) {
	tests := []struct{ name, component, want string }{
		{"no server", `{"key": "a", "group": "g"}`, "write one of `url`, `sentinel` and `cluster`"},
		{"two servers", `{"url": "redis://h", "cluster": "h:1", "key": "a", "group": "g"}`, "several ways"},
		{"no group", `{"url": "redis://h", "key": "a"}`, "group"},
		{"a URL of something else", `{"url": "http://h", "key": "a", "group": "g"}`, "redis://"},
		{"a parameter", `{"url": "redis://h?x=1", "key": "a", "group": "g"}`, "parameters"},
		{"a key twice", `{"url": "redis://h", "key": ["a", "a"], "group": "g"}`, "twice"},
		{"keys of several slots", `{"cluster": "h:1", "key": ["a", "b"], "group": "g"}`, "{tag}"},
		{"an invalid start", `{"url": "redis://h", "key": "a", "group": "g", "start": "first"}`, "earliest, latest"},
		{"TLS without a URL for it", `{"url": "redis://h", "key": "a", "group": "g", "tls": {}}`, "rediss://"},
		{"a field of another product", `{"url": "redis://h", "streams": "a", "group": "g"}`, "write `key`"},
		{"a node that is a URL", `{"cluster": "redis://h", "key": "a", "group": "g"}`, "HOST:PORT"},
		{"a sentinel without a master", `{"sentinel": {"addresses": "h"}, "key": "a", "group": "g"}`, "master"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := strings.Join(enginetest.Problems(t, engine.Inputs, `{"redis_stream": `+tt.component+`}`), "\n")
			if !strings.Contains(said, tt.want) {
				t.Errorf("got %q, want %q in it", said, tt.want)
			}
		})
	}
	for _, fine := range []string{`{"cluster": ["h:1", "i"], "key": ["{x}a", "b{x}"], "group": "g"}`,
		`{"sentinel": {"master": "m", "addresses": "h"}, "key": "a", "group": "g", "start": "17-1", "db": 3}`,
		`{"url": "unix:///run/redis.sock?db=2", "key": "a", "group": "g", "field": ""}`} {
		if said := enginetest.Problems(t, engine.Inputs, `{"redis_stream": `+fine+`}`); len(said) > 0 {
			t.Errorf("%s: %v", fine, said)
		}
	}
}

func TestSettledEntriesAreAcknowledged(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a", "b", "c")
	in := opened(t, redistest.URL(t), key, `, "delete": true`)
	all := read(t, in, 3)
	equal(t, "read", texts(all), []string{"a", "b", "c"})
	equal(t, "not settled", left(t, c, key), 3)
	settle(t, in, engine.Delivered, nil, all[0], all[2])
	equal(t, "not settled", left(t, c, key), 1)
	equal(t, "in the stream", c.XLen(t.Context(), key).Val(), 1)
}

// Entries that a consumer has not settled are read first after a restart, except those that were deleted meanwhile.
func TestARestartReadsItsOwnEntriesFirst(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	ids := add(t, c, key, "a", "b", "c")
	first := opened(t, redistest.URL(t), key, "")
	settle(t, first, engine.Delivered, nil, read(t, first, 3)[0])
	first.Conn().Client.Close() // as if the process were killed
	c.XDel(t.Context(), key, ids[1])
	add(t, c, key, "d")
	second := opened(t, redistest.URL(t), key, "")
	all := read(t, second, 2)
	equal(t, "read", texts(all), []string{"c", "d"})
	equal(t, "deliveries", []int{all[0].count, all[1].count}, []int{2, 1})
	settle(t, second, engine.Delivered, nil, all...)
	equal(t, "not settled", left(t, c, key), 0)
}

// Entries that exceed max_reply together are read in several replies. Entries of the reply that was too large are not lost.
func TestEntriesThatAreTooLargeTogether(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	var want []string
	for i := range 40 {
		want = append(want, strconv.Itoa(i)+strings.Repeat("x", 10<<10))
	}
	add(t, c, key, want...)
	in := opened(t, redistest.URL(t), key, `, "max_reply": "64KiB"`)
	all := read(t, in, len(want))
	if got := texts(all); !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	settle(t, in, engine.Delivered, nil, all...)
	equal(t, "not settled", left(t, c, key), 0)
}

func TestIdleEntriesAreClaimed(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a", "b")
	dead := opened(t, redistest.URL(t), key, `, "consumer": "dead"`)
	equal(t, "read", texts(read(t, dead, 2)), []string{"a", "b"})
	in := opened(t, redistest.URL(t), key, `, "claim_after": "1s"`)
	all := read(t, in, 2)
	equal(t, "claimed", texts(all), []string{"a", "b"})
	equal(t, "deliveries", all[0].count, 2)
	lost, _, err := dead.Renew(t.Context(), nil)
	if err != nil || len(lost) != 0 {
		// Its own claim_after is a minute. Before half of that is over, it assumes that no other consumer has claimed its entries.
		t.Errorf("lost %v, %v", lost, err)
	}
}

// A consumer that was stalled for too long learns that it has lost its entries, and does not claim them again.
func TestALostEntryIsNotClaimedAgain(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a", "b")
	slow := opened(t, redistest.URL(t), key, `, "consumer": "slow", "claim_after": "1s"`)
	mine := read(t, slow, 2)
	in := opened(t, redistest.URL(t), key, `, "claim_after": "1s"`)
	theirs := read(t, in, 2)
	lost, _, err := slow.Renew(t.Context(), nil)
	slices.Sort(lost)
	equal(t, "lost", lost, []uint64{mine[0].ref, mine[1].ref})
	if err != nil {
		t.Error(err)
	}
	if lost, _, err := in.Renew(t.Context(), nil); err != nil || len(lost) > 0 {
		t.Errorf("the new owner has lost %v, %v", lost, err)
	}
	settle(t, in, engine.Delivered, nil, theirs...)
	equal(t, "not settled", left(t, c, key), 0)
}

// Entries in flight stay with their consumer as long as it renews them.
func TestEntriesInFlightAreRenewed(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a")
	slow := opened(t, redistest.URL(t), key, `, "consumer": "slow", "claim_after": "2s"`)
	read(t, slow, 1)
	in := opened(t, redistest.URL(t), key, `, "claim_after": "2s"`)
	for began := time.Now(); time.Since(began) < 3*time.Second; { // the server's clock can't be faked
		if _, _, err := slow.Renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		b := engine.NewBatch(1)
		if _, err := in.Read(ctx, b); err != nil || b.Len() > 0 {
			t.Fatalf("another consumer has %d, %v", b.Len(), err)
		}
		cancel()
	}
}

func TestReturnedEntriesAreRedelivered(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a", "b")
	in := opened(t, redistest.URL(t), key, `, "max_deliver": 2, "claim_after": "1s"`)
	all := read(t, in, 2)
	back := (&engine.Error{Class: engine.Transient, Err: errors.New("a stop")}).HandedBack()
	settle(t, in, engine.Returned, back, all[0])
	settle(t, in, engine.Returned, engine.Errorf(engine.Rejected, "no"), all[1])
	again := read(t, in, 2)
	equal(t, "read", texts(again), []string{"a", "b"})
	equal(t, "deliveries", []int{again[0].count, again[1].count}, []int{2, 2})
	settle(t, in, engine.Returned, back, again...)
	third := read(t, in, 2)
	if third[0].err == nil || third[0].err.Class != engine.Rejected || !strings.Contains(third[0].err.Error(), "max_deliver") {
		t.Errorf("beyond max_deliver: %v", third[0].err)
	}
	settle(t, in, engine.DeadLettered, nil, third...)
	equal(t, "not settled", left(t, c, key), 0)
}

func TestAGroupThatSomebodyDrops(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a", "b", "c")
	in := opened(t, redistest.URL(t), key, "")
	all := read(t, in, 2)
	settle(t, in, engine.Delivered, nil, all[0])
	c.XGroupDestroy(t.Context(), key, "g")
	add(t, c, key, "d")
	equal(t, "read after it was dropped", texts(read(t, in, 2)), []string{"c", "d"}) // b is in flight
	settle(t, in, engine.Delivered, nil, all[1])
	equal(t, "not settled", left(t, c, key), 2)
	c.Del(t.Context(), key)
	c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, ID: "1-1", Values: []string{"payload", "new"}})
	equal(t, "read of a stream that is new", texts(read(t, in, 1)), []string{"new"})
}

func TestAGroupThatIsMissingIsNotCreatedUnasked(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a")
	in := opened(t, redistest.URL(t), key, `, "create": false`)
	_, err := in.Read(t.Context(), engine.NewBatch(1))
	if engine.ErrorOf(err, "").Class != engine.Transient || !strings.Contains(err.Error(), "XGROUP CREATE") {
		t.Errorf("got %v", err)
	}
	c.XGroupCreate(t.Context(), key, "g", "0")
	equal(t, "read once somebody has created it", texts(read(t, in, 1)), []string{"a"})
}

func TestAServerThatIsNotThereAtTheStartIsWaitedFor(t *testing.T) {
	r := redistest.Own(t)
	r.Stop()
	in := made(t, r.URL(), "s", "")
	for range 2 {
		if err := in.Open(t.Context()); !engine.Passes(err) || !strings.Contains(err.Error(), "check that the server runs") {
			t.Errorf("got %v", err)
		}
	}
	r.Start(t)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, redistest.Client(t, r.URL()), "s", "a")
	equal(t, "read", texts(read(t, in, 1)), []string{"a"})
}

func TestAKeyOfAnotherType(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.Set(t.Context(), key, "x", 0)
	err := made(t, redistest.URL(t), key, "").Open(t.Context())
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.Permanent || !strings.Contains(err.Error(), "another type") {
		t.Errorf("got %v", err)
	}
}

func TestPayloadAndMetadata(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	x := func(values ...string) {
		c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: values})
	}
	x("payload", "p", "colour", "red", "tag", "1", "tag", "2", "id", "mine")
	in := opened(t, redistest.URL(t), key, "")
	b := engine.NewBatch(1)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		all := m.Meta.Map()
		for name, want := range map[string]any{"stream": key, "colour": "red", "tag": []any{"1", "2"}, "field_id": "mine",
			"delivery_count": 1, "payload": nil} {
			equal(t, name, all[name], want)
			v, _ := m.Meta.Get(name)
			equal(t, name+" alone", v, want)
		}
		var added []string
		for name := range m.Meta.Added() {
			added = append(added, name)
		}
		equal(t, "passed on", added, []string{"colour", "tag", "field_id"})
	}
	x("other", "p")
	if g := read(t, in, 1)[0]; g.err == nil || g.err.Class != engine.Decode {
		t.Errorf("an entry without the field: %v", g.err)
	}
	whole := opened(t, redistest.URL(t), key, `, "field": "", "group": "whole"`)
	equal(t, "whole entries", texts(read(t, whole, 2)),
		[]string{`{"payload":"p","colour":"red","tag":["1","2"],"id":"mine"}`, `{"other":"p"}`})
	x("bytes", "\xff")
	if g := read(t, whole, 1)[0]; g.err == nil || g.err.Class != engine.Decode {
		t.Errorf("bytes: %v", g.err)
	}
}

func TestSeveralStreams(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	add(t, c, key, "a1", "a2")
	add(t, c, key+"b", "b1", "b2")
	in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": [%q, %q], "group": "g"}}`,
		redistest.URL(t), key, key+"b")).(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := read(t, in, 4)
	sorted := slices.Sorted(slices.Values(texts(all)))
	equal(t, "read", sorted, []string{"a1", "a2", "b1", "b2"})
	settle(t, in, engine.Filtered, nil, all...)
	equal(t, "not settled", left(t, c, key)+left(t, c, key+"b"), 0)
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIDs(t *testing.T) {
	for _, tt := range []struct{ a, b string }{{"1-0", "1-1"}, {"1-9", "1-10"}, {"9-1", "10-0"}, {"5", "5-1"}} {
		if !less(tt.a, tt.b) || less(tt.b, tt.a) || less(tt.a, tt.a) {
			t.Errorf("%s and %s are not in order", tt.a, tt.b)
		}
	}
	for id, want := range map[string]string{"5-3": "5-2", "5-0": "4-18446744073709551615", "0-0": "0-0", "0-1": "0-0"} {
		equal(t, "before "+id, before(id), want)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var c *goredis.Client
	var key string
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			c, key = redistest.Client(t, redistest.URL(t)), redistest.Key(t)
			return fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q, "group": "g", "timeout": "1s", "start": "earliest"}}`,
				wire.Over(redistest.URL(t)), key)
		},
		Send: func(t *testing.T, payloads ...string) { add(t, c, key, payloads...) },
		SendHeaders: func(t *testing.T, payload string, headers map[string]string) {
			fields := []string{"payload", payload}
			for name, value := range headers {
				fields = append(fields, name, value)
			}
			if err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: fields}).Err(); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t *testing.T) int {
			all := c.XInfoGroups(t.Context(), key).Val()
			return int(all[0].Pending + all[0].Lag)
		},
		Shared: true, Answers: 5,
	}.Run(t)
}
