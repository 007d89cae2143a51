package window

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
)

// A message "a7" has the key a and the time seven seconds past the epoch.

func payload(message string) string {
	return fmt.Sprintf(`{"k":%q,"t":%s}`, message[:1], message[1:])
}

func message(m *engine.Message) string {
	doc, err := m.Value()
	if err != nil {
		panic(err)
	}
	fields := doc.(map[string]any)
	return fmt.Sprint(fields["k"], fields["t"])
}

var field = expr.MustCompile("k")

func keyOf(m *engine.Message) string {
	key, _, err := field.AppendKey(nil, m)
	if err != nil {
		panic(err)
	}
	return string(key)
}

var byEvent = expr.MustCompile("t")

// second is a time of the clock or of events, in seconds past the epoch.
func second(n float64) time.Time { return time.Unix(0, int64(n*1e9)) }

// bench is a batcher with a clock, and the batches that it has sent.
type bench struct {
	*batcher
	now    time.Time
	sent   []string
	failed []string
	log    bytes.Buffer
}

func newBench(c Config) *bench {
	b := &bench{now: second(0)}
	b.batcher = newBatcher(c, keyOf, slog.New(slog.NewTextHandler(&b.log, nil)))
	return b
}

// add adds messages. Without Config.Time, it sets the clock to their times.
func (b *bench) add(messages ...string) {
	for _, text := range messages {
		if !b.timed {
			at, err := strconv.ParseFloat(text[1:], 64)
			if err != nil {
				panic(err)
			}
			b.now = second(at)
		}
		in := enginetest.Batch(payload(text))
		b.Add(in, b.now, b.emit)
		for m := range in.Ended() {
			b.failed = append(b.failed, fmt.Sprintf("%s %s", m.Err().Class, message(m)))
		}
	}
}

func (b *bench) emit(out *engine.Batch, why engine.Trigger) {
	var all []string
	for m := range out.All() {
		all = append(all, message(m))
	}
	w := out.Window()
	at := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixNano())/1e9, 'g', -1, 64) }
	b.sent = append(b.sent, fmt.Sprintf("%s [%s,%s) part %d: %s", why, at(w.Start), at(w.End), w.Part,
		strings.Join(all, " ")))
}

func (b *bench) end() { b.Flush(b.now, engine.ByEnd, -1, b.emit) }

const sec = time.Second

