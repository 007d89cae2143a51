package engine

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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/expr"
)

var (
	noon      = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	tenWindow = RateLimit{Messages: 10, Per: time.Second}
	tenBucket = RateLimit{Messages: 10, Per: time.Second, Kind: "bucket"}
	tenKeyed  = RateLimit{Messages: 10, Per: time.Second, Key: expr.MustCompile("id")}
)

// TestLimiter plays calls: "take 3", "put 2" (of what was taken now), "reserve 1" or
// "reserve 1 KEY", "change 5 1s" (at once) and "next 5 1s", "at 1.5s" since noon.
func TestLimiter(t *testing.T) {
	tests := []struct {
		name string
		spec RateLimit
		play string // a call per line, and what came of it
	}{
		{"a window is spent and renewed whole", tenWindow, `
			take 4: 4
			at 0.9s: take 100: 6
			at 0.9s: take 1: 0, wait 100ms
			at 1s: take 100: 10
			at 1.2s: take 1: 0, wait 800ms`},
		{"windows lie end to end from the first use", tenWindow, `
			at 0.3s: take 10: 10
			at 1.2s: take 1: 0, wait 100ms
			at 1.3s: take 10: 10
			at 2.2s: take 1: 0, wait 100ms`},
		{"what a window did not use lapses", tenWindow, `
			take 1: 1
			at 5s: take 100: 10
			at 5.5s: take 1: 0, wait 500ms`},
		{"a limit of one lets the second wait for the next window", RateLimit{Messages: 1, Per: time.Minute}, `
			reserve 1: 0s
			at 1s: reserve 1: 59s
			at 2s: reserve 1: 1m58s`},
		{"bookings fill later windows in order", tenWindow, `
			reserve 9: 0s
			reserve 1: 0s
			at 0.4s: reserve 1: 600ms
			at 0.4s: reserve 9: 600ms
			at 0.4s: reserve 1: 1.6s
			at 2.5s: take 100: 9`},
		{"more than a window may have spans several", tenWindow, `
			reserve 35: 3s
			at 1s: reserve 5: 2s
			at 1s: reserve 1: 3s`},
		{"taking gets nothing before all that is booked", tenWindow, `
			reserve 25: 2s
			at 0.1s: take 1: 0, wait 1.9s
			at 1.5s: take 1: 0, wait 500ms
			at 2s: take 100: 5`},
		{"asking for none is free", tenWindow, `
			reserve 20: 1s
			take 0: 0
			take -1: 0
			reserve 0: 0s
			reserve -1: 0s`},
		{"a turn takes what may pass now", tenWindow, `
			turn 4: 4, in 0s
			turn 100: 6, in 0s`},
		{"a turn stands behind what is booked, and is not passed by", tenWindow, `
			reserve 25: 2s
			turn 100: 1, in 2s
			reserve 4: 2s
			at 1.9s: reserve 1: 1.1s
			at 2s: take 1: 0, wait 1s`},
		{"a turn is one", tenBucket, `
			turn 100: 10, in 0s
			turn 100: 1, in 100ms
			turn 100: 1, in 200ms`},
		{"what is given back passes now, whatever is booked ahead", tenWindow, `
			take 10: 10
			reserve 3: 1s
			put 7 of 0s: ok
			take 9: 7
			take 1: 0, wait 1s
			put 4 of 0s: ok
			at 1s: take 100: 7`},
		{"the last who leaves gives back", tenWindow, `
			reserve 10: 0s
			turn 100: 1, in 1s
			leave 1: ok
			reserve 9: 1s
			turn 2: 1, in 1s
			reserve 8: 2s
			desert 1: ok
			reserve 3: 3s`},
		{"what a window gave counts in the one in which it passes", tenWindow, `
			take 10: 10
			at 5.5s: spend 8 of 0s: ok
			at 5.5s: take 100: 2
			at 5.6s: spend 2 of 5.5s: ok
			at 6s: take 100: 10`},
		{"what a bucket gave fills it no further than when it passes", tenBucket, `
			take 10: 10
			at 5s: spend 8 of 0s: ok
			at 5s: take 100: 2
			at 5.1s: spend 1 of 5s: ok
			at 5.1s: take 100: 1`},
		{"what is put back may be taken again", tenWindow, `
			take 10: 10
			put 4: ok
			take 100: 4`},
		{"what is put back late has lapsed", tenWindow, `
			take 10: 10
			at 1s: take 3: 3
			put 10 of 0s: ok
			take 100: 7`},
		{"what is put back behind a booking has lapsed", tenWindow, `
			take 10: 10
			reserve 10: 1s
			put 5: ok
			reserve 1: 2s`},
		{"putting back more than was taken gives no more than there is", tenWindow, `
			take 3: 3
			put 100: ok
			take 100: 10`},

		{"a full bucket lets its burst pass, then grows evenly", tenBucket, `
			take 100: 10
			take 1: 0, wait 100ms
			at 0.25s: take 100: 2
			at 0.25s: take 1: 0, wait 50ms
			at 60s: take 100: 10`},
		{"burst may be more than messages", RateLimit{Messages: 10, Per: time.Second, Kind: "bucket", Burst: 15}, `
			take 100: 15
			at 1s: take 100: 10`},
		{"burst may be less than messages", RateLimit{Messages: 10, Per: time.Second, Kind: "bucket", Burst: 1}, `
			take 100: 1
			at 0.1s: take 100: 1
			at 1s: take 100: 1`},
		{"bookings of a bucket are evenly spaced", tenBucket, `
			reserve 10: 0s
			reserve 1: 100ms
			reserve 1: 200ms
			reserve 20: 2.2s
			take 1: 0, wait 2.3s`},
		{"a bucket takes back what it gave", tenBucket, `
			take 10: 10
			put 10: ok
			take 100: 10`},
		{"a bucket takes back nothing that it has grown by since", tenBucket, `
			take 10: 10
			at 0.4s: put 10 of 0s: ok
			at 0.4s: take 100: 10
			at 0.4s: take 1: 0, wait 100ms`},

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

		{"a change at once begins a fresh window", tenWindow, `
			at 0s: take 10: 10
			at 0.5s: change 3 1m: ok
			at 0.5s: take 100: 3
			at 0.5s: take 1: 0, wait 1m0s`},
		{"a change at the next window leaves this one alone", tenWindow, `
			take 5: 5
			at 0.5s: next 3 1m: ok
			at 0.5s: take 100: 5
			at 0.5s: take 1: 0, wait 500ms
			at 1s: take 100: 3
			at 1s: take 1: 0, wait 1m0s`},
		{"the next window has begun long ago", tenWindow, `
			take 5: 5
			next 3 10s: ok
			at 15s: take 100: 3
			at 15s: take 1: 0, wait 6s`},
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
			at 9s: take 1: 0, wait 1s`},
		{"a change before the first use holds from it on", tenWindow, `
			next 3 1m: ok
			take 100: 3`},
		{"a faster limit works off what was booked at its own pace", RateLimit{Messages: 1, Per: time.Hour}, `
			reserve 101: 100h0m0s
			change 100 1s: ok
			take 1: 0, wait 1s
			at 1s: take 1000: 100`},
		{"a slower limit counts what was booked", tenWindow, `
			reserve 30: 2s
			at 0.5s: next 5 1s: ok
			at 1s: reserve 1: 4s`},
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
		{"the longest time", RateLimit{Messages: 1, Per: math.MaxInt64}, `
			reserve 1: 0s
			reserve 1: 876000h0m0s
			at 1h: reserve 9223372036854775807: 876000h0m0s
			take 1: 0, wait 876000h0m0s`},
		{"the longest time of a bucket", RateLimit{Messages: 1, Per: math.MaxInt64, Kind: "bucket"}, `
			reserve 1: 0s
			reserve 9223372036854775807: 876000h0m0s`},
		{"the greatest rate", RateLimit{Messages: math.MaxInt64, Per: 1, Kind: "bucket"}, `
			reserve 9223372036854775807: 0s
			reserve 9223372036854775807: 1ns`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, now := NewLimiter("orders", tt.spec), noon
			var got []string
			for line := range strings.Lines(strings.TrimSpace(tt.play)) {
				call, _, _ := cutLast(strings.TrimSpace(line), ": ")
				if at, rest, ok := strings.Cut(call, ": "); ok {
					now, call = noon.Add(duration(t, strings.TrimPrefix(at, "at "))), rest
					got = append(got, fmt.Sprintf("%s: %s: %s", at, call, play(t, l, now, call)))
					continue
				}
				got = append(got, fmt.Sprintf("%s: %s", call, play(t, l, now, call)))
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

// play makes one call and returns what came of it.
func play(t *testing.T, l *Limiter, now time.Time, call string) string {
	t.Helper()
	f := append(strings.Fields(call), "", "", "")
	n := 0
	if _, err := fmt.Sscan(f[1], &n); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	switch f[0] {
	case "take":
		got, wait := l.Take(now, n)
		if wait > 0 {
			return fmt.Sprintf("%d, wait %v", got, wait)
		}
		return fmt.Sprint(got)
	case "put":
		if f[2] == "of" {
			now = noon.Add(duration(t, f[3]))
		}
		l.Put(now, n)
		return "ok"
	case "reserve":
		var key []byte
		if f[2] != "" {
			key = []byte(f[2])
		}
		return l.Reserve(now, key, n).String()
	case "turn":
		got, wait, _ := l.Turn(now, n)
		return fmt.Sprintf("%d, in %v", got, wait)
	case "leave", "desert": // the last place, or another
		place := l.booked
		if f[0] == "desert" {
			place--
		}
		l.Leave(place, n)
		return "ok"
	case "spend":
		l.Spend(noon.Add(duration(t, f[3])), now, n)
		return "ok"
	case "change", "next":
		l.Change(now, n, duration(t, f[2]), 0, f[0] == "change")
		return "ok"
	}
	t.Fatalf("no such call: %s", call)
	return ""
}

// TestLimitHolds plays random traffic of callers whose clocks differ a little. It
// knows when every message passed, and counts them.
func TestLimitHolds(t *testing.T) {
	for _, kind := range []string{"window", "bucket"} {
		t.Run(kind, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkLimit(t, kind) }) })
	}
}

func checkLimit(t *rapid.T, kind string) {
	spec := RateLimit{
		Messages: rapid.IntRange(1, 7).Draw(t, "messages"),
		Per:      time.Duration(rapid.IntRange(1, 50).Draw(t, "per")) * time.Millisecond,
		Kind:     kind,
	}
	if kind == "bucket" {
		spec.Burst = rapid.IntRange(0, 12).Draw(t, "burst")
	}
	l, now := NewLimiter("", spec), noon
	latest := now
	passed := map[time.Duration]int{} // since noon
	passed[l.Reserve(now, nil, 1)]++
	lost := 0                 // places that nobody has
	ahead := func() (n int) { // what passes in this window or later
		n = lost
		for at, count := range passed {
			if at >= latest.Sub(noon)/spec.Per*spec.Per {
				n += count
			}
		}
		return n
	}
	for range rapid.IntRange(1, 60).Draw(t, "calls") {
		now = now.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "step")) * time.Millisecond)
		if now.Before(noon) {
			now = noon
		}
		if now.After(latest) {
			latest = now
		}
		n := rapid.IntRange(1, 9).Draw(t, "n")
		if rapid.Bool().Draw(t, "reserve") {
			for range n {
				longest := time.Duration(ahead()/spec.Messages+1) * spec.Per
				wait := l.Reserve(now, nil, 1)
				if wait > longest {
					t.Fatalf("a wait of %v, want at most %v", wait, longest)
				}
				passed[latest.Add(wait).Sub(noon)]++
			}
			continue
		}
		if rapid.Bool().Draw(t, "turn") {
			longest := time.Duration((ahead()+n)/spec.Messages+1) * spec.Per
			got, wait, place := l.Turn(now, n)
			switch {
			case got < 1 || got > n || wait > longest:
				t.Fatalf("a turn of %d of %d after %v, want at most %v", got, n, wait, longest)
			case wait > 0 && rapid.Bool().Draw(t, "leave"):
				if rapid.Bool().Draw(t, "behind") {
					passed[latest.Add(l.Reserve(now, nil, 1)).Sub(noon)]++
					lost += got
				}
				l.Leave(place, got)
			default:
				passed[latest.Add(wait).Sub(noon)] += got
			}
			continue
		}
		got, wait := l.Take(now, n)
		if got == 0 {
			if wait <= 0 {
				t.Fatal("nothing to take, and nothing to wait for")
			}
			if again, _ := clone(l).Take(latest.Add(wait-wait/1000-1), 1); again > 0 {
				t.Fatalf("a wait of %v is too long", wait)
			}
			if again, _ := clone(l).Take(latest.Add(wait), 1); again == 0 {
				t.Fatalf("a wait of %v is not enough", wait)
			}
			continue
		}
		taken := latest
		passed[taken.Sub(noon)] += got
		if rapid.Bool().Draw(t, "put") {
			back := rapid.IntRange(1, got).Draw(t, "back")
			passed[taken.Sub(noon)] -= back
			if rapid.Bool().Draw(t, "late") {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "later")) * time.Millisecond)
				latest = latestOf(latest, now)
				if got, _ := l.Take(now, 9); got > 0 {
					passed[latest.Sub(noon)] += got
				}
			}
			l.Put(taken, back)
		}
	}
	checkPassed(t, l, spec, passed)
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clone is a copy of an unkeyed limit.
func clone(l *Limiter) *Limiter {
	return &Limiter{spec: l.spec, rate: l.rate, clock: l.clock, zero: l.zero, all: l.all, changed: make(chan struct{})}
}

func checkPassed(t *rapid.T, l *Limiter, spec RateLimit, passed map[time.Duration]int) {
	if spec.Kind == "window" {
		windows := map[time.Duration]int{}
		for at, n := range passed {
			windows[at/spec.Per] += n
		}
		for w, n := range windows {
			if n > spec.Messages {
				t.Fatalf("%d messages in window %d, want at most %d", n, w, spec.Messages)
			}
		}
		return
	}
	times := slices.Sorted(maps.Keys(passed))
	for i, from := range times {
		n := 0
		for _, to := range times[i:] {
			n += passed[to]
			most := l.rate.most + float64(to-from)*float64(spec.Messages)/float64(spec.Per)
			if float64(n) > most+0.001 {
				t.Fatalf("%d messages from %v to %v, want at most %.3f", n, from, to, most)
			}
		}
	}
}

// TestKeysThatDoNotFit gives a million keys to a limit that has room for a thousand.
func TestKeysThatDoNotFit(t *testing.T) {
	l := NewLimiter("", RateLimit{Messages: 5, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 1000})
	var key [8]byte
	waited := 0
	var before, after runtime.MemStats
	for i := range uint64(1_000_000) {
		binary.LittleEndian.PutUint64(key[:], i)
		if l.Reserve(noon, key[:], 1) > 0 {
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
	if want := 1_000_000 - 1000 - 5; waited != want {
		t.Errorf("%d messages wait, want %d: all that share the limit of what does not fit", waited, want)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("memory has grown by %d bytes", grown)
	}
}

func TestKeysThatAreIdleMakeRoom(t *testing.T) {
	for _, kind := range []string{"window", "bucket"} {
		l := NewLimiter("", RateLimit{Messages: 5, Per: time.Second, Kind: kind, Key: expr.MustCompile("id"), MaxKeys: 3})
		for i := range 100 {
			now := noon.Add(time.Duration(i) * time.Second)
			if wait := l.Reserve(now, fmt.Append(nil, i), 5); wait != 0 {
				t.Fatalf("%s: key %d waits %v, want 0", kind, i, wait)
			}
		}
		if got := l.State().Keys; got != 3 {
			t.Errorf("%s: %d keys, want 3", kind, got)
		}
	}
}

func TestBusyKeysDoNotHideIdleOnes(t *testing.T) {
	l := NewLimiter("", RateLimit{Messages: 1, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 20})
	for i := range 20 {
		n := 1
		if i < 15 { // the oldest are busy for long
			n = 1000
		}
		l.Reserve(noon, fmt.Append(nil, "old", i), n)
	}
	later := noon.Add(2 * time.Second)
	for i := range 8 {
		l.Reserve(later, fmt.Append(nil, "new", i), 1)
	}
	if got := l.keys.spill.used; got > 4 {
		t.Errorf("%v new keys found no room, want 4 at most before the idle ones are found", got)
	}
}

// TestAKeyThatFindsRoomBeginsAnew sends a key twice: when there is no room for it, and
// when there is.
func TestAKeyThatFindsRoomBeginsAnew(t *testing.T) {
	l := NewLimiter("", RateLimit{Messages: 1, Per: time.Second, Key: expr.MustCompile("id"), MaxKeys: 1})
	l.Reserve(noon, []byte("a"), 1)
	for want := range 5 {
		if got := l.Reserve(noon, fmt.Append(nil, "b", want%2), 1); got != time.Duration(want)*time.Second {
			t.Fatalf("wait %v, want %ds", got, want)
		}
	}
	for want := range 5 {
		if got := l.Reserve(noon.Add(time.Second), []byte("b1"), 1); got != time.Duration(want)*time.Second {
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
			key, ok, err := tt.l.KeyOf(NewBatch(1).Add([]byte(tt.body)))
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
	l.Reserve(noon, []byte("a"), 12)
	l.Reserve(noon, []byte("b"), 10)
	l.Reserve(noon, []byte("b"), 3)
	l.Take(noon, 10)
	l.Take(noon, 10)
	want := LimitState{Name: "api", Messages: 10, Per: time.Second, Keys: 2, Limited: 16}
	if diff := cmp.Diff(want, l.State()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManyCallersGetNoMoreThanOne is for the race detector, too.
func TestManyCallersGetNoMoreThanOne(t *testing.T) {
	l := NewLimiter("", RateLimit{Messages: 1000, Per: time.Hour, Key: expr.MustCompile("id")})
	var mu sync.Mutex
	var wg sync.WaitGroup
	passed := 0
	for range 8 {
		wg.Go(func() {
			mine := 0
			for i := range 500 {
				switch i % 3 {
				case 0:
					got, _ := l.Take(noon, 3)
					mine += got
				case 1:
					if l.Reserve(noon, nil, 1) == 0 {
						mine++
					}
				default:
					l.Reserve(noon, []byte{byte(i)}, 1)
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

func TestPassTellsNobodyToWait(t *testing.T) {
	l := NewLimiter("", tenWindow)
	for _, want := range []int{7, 3, 0} {
		if got := l.Pass(noon, 7); got != want {
			t.Errorf("%d pass, want %d", got, want)
		}
	}
	if got := l.State().Limited; got != 0 {
		t.Errorf("%d limited, want 0", got)
	}
}

func TestLimitsDoNotAllocate(t *testing.T) {
	l, now, key := NewLimiter("", tenKeyed), noon, []byte("a")
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Millisecond)
		l.Reserve(now, key, 1)
		l.Take(now, 1)
		l.Put(now, 1)
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

// BenchmarkReserveKeys books for keys of which all fit, and tells what each takes.
func BenchmarkReserveKeys(b *testing.B) {
	const keys = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, now := NewLimiter("", tenKeyed), noon
	var key [8]byte
	for i := range uint64(keys) {
		binary.LittleEndian.PutUint64(key[:], i)
		l.Reserve(now, key[:], 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		now = now.Add(time.Microsecond)
		binary.LittleEndian.PutUint64(key[:], i%keys)
		l.Reserve(now, key[:], 1)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/key")
}
