package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// start is the time when the tests begin.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// first returns the key of a payload in these tests: the text before its colon.
func first(m *engine.Message) string {
	key, _, ok := strings.Cut(string(m.Bytes()), ":")
	if !ok {
		return ""
	}
	return key
}

// bench is a batcher with a clock, and the batches that it has sent.
type bench struct {
	*batcher
	now  time.Time
	sent []string
}

func newBench(c Config) *bench {
	if c.Timeout == 0 {
		c.Timeout = defaults.Timeout
	}
	return &bench{batcher: newBatcher(c, first), now: start}
}

func (b *bench) add(payloads ...string) *engine.Batch {
	in := enginetest.Batch(payloads...)
	b.Add(in, b.now, b.emit)
	return in
}

func (b *bench) emit(out *engine.Batch, why engine.Trigger) {
	var bodies []string
	for m := range out.All() {
		bodies = append(bodies, string(m.Bytes()))
	}
	b.sent = append(b.sent, fmt.Sprintf("%s: %s", why, strings.Join(bodies, " ")))
}

func (b *bench) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func bytes(n int) string { return strings.Repeat("x", n) }

func TestTriggers(t *testing.T) {
	tests := []struct {
		name string
		c    Config
		run  func(b *bench)
		want []string
	}{
		{"a full batch leaves at once", Config{Size: 2}, func(b *bench) { b.add("a", "b", "c") },
			[]string{"size: a b"}},
		{"a lone message waits", Config{Size: 2}, func(b *bench) { b.add("a") }, nil},
		{"messages of several slabs share a batch", Config{Size: 3}, func(b *bench) {
			b.add("a")
			b.add("b", "c")
		}, []string{"size: a b c"}},
		{"a batch leaves before the message that would overflow it", Config{Bytes: 5}, func(b *bench) {
			b.add("aaa", "bbb", "c")
		}, []string{"bytes: aaa"}},
		{"a batch that is just full of bytes leaves at once", Config{Bytes: 4},
			func(b *bench) { b.add("aa", "bb", "c") }, []string{"bytes: aa bb"}},
		{"a larger message goes alone, behind the batch before it", Config{Bytes: 4}, func(b *bench) {
			b.add("a", "bbbbbb", "c")
		}, []string{"bytes: a", "bytes: bbbbbb"}},
		{"without size and bytes only time counts", Config{}, func(b *bench) {
			for range 1000 {
				b.add(bytes(1000))
			}
		}, nil},
		{"keys have batches of their own", Config{Size: 2}, func(b *bench) {
			b.add("k:1", "l:1", "m", "l:2", "k:2", "n")
		}, []string{"size: l:1 l:2", "size: k:1 k:2", "size: m n"}},
		{"a byte budget counts per key", Config{Bytes: 16}, func(b *bench) {
			b.add("k:"+bytes(38), "l:", "l:"+bytes(11), "l:3") // 40, 2, 13 and 3 bytes
			b.Flush(b.now, engine.ByEnd, -1, b.emit)
		}, []string{"bytes: k:" + bytes(38), "bytes: l: l:" + bytes(11), "end: l:3"}},
		{"a byte budget that is met exactly sends, and the rest waits", Config{Bytes: 16}, func(b *bench) {
			b.add(bytes(1), bytes(3), bytes(5), bytes(7), bytes(9))
			b.now = b.now.Add(time.Second)
			b.Flush(b.now, engine.ByTimeout, 0, b.emit)
		}, []string{"bytes: x xxx xxxxx xxxxxxx", "timeout: xxxxxxxxx"}},
		{"the least recently used key makes room for a new one", Config{Size: 9, MaxKeys: 2}, func(b *bench) {
			b.add("k:1", "l:1", "k:2", "m:1", "l:2")
		}, []string{"evicted: l:1", "evicted: k:1 k:2"}},
		{"a batch that leaves for its bytes makes room for itself", Config{Bytes: 3, MaxKeys: 1}, func(b *bench) {
			b.add("k:1", "k:2")
		}, []string{"bytes: k:1", "bytes: k:2"}},
		{"flush under pressure sends the first opened until enough have left", Config{Size: 9}, func(b *bench) {
			b.add("k:1", "l:1", "m:1", "k:2", "l:2")
			b.Flush(b.now, engine.ByPressure, 3, b.emit)
		}, []string{"pressure: k:1 k:2", "pressure: l:1 l:2"}},
		{"flush at the end sends all in the order of their opening", Config{Size: 9}, func(b *bench) {
			b.add("k:1", "l:1", "m:1", "k:2")
			b.Flush(b.now, engine.ByEnd, -1, b.emit)
		}, []string{"end: k:1 k:2", "end: l:1", "end: m:1"}},
		{"flush of nothing sends nothing", Config{}, func(b *bench) { b.Flush(b.now, engine.ByDrain, -1, b.emit) },
			nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(tt.c)
			tt.run(b)
			b.want(t, tt.want...)
		})
	}
}

func TestTheTimeoutCountsFromTheFirstMessage(t *testing.T) {
	b := newBench(Config{Size: 9, Timeout: time.Second})
	if due := b.Due(); !due.IsZero() {
		t.Errorf("an empty batcher is due at %v, want never", due)
	}
	b.add("k:1")
	b.now = start.Add(600 * time.Millisecond)
	b.add("k:2", "l:1")
	if got, want := b.Due(), start.Add(time.Second); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
	b.now = start.Add(999 * time.Millisecond)
	b.Flush(b.now, engine.ByTimeout, 0, b.emit)
	b.want(t)
	b.now = start.Add(time.Second)
	b.Flush(b.now, engine.ByTimeout, 0, b.emit)
	b.want(t, "timeout: k:1 k:2")
	if got, want := b.Due(), start.Add(1600*time.Millisecond); !got.Equal(want) {
		t.Errorf("then due at %v, want %v", got, want)
	}
}