func TestWindows(t *testing.T) {
	tests := []struct {
		name   string
		c      Config
		run    func(b *bench)
		want   []string
		failed []string
	}{
		{"an event closes the windows before its own", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a1", "a9", "a12", "a30")
		}, []string{"timeout [0,10) part 1: a1 a9", "timeout [10,20) part 1: a12"}, nil},
		{"an event at a window's end belongs to the next one", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a0", "a9.999999", "a10", "a20")
		}, []string{"timeout [0,10) part 1: a0 a9.999999", "timeout [10,20) part 1: a10"}, nil},
		{"windows lie before 1970 too", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a-10.5", "a-10", "a-1", "a0")
		}, []string{"timeout [-20,-10) part 1: a-10.5", "timeout [-10,0) part 1: a-10 a-1"}, nil},
		{"an offset moves windows", Config{Every: 10 * sec, Offset: -3 * sec, Time: byEvent}, func(b *bench) {
			b.add("a6", "a7", "a17")
		}, []string{"timeout [-3,7) part 1: a6", "timeout [7,17) part 1: a7"}, nil},
		{"the clock does not close windows of events", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a1")
			b.now = second(1000)
			b.Flush(b.now, engine.ByTimeout, 0, b.emit)
		}, nil, nil},
		{"keys have windows of their own, which close together, first opened first",
			Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
				b.add("a1", "b2", "a3", "c11")
			}, []string{"timeout [0,10) part 1: a1 a3", "timeout [0,10) part 1: b2"}, nil},
		{"lateness keeps windows open for what comes out of order",
			Config{Every: 10 * sec, Time: byEvent, Lateness: 5 * sec}, func(b *bench) {
				b.add("a1", "a14.9", "a2", "a15", "a3")
			}, []string{"timeout [0,10) part 1: a1 a2"}, []string{"late a3"}},
		{"what is late by the time of another key fails too", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a10", "b9")
		}, nil, []string{"late b9"}},
		{"windows that slide share messages", Config{Every: 10 * sec, Slide: 5 * sec, Time: byEvent}, func(b *bench) {
			b.add("a1", "a7", "a12", "a30")
		}, []string{"timeout [-5,5) part 1: a1", "timeout [0,10) part 1: a1 a7", "timeout [5,15) part 1: a7 a12",
			"timeout [10,20) part 1: a12"}, nil},
		{"a slide that does not divide the length", Config{Every: 10 * sec, Slide: 4 * sec, Time: byEvent},
			func(b *bench) {
				b.add("a3", "a4", "a30")
			}, []string{"timeout [-4,6) part 1: a3 a4", "timeout [0,10) part 1: a3 a4", "timeout [4,14) part 1: a4"},
			nil},
		{"a message joins those of its windows that are open, and is late without any",
			Config{Every: 10 * sec, Slide: 5 * sec, Time: byEvent}, func(b *bench) {
				b.add("a12", "a7", "a4")
				b.end()
			}, []string{"end [5,15) part 1: a12 a7", "end [10,20) part 1: a12"}, []string{"late a4"}},
		{"a session lasts while events of its key come", Config{Session: 5 * sec, Time: byEvent}, func(b *bench) {
			b.add("a1", "a5.9", "b6", "a10", "b11", "c20")
		}, []string{"timeout [6,11) part 1: b6", "timeout [1,15) part 1: a1 a5.9 a10", "timeout [11,16) part 1: b11"},
			nil},
		{"an event that bridges two sessions makes one of them",
			Config{Session: 5 * sec, Time: byEvent, Lateness: 20 * sec}, func(b *bench) {
				b.add("a1", "a9", "a10", "a5")
				b.end()
			}, []string{"end [1,15) part 1: a1 a9 a10 a5"}, nil},
		{"of many sessions that become one, messages leave as they came",
			Config{Session: 5 * sec, Time: byEvent, Lateness: 50 * sec}, func(b *bench) {
				b.add("a1", "a9", "b1", "a10", "a17", "a18", "a19", "a13", "a5", "a2")
				b.end()
			}, []string{"end [1,6) part 1: b1", "end [1,24) part 1: a1 a9 a10 a17 a18 a19 a13 a5 a2"}, nil},
		{"an event before a session moves its start", Config{Session: 5 * sec, Time: byEvent, Lateness: 20 * sec},
			func(b *bench) {
				b.add("a10", "a6", "a2", "a50")
			}, []string{"timeout [2,15) part 1: a10 a6 a2"}, nil},
		{"an event that is a gap away begins a session", Config{Session: 5 * sec, Time: byEvent, Lateness: 20 * sec},
			func(b *bench) {
				b.add("a10", "a15", "a5")
				b.end()
			}, []string{"end [10,15) part 1: a10", "end [15,20) part 1: a15", "end [5,10) part 1: a5"}, nil},
		{"an event is late when its session would have closed, and not when it makes an open one longer",
			Config{Session: 5 * sec, Time: byEvent}, func(b *bench) {
				b.add("a6", "b10", "a4", "c4", "c6")
				b.end()
			}, []string{"end [4,11) part 1: a6 a4", "end [10,15) part 1: b10", "end [6,11) part 1: c6"},
			[]string{"late c4"}},
		{"under pressure a window leaves in parts, the first opened first", Config{Every: 10 * sec, Time: byEvent},
			func(b *bench) {
				b.add("a1", "b2", "a3")
				b.Flush(b.now, engine.ByPressure, 1, b.emit)
				b.add("a4")
				b.Flush(b.now, engine.ByPressure, 2, b.emit)
				b.add("a5", "a10", "a11")
				b.end()
			}, []string{
				"pressure [0,10) part 1: a1 a3", "pressure [0,10) part 1: b2", "pressure [0,10) part 2: a4",
				"timeout [0,10) part 3: a5", "end [10,20) part 1: a10 a11",
			}, nil},
		{"a window that has left under pressure closes without another part", Config{Every: 10 * sec, Time: byEvent},
			func(b *bench) {
				b.add("a1")
				b.Flush(b.now, engine.ByPressure, 1, b.emit)
				b.add("a10", "a9")
			}, []string{"pressure [0,10) part 1: a1"}, []string{"late a9"}},
		{"what comes after a drain is the next part", Config{Every: 10 * sec, Time: byEvent}, func(b *bench) {
			b.add("a1")
			b.Flush(b.now, engine.ByDrain, -1, b.emit)
			b.add("a2")
			b.Flush(b.now, engine.ByDrain, -1, b.emit)
		}, []string{"drain [0,10) part 1: a1", "drain [0,10) part 2: a2"}, nil},
		{"sessions that left in parts go on counting when they are joined",
			Config{Session: 5 * sec, Time: byEvent, Lateness: 20 * sec}, func(b *bench) {
				b.add("a1")
				b.Flush(b.now, engine.ByPressure, 1, b.emit)
				b.add("a2")
				b.Flush(b.now, engine.ByPressure, 1, b.emit)
				b.add("a9", "a5")
				b.end()
			}, []string{"pressure [1,6) part 1: a1", "pressure [1,7) part 2: a2", "end [1,14) part 3: a9 a5"}, nil},
		{"all windows of the least recently used key make room",
			Config{Every: 10 * sec, Time: byEvent, Lateness: 20 * sec, MaxKeys: 2}, func(b *bench) {
				b.add("a1", "a12", "b3", "a4", "c5", "b6", "a7")
				b.end()
			}, []string{
				"evicted [0,10) part 1: b3", "evicted [0,10) part 1: a1 a4", "evicted [10,20) part 1: a12",
				"evicted [0,10) part 1: c5", "end [0,10) part 2: b6", "end [0,10) part 2: a7",
			}, nil},
		{"by the clock a window closes at its end", Config{Every: 10 * sec}, func(b *bench) {
			b.add("a1", "b9", "a10")
		}, []string{"timeout [0,10) part 1: a1", "timeout [0,10) part 1: b9"}, nil},
		{"by the clock a session closes when its key falls silent", Config{Session: 5 * sec}, func(b *bench) {
			b.add("a1", "b2", "a5", "b8")
			b.end()
		}, []string{"timeout [2,7) part 1: b2", "end [1,10) part 1: a1 a5", "end [8,13) part 1: b8"}, nil},
		{"a clock that is set back makes nothing late", Config{Every: 10 * sec}, func(b *bench) {
			b.add("a11", "a5", "a8", "a10.5")
			b.end()
		}, []string{"timeout [0,10) part 1: a5 a8", "end [10,20) part 1: a11 a10.5"}, nil},
		{"flush of nothing sends nothing", Config{Every: sec}, (*bench).end, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(tt.c)
			tt.run(b)
			if diff := cmp.Diff(tt.want, b.sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.failed, b.failed); diff != "" {
				t.Errorf("failed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDueIsTheEndOfTheFirstOpenWindow(t *testing.T) {
	b := newBench(Config{Session: 5 * sec})
	steps := []struct {
		do   func()
		want float64
	}{
		{func() {}, -1},
		{func() { b.add("a1") }, 6},
		{func() { b.add("b2") }, 6},
		{func() { b.add("a3") }, 7},
		{func() { b.Flush(second(7), engine.ByTimeout, 0, b.emit) }, 8},
		{func() { b.Flush(second(7), engine.ByPressure, 1, b.emit) }, -1},
		{func() { b.add("a7.5") }, 12.5},
	}
	for i, step := range steps {
		step.do()
		want := second(step.want)
		if step.want < 0 {
			want = time.Time{}
		}
		if due := b.Due(); !due.Equal(want) {
			t.Errorf("step %d: due at %v, want %v", i, due, want)
		}
	}
	byEvents := newBench(Config{Every: sec, Time: byEvent})
	byEvents.add("a1")
	if due := byEvents.Due(); !due.IsZero() {
		t.Errorf("by the events' time due at %v, want never", due)
	}
}

func TestWindowsThatLeaveInPartsAreWarnedAboutOnceAMinute(t *testing.T) {
	b := newBench(Config{Every: time.Hour, MaxKeys: 1})
	b.add("a0", "b1", "a2")
	if n := strings.Count(b.log.String(), "raise it"); n != 1 {
		t.Errorf("%d warnings in the first minute, want 1:\n%s", n, &b.log)
	}
	b.log.Reset()
	b.add("b62")
	for _, want := range []string{"windows=2", "max_keys"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("after a minute the log lacks %q:\n%s", want, &b.log)
		}
	}
	b.log.Reset()
	b.end()
	if b.log.Len() > 0 {
		t.Errorf("the end of the input is warned about:\n%s", &b.log)
	}
}

// TestNoPartIsSentTwice uses more windows in parts than the batcher remembers.
func TestNoPartIsSentTwice(t *testing.T) {
	b := newBench(Config{Every: 10 * sec, Time: byEvent, Lateness: 100 * sec})
	b.maxLeft = 2
	for round := range 5 {
		for _, k := range "abcdefgh" {
			b.add(fmt.Sprintf("%c%d", k, round))
			b.Flush(b.now, engine.ByPressure, 1, b.emit)
		}
	}
	if n := len(b.left); n != 2 || len(b.keys) != 2 {
		t.Errorf("%d windows of %d keys are remembered, want 2", n, len(b.keys))
	}
	seen := map[string]bool{}
	for _, text := range b.sent {
		window, message, _ := strings.Cut(text, ": ")
		id := message[:1] + window
		if seen[id] {
			t.Errorf("%s was sent twice", id)
		}
		seen[id] = true
	}
	b.sent = nil
	b.add("a200", "a310") // all earlier windows have closed
	if diff := cmp.Diff([]string{"timeout [200,210) part 1: a200"}, b.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestNothingIsKeptOfWindowsThatHaveClosed(t *testing.T) {
	for _, c := range []Config{
		{Every: 10 * sec, Slide: 2 * sec, Time: byEvent, Lateness: 7 * sec, MaxKeys: 3},
		{Session: 3 * sec, Time: byEvent, Lateness: 7 * sec, MaxKeys: 3},
		{Every: sec},
		{Session: sec},
	} {
		b := newBench(c)
		for i := range 500 {
			b.add(fmt.Sprintf("%c%d", 'a'+i*7%11, i/3))
			if i%13 == 0 {
				b.Flush(b.now, engine.ByPressure, 2, b.emit)
			}
		}
		b.add("z100000")
		if len(b.keys) != 1 || len(b.left) != 0 || len(b.closing) != len(b.keys[`"z"`].windows) {
			t.Errorf("%+v: %d keys, %d open windows and %d in parts are left, want those of z", c, len(b.keys),
				len(b.closing), len(b.left))
		}
		b.end()
		if len(b.closing) != 0 || b.opened.Front != nil || b.used.Front != nil {
			t.Errorf("%+v: windows are open after the end", c)
		}
	}
}
