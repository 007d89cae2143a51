package limit

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	noon      = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	tenWindow = engine.RateLimit{Messages: 10, Per: time.Second}
	tenBucket = engine.RateLimit{Messages: 10, Per: time.Second, Kind: "bucket"}
	tenKeyed  = engine.RateLimit{Messages: 10, Per: time.Second, Key: expr.MustCompile("id")}
)

// TestLimiter plays calls: "take 3", "reserve 1" or "reserve 1 KEY" (one message after another), "ask 5 A" (A waits in line), "quit
// A", "change 5 1s" (at once), "next 5 1s" (with the next window), and "at 1.5s" (since noon).
func TestLimiter(t *testing.T) {
	tests := []struct {
		name string
		spec engine.RateLimit
		play string // a call and its result per line
	}{
		{"what has passed makes room a window later", tenWindow, `
			take 4: 4
			at 0.9s: take 100: 6
			at 0.9s: take 1: 0, wait 100ms
			at 1s: take 100: 4
			at 1.2s: take 1: 0, wait 700ms
			at 1.9s: take 100: 6`},
		{"what was not used lapses", tenWindow, `
			take 1: 1
			at 5s: take 100: 10
			at 5.5s: take 1: 0, wait 500ms`},
		{"a limit of one", engine.RateLimit{Messages: 1, Per: time.Minute}, `
			reserve 1: 0s
			at 1s: reserve 1: 59s
			at 2s: reserve 1: 1m58s`},
		{"bookings pass when there is room, in order", tenWindow, `
			reserve 9: 0s
			at 0.4s: reserve 1: 0s
			at 0.4s: reserve 1: 600ms
			at 0.4s: reserve 8: 600ms
			at 0.4s: reserve 1: 1s
			at 0.4s: reserve 1: 1.6s
			at 2.5s: take 100: 9`},
		{"taking gets nothing before all that is booked", tenWindow, `
			reserve 25: 2s
			at 0.1s: take 1: 0, wait 1.9s
			at 1.5s: take 1: 0, wait 500ms
			at 2s: take 100: 5`},
		{"asking for none is free", tenWindow, `
			reserve 20: 1s
			take 0: 0
			take -1: 0`},
		{"who stands in line takes what may pass now", tenWindow, `
			ask 4 a: 4
			ask 100 a: 6
			ask 100 a: 0, wait 1s
			ask 100 a: 0, wait 1s
			at 0.5s: ask 100 a: 0, wait 500ms
			at 1s: ask 100 a: 10`},
		{"who stands in line is not passed by", tenWindow, `
			reserve 25: 2s
			ask 100 a: 0, wait 2s
			reserve 4: 2s
			reserve 1: 3s
			at 2s: ask 100 a: 1
			at 2s: take 1: 0, wait 1s`},
		{"several stand in line for one each, and then take what there is", tenWindow, `
			take 10: 10
			ask 100 a: 0, wait 1s
			ask 100 b: 0, wait 1s
			at 1s: ask 3 b: 3
			at 1s: ask 100 a: 7
			at 1s: ask 100 a: 0, wait 1s`},
		{"a turn of a bucket is one", tenBucket, `
			ask 100 a: 10
			ask 100 a: 0, wait 100ms
			ask 100 b: 0, wait 200ms
			at 0.1s: ask 100 a: 1
			at 0.1s: ask 100 a: 0, wait 200ms`},
		{"the last who leaves gives back", tenWindow, `
			take 10: 10
			ask 1 a: 0, wait 1s
			reserve 8: 1s
			ask 1 b: 0, wait 1s
			reserve 1: 2s
			quit a: ok
			ask 1 c: 0, wait 2s
			quit c: ok
			reserve 9: 2s
			reserve 1: 3s`},
		{"who leaves takes nothing from what has passed", tenWindow, `
			take 10: 10
			at 0.5s: ask 1 a: 0, wait 500ms
			at 0.5s: quit a: ok
			at 0.5s: take 1: 0, wait 500ms
			at 1s: take 100: 10`},
		{"who leaves a bucket gives back", tenBucket, `
			take 10: 10
			ask 1 a: 0, wait 100ms
			quit a: ok
			ask 1 b: 0, wait 100ms`},
		{"many that pass one by one share a time with some after them", engine.RateLimit{Messages: 1280, Per: 1280 * time.Millisecond}, `
			take 1: 1
			at 1ms: take 1: 1
			at 9ms: take 1: 1
			at 10ms: take 5000: 1277
			at 1280ms: take 1: 0, wait 9ms
			at 1289ms: take 5000: 3
			at 1290ms: take 5000: 1277`},

		{"a full bucket lets its burst pass, then grows evenly", tenBucket, `
			take 100: 10
			take 1: 0, wait 100ms
			at 0.25s: take 100: 2
			at 0.25s: take 1: 0, wait 50ms
			at 60s: take 100: 10`},
		{"burst may be more than messages", engine.RateLimit{Messages: 10, Per: time.Second, Kind: "bucket", Burst: 15}, `
			take 100: 15
			at 1s: take 100: 10`},
		{"burst may be less than messages", engine.RateLimit{Messages: 10, Per: time.Second, Kind: "bucket", Burst: 1}, `
			take 100: 1
			at 0.1s: take 100: 1
			at 1s: take 100: 1`},
		{"bookings of a bucket are evenly spaced", tenBucket, `
			reserve 10: 0s
			reserve 1: 100ms
			reserve 1: 200ms
			reserve 20: 2.2s
			take 1: 0, wait 2.3s`},

		{"each key has a limit of its own", tenKeyed, `
			reserve 10 a: 0s
			reserve 10 b: 0s
			reserve 1 a: 1s
			reserve 10: 0s
			reserve 1: 1s
			take 1: 0, wait 1s`},
		{"keys of a limit without key share it", tenWindow, `
			reserve 10 a: 0s
			reserve 1 b: 1s`},

		{"a change at once begins anew", tenWindow, `
			at 0s: take 10: 10
			at 0.5s: change 3 1m: ok
			at 0.5s: take 100: 3
			at 0.5s: take 1: 0, wait 1m0s`},
		{"a change at the next window leaves one more as it is", tenWindow, `
			take 5: 5
			at 0.5s: next 3 1m: ok
			at 0.5s: take 100: 5
			at 0.5s: take 1: 0, wait 500ms
			at 1s: take 2: 2
			at 1.5s: take 100: 1
			at 1.5s: take 1: 0, wait 500ms
			at 2s: take 100: 2
			at 2s: take 1: 0, wait 59.5s`},
		{"the next window has begun long ago", tenWindow, `
			take 5: 5
			next 3 10s: ok
			at 15s: take 100: 3
			at 15s: take 1: 0, wait 10s`},
		{"the last of two changes counts", tenWindow, `
			take 1: 1
			next 3 1s: ok
			next 4 1s: ok
			at 1s: take 100: 4`},
		{"a change at once outdoes one to come", tenWindow, `
			take 1: 1
			next 3 1s: ok
			change 4 10s: ok
			at 9s: take 100: 4
			at 9s: take 1: 0, wait 10s`},
		{"a change before the first use holds from it on", tenWindow, `
			next 3 1m: ok
			take 100: 3`},
		{"a faster limit does not wait for what was booked", engine.RateLimit{Messages: 1, Per: time.Hour}, `
			reserve 101: 100h0m0s
			change 100 1s: ok
			take 1000: 98
			at 1s: take 1000: 100`},
		{"a slower limit counts what was booked", tenWindow, `
			reserve 20: 1s
			at 0.5s: change 5 1s: ok
			at 0.5s: reserve 1: 2s`},
		{"a change holds for all keys", tenKeyed, `
			reserve 20 a: 1s
			reserve 5 b: 0s
			at 0.5s: change 2 1s: ok
			at 0.5s: reserve 1 b: 0s
			at 0.5s: reserve 1 a: 5s
			at 0.5s: reserve 3 c: 1s`},
		{"a bucket that changes remembers what has passed", tenBucket, `
			take 10: 10
			next 100 1s: ok
			take 1000: 90
			at 0.1s: take 1000: 10`},
		{"a bucket that changes at once is full", tenBucket, `
			take 10: 10
			change 5 1s: ok
			take 1000: 5
			take 1: 0, wait 200ms`},
		{"nonsense is no limit of zero", tenWindow, `
			change 0 0s: ok
			take 5: 1
			at 0.000001s: take 5: 1`},

		{"a clock that goes back a little stands still", tenWindow, `
			at 5s: take 10: 10
			at 4.9s: take 1: 0, wait 1s
			at 5.9s: take 1: 0, wait 100ms
			at 6s: take 1: 1`},
		{"a clock that is set back goes on from there", tenWindow, `
			at 1h: take 10: 10
			at 1s: take 1: 0, wait 1s
			at 1.4s: take 1: 0, wait 600ms
			at 2s: take 100: 10
			at 3h: take 100: 10
			at 3h: take 1: 0, wait 1s`},
		{"a bucket is not filled by a clock that is set back", tenBucket, `
			at 1h: take 10: 10
			at 0s: take 10: 0, wait 100ms
			at 0.1s: take 10: 1`},
		{"the longest time", engine.RateLimit{Messages: 1, Per: math.MaxInt64}, `
			reserve 1: 0s
			reserve 5: 876000h0m0s
			at 1h: reserve 1: 876000h0m0s
			take 1: 0, wait 876000h0m0s`},
		{"the longest time of a bucket", engine.RateLimit{Messages: 1, Per: math.MaxInt64, Kind: "bucket"}, `
			reserve 1: 0s
			reserve 5: 876000h0m0s`},
		{"the greatest rate", engine.RateLimit{Messages: math.MaxInt64, Per: 1, Kind: "bucket"}, `
			reserve 1000: 0s
			take 1000: 1000`},
		{"the greatest rate of a window", engine.RateLimit{Messages: math.MaxInt64, Per: 1}, `
			reserve 1000: 0s
			take 1000: 1000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, now := &player{t: t, limit: NewLimiter("orders", tt.spec), lines: map[string]*WaitLine{}}, noon
			var got []string
			for line := range strings.Lines(strings.TrimSpace(tt.play)) {
				call, _, _ := cutLast(strings.TrimSpace(line), ": ")
				if at, rest, ok := strings.Cut(call, ": "); ok {
					now, call = noon.Add(duration(t, strings.TrimPrefix(at, "at "))), rest
					got = append(got, fmt.Sprintf("%s: %s: %s", at, call, p.play(now, call)))
					continue
				}
				got = append(got, fmt.Sprintf("%s: %s", call, p.play(now, call)))
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(tt.play)) {
				want = append(want, strings.TrimSpace(line))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// player makes calls for several callers in line.
type player struct {
	t     *testing.T
	limit *Limiter
	lines map[string]*WaitLine
}

func (p *player) line(name string) *WaitLine {
	if p.lines[name] == nil {
		l := NewLine(p.limit)
		p.lines[name] = &l
	}
	return p.lines[name]
}

// play makes one call and returns its result.
func (p *player) play(now time.Time, call string) string {
	p.t.Helper()
	f := append(strings.Fields(call), "", "", "")
	if f[0] == "quit" {
		p.line(f[1]).Quit()
		return "ok"
	}
	n := 0
	if _, err := fmt.Sscan(f[1], &n); err != nil {
		p.t.Fatalf("%s: %v", call, err)
	}
	switch f[0] {
	case "take":
		got := p.limit.Take(now, n)
		if _, wait := p.limit.Free(now); n > 0 && got == 0 {
			return fmt.Sprintf("0, wait %v", wait)
		}
		return fmt.Sprint(got)
	case "reserve":
		var key []byte
		if f[2] != "" {
			key = []byte(f[2])
		}
		wait := time.Duration(0)
		for range n {
			wait = p.limit.Reserve(now, key)
		}
		return wait.String()
	case "ask":
		got, wait, _ := p.line(f[2]).Ask(now, n)
		if got == 0 {
			return fmt.Sprintf("0, wait %v", wait)
		}
		return fmt.Sprint(got)
	case "change", "next":
		p.limit.Change(now, n, duration(p.t, f[2]), 0, f[0] == "change")
		return "ok"
	}
	p.t.Fatalf("no such call: %s", call)
	return ""
}

// TestLimitHolds plays random traffic of callers whose clocks differ a little, and who wait in line at one or two limits. It records
// when each message passed, and counts the messages in each interval of a window's length.
func TestLimitHolds(t *testing.T) {
	for _, kind := range []string{"window", "bucket"} {
		t.Run(kind, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkLimit(t, kind) }) })
	}
}

// watched is a limit, with the times at which messages passed it, in nanoseconds since noon.
type watched struct {
	*Limiter
	spec   engine.RateLimit
	passed map[time.Duration]int
}

func (w *watched) draw(t *rapid.T, kind string) *watched {
	w.spec = engine.RateLimit{
		Messages: rapid.OneOf(rapid.IntRange(1, 7), rapid.IntRange(200, 300)).Draw(t, "messages"),
		Per:      time.Duration(rapid.IntRange(1, 50).Draw(t, "per")) * time.Millisecond,
		Kind:     kind,
	}
	if kind == "bucket" {
		w.spec.Burst = rapid.IntRange(0, 12).Draw(t, "burst")
	}
	w.Limiter, w.passed = NewLimiter("", w.spec), map[time.Duration]int{}
	w.passed[w.Reserve(noon, nil)]++
	return w
}

func checkLimit(t *rapid.T, kind string) {
	own, shared := new(watched).draw(t, kind), new(watched).draw(t,
		rapid.SampledFrom([]string{"window", "bucket"}).Draw(t, "other kind"))
	one, both, other := NewLine(shared.Limiter), NewLine(own.Limiter, shared.Limiter),
		NewLine(shared.Limiter, own.Limiter)
	lines, due := []*WaitLine{&one, &both, &other}, map[*WaitLine]time.Time{}
	now, latest := noon, noon
	for range rapid.IntRange(1, 60).Draw(t, "calls") {
		now = now.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "step")) * time.Millisecond)
		if now.Before(noon) {
			now = noon
		}
		if at := due[rapid.SampledFrom(lines).Draw(t, "on time")]; at.After(latest) {
			now = at
		}
		if now.After(latest) {
			latest = now
		}
		for _, q := range lines {
			if due[q].Before(latest) { // it has given up
				q.Quit()
			}
		}
		n := rapid.SampledFrom([]int{1, 2, 5, 9, 100}).Draw(t, "n")
		w := rapid.SampledFrom([]*watched{own, shared}).Draw(t, "limit")
		own.Free(latest) // both know the time
		shared.Free(latest)
		switch rapid.IntRange(0, 3).Draw(t, "call") {
		case 0:
			for range min(n, 9) {
				w.passed[latest.Add(w.Reserve(latest, nil)).Sub(noon)]++
			}
		case 1:
			checkTake(t, w, latest, n)
		case 2:
			rapid.SampledFrom(lines).Draw(t, "who").Quit()
		default:
			q := rapid.SampledFrom(lines).Draw(t, "who")
			got, wait, _ := q.Ask(now, n)
			due[q] = latest.Add(wait)
			if (got == 0) == (wait <= 0) {
				t.Fatalf("%d may pass after %v", got, wait)
			}
			if shared.passed[latest.Sub(noon)] += got; q != &one {
				own.passed[latest.Sub(noon)] += got
			}
		}
	}
	checkPassed(t, own)
	checkPassed(t, shared)
}

// checkTake calls Take, and checks that messages beyond the limit could pass after the returned wait, but not before.
func checkTake(t *rapid.T, w *watched, now time.Time, n int) {
	got := w.Take(now, n)
	w.passed[now.Sub(noon)] += got
	free, wait := w.Free(now)
	switch {
	case got < n && free > 0:
		t.Fatalf("%d of %d were taken, and %d left", got, n, free)
	case free > 0:
	case wait <= 0:
		t.Fatal("nothing to take, and nothing to wait for")
	default:
		if again := clone(w.Limiter).Take(now.Add(wait-wait/1000-1), 1); again > 0 {
			t.Fatalf("a wait of %v is too long", wait)
		}
		if again := clone(w.Limiter).Take(now.Add(wait), 1); again == 0 {
			t.Fatalf("a wait of %v is not enough", wait)
		}
	}
}

// clone returns a copy of a limit without keys.
func clone(l *Limiter) *Limiter {
	c := &Limiter{spec: l.spec, rate: l.rate, clock: l.clock, all: l.all, changed: make(chan struct{})}
	c.all.passes.runs = slices.Clone(l.all.passes.runs)
	return c
}

func checkPassed(t *rapid.T, w *watched) {
	times := slices.Sorted(maps.Keys(w.passed))
	for i, from := range times {
		n := 0
		for _, to := range times[i:] {
			most := float64(w.spec.Messages)
			if w.spec.Kind == "bucket" {
				most = w.rate.most + float64(to-from)*float64(w.spec.Messages)/float64(w.spec.Per)
			} else if to-from >= w.spec.Per {
				break
			}
			if n += w.passed[to]; float64(n) > most+0.001 {
				t.Fatalf("%s: %d messages from %v to %v, want at most %.3f", w.spec.Kind, n, from, to, most)
			}
		}
	}
}

// TestKeysThatDoNotFit gives a million keys to a limit that has room for a thousand.
func TestKeysThatDoNotFit(t *testing.T) {
	l := NewLimiter("", engine.RateLimit{Messages: 5, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 1000})
	var key [8]byte
	waited := 0
	var before, after runtime.MemStats
	const n = 100_000
	for i := range uint64(n) {
		binary.LittleEndian.PutUint64(key[:], i)
		if l.Reserve(noon, key[:]) > 0 {
			waited++
		}
		if i == 10_000 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := l.State().Keys; got != 1000 {
		t.Errorf("%d keys have a limit of their own, want 1000", got)
	}
	if want := n - 1000 - 5; waited != want {
		t.Errorf("%d messages wait, want %d: all that share the limit of what does not fit", waited, want)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("memory has grown by %d bytes", grown)
	}
}

func TestKeysThatAreIdleMakeRoom(t *testing.T) {
	for _, kind := range []string{"window", "bucket"} {
		l := NewLimiter("", engine.RateLimit{Messages: 5, Per: time.Second, Kind: kind, Key: expr.MustCompile("id"),
			MaxKeys: 3})
		for i := range 100 {
			now := noon.Add(time.Duration(i) * time.Second)
			for range 5 {
				if wait := l.Reserve(now, fmt.Append(nil, i)); wait != 0 {
					t.Fatalf("%s: key %d waits %v, want 0", kind, i, wait)
				}
			}
		}
		if got := l.State().Keys; got != 3 {
			t.Errorf("%s: %d keys, want 3", kind, got)
		}
	}
}

func TestBusyKeysDoNotHideIdleOnes(t *testing.T) {
	l := NewLimiter("", engine.RateLimit{Messages: 1, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 20})
	for i := range 20 {
		n := 1
		if i < 15 { // the oldest keys stay busy for a long time
			n = 1000
		}
		for range n {
			l.Reserve(noon, fmt.Append(nil, "old", i))
		}
	}
	later := noon.Add(2 * time.Second)
	for i := range 8 {
		l.Reserve(later, fmt.Append(nil, "new", i))
	}
	if got := l.keys.spill.used; got > 4 {
		t.Errorf("%v new keys found no room, want 4 at most before the idle ones are found", got)
	}
}

// TestAKeyThatFindsRoomBeginsAnew uses a key twice: while there is no room for it, and when there is.
func TestAKeyThatFindsRoomBeginsAnew(t *testing.T) {
	l := NewLimiter("", engine.RateLimit{Messages: 1, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 1})
	l.Reserve(noon, []byte("a"))
	for want := range 5 {
		if got := l.Reserve(noon, fmt.Append(nil, "b", want%2)); got != time.Duration(want)*time.Second {
			t.Fatalf("wait %v, want %ds", got, want)
		}
	}
	for want := range 5 {
		if got := l.Reserve(noon.Add(time.Second), []byte("b1")); got != time.Duration(want)*time.Second {
			t.Errorf("wait %v, want %ds: others hinder it no longer", got, want)
		}
	}
}

func TestKeysComeFromTheMessage(t *testing.T) {
	keyed, plain := NewLimiter("", tenKeyed), NewLimiter("", tenWindow)
	tests := []struct {
		name string
		l    *Limiter
		body string
		want string
	}{
		{"text", keyed, `{"id":"a"}`, `"a"`},
		{"a number", keyed, `{"id":1.0}`, `1`},
		{"nothing", keyed, `{}`, `none`},
		{"a payload that is no document", keyed, `{`, `error`},
		{"no key at all", plain, `{`, `none`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key, ok, err := tt.l.KeyOf(engine.NewBatch(1).Add([]byte(tt.body)))
			got := string(key)
			switch {
			case err != nil:
				got = "error"
			case !ok:
				got = "none"
			}
			if got != tt.want {
				t.Errorf("%s, want %s (error %v)", got, tt.want, err)
			}
		})
	}
	if !keyed.Keyed() || plain.Keyed() {
		t.Errorf("keyed %v and %v, want true and false", keyed.Keyed(), plain.Keyed())
	}
}

func TestLimitState(t *testing.T) {
	l := NewLimiter("api", tenKeyed)
	for i := range 25 {
		l.Reserve(noon, []byte("ab"[i%2:][:1]))
	}
	l.Take(noon, 10)
	l.Take(noon, 10)
	q := NewLine(l)
	for range 3 { // steps keep keyed limits
		q.Ask(noon, 1)
	}
	want := engine.LimitState{Name: "api", Messages: 10, Per: time.Second, Keys: 2, Limited: 5}
	if diff := cmp.Diff(want, l.State()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManyCallersGetNoMoreThanOne is for the race detector, too.
func TestManyCallersGetNoMoreThanOne(t *testing.T) {
	l := NewLimiter("", engine.RateLimit{Messages: 1000, Per: time.Hour, Key: expr.MustCompile("id")})
	var mu sync.Mutex
	var wg sync.WaitGroup
	passed := 0
	for range 8 {
		wg.Go(func() {
			mine := 0
			for i := range 500 {
				switch i % 3 {
				case 0:
					mine += l.Take(noon, 3)
				case 1:
					if l.Reserve(noon, nil) == 0 {
						mine++
					}
				default:
					l.Reserve(noon, []byte{byte(i)})
					l.State()
				}
			}
			mu.Lock()
			passed += mine
			mu.Unlock()
		})
	}
	wg.Wait()
	if passed != 1000 {
		t.Errorf("%d messages passed, want 1000", passed)
	}
}

func TestLimitsDoNotAllocate(t *testing.T) {
	l, now, key := NewLimiter("", tenKeyed), noon, []byte("a")
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Millisecond)
		l.Reserve(now, key)
		l.Take(now, 1)
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkTake(b *testing.B) {
	l, now := NewLimiter("", tenWindow), noon
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		l.Take(now, 256)
	}
}

// BenchmarkReserveKeys reserves for keys that all fit, and reports the memory per key.
func BenchmarkReserveKeys(b *testing.B) {
	const keys = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, now := NewLimiter("", tenKeyed), noon
	var key [8]byte
	for i := range uint64(keys) {
		binary.LittleEndian.PutUint64(key[:], i)
		l.Reserve(now, key[:])
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		now = now.Add(time.Microsecond)
		binary.LittleEndian.PutUint64(key[:], i%keys)
		l.Reserve(now, key[:])
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/key")
}
