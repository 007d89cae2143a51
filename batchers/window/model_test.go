package window

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// event is a message of the model, with the part in which it left.
type event struct {
	id   int
	key  string
	at   int64         // seconds
	left map[int64]int // by group.slot
}

// group is a window. The model computes it from all events.
type group struct {
	key        string
	start, end int64
	slot       int64 // the start of a fixed window
	all        []*event
}

func (g *group) waiting() (ids []int) {
	for _, e := range g.all {
		if e.left[g.slot] == 0 {
			ids = append(ids, e.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// part returns the number of the next part.
func (g *group) part() int {
	most := 0
	for _, e := range g.all {
		most = max(most, e.left[g.slot])
	}
	return most + 1
}

// model is a slow batcher that follows the definition. Its only state is the events of windows that have not closed.
type model struct {
	*rapid.T
	Config
	timed bool
	open  []*group // fixed windows
	alive []*event // events of sessions that have not closed
	seen  int64
	used  []string // keys, least recently used first
}

const never = -1 << 60

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// groups returns all windows that have not closed.
func (m *model) groups() []*group {
	if m.Session == 0 {
		return slices.Clone(m.open)
	}
	gap := seconds(m.Session)
	var all []*group
	events := slices.Clone(m.alive)
	slices.SortFunc(events, func(x, y *event) int {
		return cmp.Or(strings.Compare(x.key, y.key), cmp.Compare(x.at, y.at))
	})
	for _, e := range events {
		if n := len(all); n > 0 && all[n-1].key == e.key && e.at < all[n-1].end {
			all[n-1].all = append(all[n-1].all, e)
			all[n-1].end = e.at + gap
			continue
		}
		all = append(all, &group{key: e.key, start: e.at, end: e.at + gap, all: []*event{e}})
	}
	return all
}

// leaves returns the messages that are sent when g closes, or leaves in part.
func (m *model) leaves(g *group, why engine.Trigger) []string {
	ids := g.waiting()
	if len(ids) == 0 {
		return nil
	}
	part := g.part()
	for _, e := range g.all {
		if e.left[g.slot] == 0 {
			e.left[g.slot] = part
		}
	}
	return []string{describe(why, g.key, g.start, g.end, part, ids)}
}

func describe(why engine.Trigger, key string, start, end int64, part int, ids []int) string {
	return fmt.Sprintf("%s %s [%d,%d) part %d: %v", why, key, start, end, part, ids)
}

func (m *model) advance(to int64) (sent []string) {
	m.seen = to
	for _, g := range m.groups() {
		if g.end+seconds(m.Lateness) > to {
			continue
		}
		sent = append(sent, m.leaves(g, engine.ByTimeout)...)
		m.open = slices.DeleteFunc(m.open, func(o *group) bool { return o == g })
		m.alive = slices.DeleteFunc(m.alive, func(e *event) bool { return slices.Contains(g.all, e) })
	}
	return sent
}

// has reports whether messages of a key wait.
func (m *model) has(key string) bool {
	return slices.ContainsFunc(m.groups(), func(g *group) bool { return g.key == key && len(g.waiting()) > 0 })
}

// touch notes the use of a key. If there are too many keys, it evicts the least recently used one.
func (m *model) touch(key string) (sent []string) {
	m.used = slices.DeleteFunc(m.used, func(k string) bool { return k == key || !m.has(k) })
	if m.MaxKeys > 0 && !m.has(key) && len(m.used) == m.MaxKeys {
		for _, g := range m.groups() {
			if g.key == m.used[0] {
				sent = append(sent, m.leaves(g, engine.ByEvicted)...)
			}
		}
		m.used = m.used[1:]
	}
	m.used = append(m.used, key)
	return sent
}

// add adds a message.
func (m *model) add(e *event) (sent []string, late bool) {
	if m.timed {
		sent = m.advance(max(m.seen, e.at))
	}
	if m.Session > 0 {
		return m.addToSession(e, sent)
	}
	var starts []int64
	for start := e.at - 1000; start <= e.at; start++ {
		aligned := (start-seconds(m.Offset))%seconds(m.step()) == 0
		inside := start <= e.at && e.at < start+seconds(m.Every)
		if aligned && inside && (!m.timed || start+seconds(m.Every)+seconds(m.Lateness) > m.seen) {
			starts = append(starts, start)
		}
	}
	if len(starts) == 0 {
		return sent, true
	}
	sent = append(sent, m.touch(e.key)...)
	for _, start := range starts {
		i := slices.IndexFunc(m.open, func(g *group) bool { return g.key == e.key && g.start == start })
		if i < 0 {
			i = len(m.open)
			m.open = append(m.open, &group{key: e.key, start: start, end: start + seconds(m.Every), slot: start})
		}
		m.open[i].all = append(m.open[i].all, e)
	}
	return sent, false
}

func (m *model) addToSession(e *event, sent []string) (all []string, late bool) {
	before := m.alive
	m.alive = append(slices.Clone(before), e)
	for _, g := range m.groups() {
		if slices.Contains(g.all, e) && m.timed && g.end+seconds(m.Lateness) <= m.seen {
			m.alive = before
			return sent, true
		}
	}
	after := m.alive
	m.alive = before
	sent = append(sent, m.touch(e.key)...)
	m.alive = after
	return sent, false
}

func drawConfig(t *rapid.T) Config {
	draw := func(name string, from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Second
	}
	c := Config{MaxKeys: rapid.IntRange(0, 3).Draw(t, "max_keys")}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		c.Session = draw("session", 1, 8)
	case 1:
		c.Every = draw("every", 1, 12)
	case 2:
		c.Every = draw("every", 1, 12)
		c.Slide = draw("slide", 1, int(seconds(c.Every)))
		c.Offset = draw("offset", -int(seconds(c.Slide))+1, int(seconds(c.Slide))-1)
	}
	if rapid.Bool().Draw(t, "time?") {
		c.Time = byEvent
		c.Lateness = draw("lateness", 0, 15)
	}
	return c
}

// TestWindowsAreThoseOfTheModel plays random traffic to the batcher and to the model. Both send the same windows at the same times.
func TestWindowsAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		m := &model{T: t, Config: c, timed: !c.Time.IsZero(), seen: never}
		b := newBatcher(c, keyOf, slog.New(slog.DiscardHandler))
		var got []string
		emit := func(out *engine.Batch, why engine.Trigger) { got = append(got, m.told(out, why)) }
		clock, made := int64(1000), 0
		compare := func(what string, want []string) {
			slices.Sort(want)
			slices.Sort(got)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%s at %d sends (-want +got):\n%s", what, clock, diff)
			}
			got = nil
		}
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			clock += int64(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 5, 20}).Draw(t, "pause"))
			now := time.Unix(clock, 0)
			if rapid.IntRange(0, 9).Draw(t, "press?") == 0 {
				b.Flush(now, engine.ByPressure, rapid.IntRange(1, 6).Draw(t, "n"), emit)
				compare("pressure", m.pressed(got))
				continue
			}
			var want []string
			if !m.timed {
				want = m.advance(clock)
			}
			var bodies []string
			var late []int
			for range rapid.IntRange(0, 4).Draw(t, "messages") {
				made++
				e := &event{id: made, key: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "key"),
					at: clock, left: map[int64]int{}}
				if m.timed {
					e.at -= int64(rapid.IntRange(0, 25).Draw(t, "behind"))
				}
				bodies = append(bodies, fmt.Sprintf(`{"k":%q,"t":%d,"id":%d}`, e.key, e.at, e.id))
				sent, isLate := m.add(e)
				want = append(want, sent...)
				if isLate {
					late = append(late, e.id)
				}
			}
			in := enginetest.Batch(bodies...)
			b.Add(in, now, emit)
			var failed []int
			for x := range in.Ended() {
				if x.Err().Class != engine.Late {
					t.Fatalf("%s fails: %v", x.Bytes(), x.Err())
				}
				failed = append(failed, idOf(x))
			}
			if diff := gocmp.Diff(late, failed); diff != "" {
				t.Fatalf("late at %d (-want +got):\n%s", clock, diff)
			}
			compare("add", want)
			m.check(b)
			if due := b.Due(); !due.IsZero() && !now.Before(due) {
				t.Fatalf("at %v the batcher is due at %v", now, due)
			}
		}
		b.Flush(time.Unix(clock, 0), engine.ByEnd, -1, emit)
		var want []string
		for _, g := range m.groups() {
			want = append(want, m.leaves(g, engine.ByEnd)...)
		}
		compare("the end", want)
	})
}

