package stage

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/flow"
)

func orderedBy(g *rig, key string) {
	by := expr.MustCompile(key)
	g.p.OrderBy, g.p.Ordered = &by, true
}

// keyed returns a slab of messages whose order keys are their first letters.
func keyed(payloads ...string) *engine.Batch {
	b := flow.NewSlab(len(payloads))
	for _, p := range payloads {
		b.Add([]byte(p)).Key = []byte(p[:1])
	}
	return b
}

func bodies(b *engine.Batch) (all []string) {
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	return all
}

// If steps depend on what earlier messages of a key have written, the messages of a key are processed one after the other.
func TestAWaveHasEachKeyOnce(t *testing.T) {
	seen := map[string]bool{}
	b := keyed("a1", "b1", "a2", "c1", "b2", "a3")
	if !repeats(b, seen) || repeats(keyed("a1", "b1"), seen) {
		t.Error("it is not found out which slabs have a key twice")
	}
	for _, want := range [][]string{{"a1", "b1", "c1"}, {"a2", "b2"}, {"a3"}} {
		if got := bodies(wave(b, seen)); !slices.Equal(got, want) {
			t.Errorf("wave %q, want %q", got, want)
		}
	}
	if len(slab(b).Msgs) > 0 {
		t.Errorf("%q are left", bodies(b))
	}
}

func TestTheFirstBatcherThatMatchesTakesAMessage(t *testing.T) {
	starts := func(letter string) *expr.Cond {
		c := expr.MustCond(`raw()[0:1] == "` + letter + `"`)
		return &c
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		all, a, rest := &output{}, &output{}, &output{}
		g.batcher("copies").GoesOn = true
		g.output("all", all, true)
		g.batcher("a").Match = starts("a")
		g.output("a", a, true)
		g.batcher("b").Match = starts("b")
		g.output("b", rest, true)
		g.runs("a1", "b1", "c1")
		wantWrites(t, a, []string{"a1"})
		wantWrites(t, rest, []string{"b1"})
		if got := all.stored(); !slices.Equal(got, []string{"a1", "b1", "c1"}) || g.src.fates["c1"] != engine.Delivered {
			t.Errorf("copies %q, fates %v", got, g.src.fates)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		g.batcher("a").Match = starts("a")
		g.output("a", &output{}, true)
		g.p.Failure = NewPolicy(engine.Then{Word: "drop"}, nil, nil)
		f := g.runs("c1").Failures.All()
		if len(f) != 1 || f[0].First.Class != engine.Unrouted || g.src.fates["c1"] != engine.Dropped {
			t.Errorf("failures %+v, fates %v; want an unrouted message", f, g.src.fates)
		}
	})
}

// Each key belongs to one lane, and no message of a key overtakes another.
func TestMessagesOfAKeyStayInOrderOnSeveralLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		orderedBy(g, "raw()[0:1]")
		g.p.Workers = 4
		g.step("uneven", func(_ context.Context, m *engine.Message) error {
			if m.Bytes()[1]%2 == 1 { // otherwise the next message would be done first
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		out := &output{}
		g.output("out", out, true)
		var payloads []string
		for n := range byte(9) {
			for _, k := range "abcdefgh" {
				payloads = append(payloads, string(k)+string('1'+n))
			}
		}
		g.runs(payloads...)
		last := map[byte]byte{}
		for _, p := range out.stored() {
			if p[1] <= last[p[0]] {
				t.Errorf("%s comes after %c%c", p, p[0], last[p[0]])
			}
			last[p[0]] = p[1]
		}
		if len(out.stored()) != len(payloads) {
			t.Errorf("%d messages, want %d", len(out.stored()), len(payloads))
		}
	})
}