func TestAFullBatchTakesItsTimerWithIt(t *testing.T) {
	b := newBench(Config{Size: 1})
	b.add("k:1", "l:1")
	if due := b.Due(); !due.IsZero() {
		t.Errorf("due at %v with nothing open, want never", due)
	}
}

func TestFlushConditionCompletesABatch(t *testing.T) {
	b := newBench(Config{Size: 9, Flush: expr.MustCond("last")})
	b.keyOf = func(*engine.Message) string { return "" }
	in := b.add(`{"last":false}`, `{"last":true}`, `{"last":1}`, `{"last":true}`)
	b.want(t, `flush: {"last":false} {"last":true}`, `flush: {"last":true}`)
	var failed []string
	for m := range in.Ended() {
		failed = append(failed, string(m.Err().Class))
	}
	if diff := cmp.Diff([]string{"expression"}, failed); diff != "" {
		t.Errorf("classes of the messages that failed (-want +got):\n%s", diff)
	}
}

// TestEveryMessageLeavesOnceAndInOrder plays random traffic, and checks the guarantees of the configuration and the engine for each
// batch.
func TestEveryMessageLeavesOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Size:    rapid.IntRange(0, 5).Draw(t, "size"),
			MaxKeys: rapid.IntRange(0, 3).Draw(t, "max_keys"),
			Timeout: time.Duration(rapid.IntRange(1, 10).Draw(t, "timeout")) * time.Second,
		}
		if rapid.Bool().Draw(t, "bytes?") {
			c.Bytes = 20
		}
		m := model{T: t, Config: c, waiting: map[string][]waiting{}}
		b := newBatcher(c, first)
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "pause")) * time.Second)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				n := rapid.IntRange(1, 5).Draw(t, "n")
				m.asked(n)
				b.Flush(now, engine.ByPressure, n, m.emit(now))
			default:
				b.Add(m.traffic(now), now, m.emit(now))
			}
			if due := b.Due(); !due.IsZero() && !now.Before(due) {
				b.Flush(now, engine.ByTimeout, 0, m.emit(now))
			}
			m.check(now, b)
		}
		b.Flush(now, engine.ByEnd, -1, m.emit(now))
		for key, left := range m.waiting {
			if len(left) > 0 {
				t.Fatalf("%d messages of key %q never left", len(left), key)
			}
		}
	})
}

// model has the waiting messages, by key and in order.
type model struct {
	*rapid.T
	Config
	serial  int
	waiting map[string][]waiting
	due     int // number of messages that pressure still requests
}

type waiting struct {
	body  string
	since time.Time
}

func (m *model) traffic(now time.Time) *engine.Batch {
	var payloads []string
	for range rapid.IntRange(0, 8).Draw(m.T, "messages") {
		m.serial++
		key := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(m.T, "key")
		body := fmt.Sprint(m.serial, bytes(rapid.IntRange(0, 25).Draw(m.T, "length")))
		if key != "" {
			body = key + ":" + body
		}
		payloads = append(payloads, body)
		m.waiting[key] = append(m.waiting[key], waiting{body, now})
	}
	return enginetest.Batch(payloads...)
}

func (m *model) asked(n int) { m.due = n }

func (m *model) emit(now time.Time) engine.Emit {
	return func(b *engine.Batch, why engine.Trigger) {
		key, n, size := "", 0, 0
		var oldest time.Time
		for msg := range b.All() {
			key = string(first(msg))
			queue := m.waiting[key]
			if len(queue) == 0 || queue[0].body != string(msg.Bytes()) {
				m.Fatalf("%s sends %q of key %q out of turn; waiting: %v", why, msg.Bytes(), key, queue)
			}
			if n == 0 {
				oldest = queue[0].since
			}
			m.waiting[key] = queue[1:]
			n++
			size += msg.Size()
		}
		next := 0
		if queue := m.waiting[key]; len(queue) > 0 {
			next = len(queue[0].body)
		}
		switch {
		case n == 0:
			m.Fatalf("%s sends an empty batch", why)
		case m.Size > 0 && n > m.Size, m.Bytes > 0 && size > int(m.Bytes) && n > 1:
			m.Fatalf("%s sends %d messages of %d bytes, over the limit", why, n, size)
		case why == engine.BySize && n != m.Size:
			m.Fatalf("size sends %d messages, want %d", n, m.Size)
		case why == engine.ByBytes && size < int(m.Bytes) && size+next <= int(m.Bytes):
			m.Fatalf("bytes sends %d bytes, though the next %d would fit", size, next)
		case why == engine.ByTimeout && now.Sub(oldest) < m.Timeout:
			m.Fatalf("timeout sends a batch that is %v old", now.Sub(oldest))
		case why == engine.ByPressure && m.due <= 0:
			m.Fatalf("pressure sends more batches than were asked for")
		}
		m.due -= n
	}
}

// check checks the invariants between two calls.
func (m *model) check(now time.Time, b *batcher) {
	if m.MaxKeys > 0 && len(b.open) > m.MaxKeys {
		m.Fatalf("%d batches are open, want at most %d", len(b.open), m.MaxKeys)
	}
	for key, queue := range m.waiting {
		if len(queue) > 0 && now.Sub(queue[0].since) >= m.Timeout {
			m.Fatalf("%q of key %q waits for %v", queue[0].body, key, now.Sub(queue[0].since))
		}
	}
}