func idOf(m *engine.Message) int {
	doc, err := m.Value()
	if err != nil {
		panic(err)
	}
	return doc.(map[string]any)["id"].(int)
}

func (m *model) told(out *engine.Batch, why engine.Trigger) string {
	var ids []int
	key := ""
	for x := range out.All() {
		ids = append(ids, idOf(x))
		key = message(x)[:1]
	}
	w := out.Window()
	return describe(why, key, w.Start.Unix(), w.End.Unix(), w.Part, ids)
}

// pressed returns what the model sends under pressure, given the windows that the batcher has sent.
func (m *model) pressed(got []string) (want []string) {
	for _, text := range got {
		for _, g := range m.groups() {
			if ids := g.waiting(); len(ids) > 0 &&
				text == describe(engine.ByPressure, g.key, g.start, g.end, g.part(), ids) {
				want = append(want, m.leaves(g, engine.ByPressure)...)
				break
			}
		}
	}
	if len(want) == 0 {
		for _, g := range m.groups() {
			if len(g.waiting()) > 0 {
				m.Fatalf("pressure sends nothing, though %v waits", g.waiting())
			}
		}
	}
	return want
}

// check checks the invariants between two calls.
func (m *model) check(b *batcher) {
	keys, first := map[string]bool{}, int64(never)
	for _, g := range m.groups() {
		if len(g.waiting()) > 0 {
			keys[g.key] = true
			if first == never || g.end < first {
				first = g.end
			}
		}
	}
	if m.MaxKeys > 0 && (len(keys) > m.MaxKeys || b.inUse != len(keys)) {
		m.Fatalf("%d keys have open windows, and %d are counted; want at most %d", len(keys), b.inUse, m.MaxKeys)
	}
	want := time.Time{}
	if first != never && !m.timed {
		want = time.Unix(first, 0)
	}
	if due := b.Due(); !due.Equal(want) {
		m.Fatalf("due at %v, want %v", due, want)
	}
	if want, got := len(m.groups()), len(b.closing)+len(b.left); want != got {
		m.Fatalf("%d windows are known, want %d", got, want)
	}
}
