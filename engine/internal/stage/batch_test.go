package stage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// collect is a batcher that sends a batch of n messages, or after wait.
type collect struct {
	n    int
	wait time.Duration
	open *engine.Batch
	due  time.Time
}

func (c *collect) Add(b *engine.Batch, now time.Time, emit engine.Emit) {
	for m := range b.All() {
		if c.open == nil {
			c.open, c.due = b.Open(), now.Add(c.wait)
		}
		c.open.Move(m)
		if c.open.Len() == c.n {
			c.Flush(now, engine.BySize, -1, emit)
		}
	}
}

func (c *collect) Due() time.Time {
	if c.open == nil {
		return time.Time{}
	}
	return c.due
}

func (c *collect) Flush(_ time.Time, why engine.Trigger, _ int, emit engine.Emit) {
	if open := c.open; open != nil {
		c.open = nil
		emit(open, why)
	}
}

func TestWhyABatchLeaves(t *testing.T) {
	tests := []struct {
		name   string
		b      *collect
		credit int
		want   []engine.Trigger
	}{
		{"it is full, and the rest at the end", &collect{n: 2, wait: time.Minute}, 1000, []engine.Trigger{engine.BySize, engine.ByEnd}},
		{"a reader waits for credits that only open batches have", &collect{n: 9, wait: time.Hour}, 2,
			[]engine.Trigger{engine.ByPressure, engine.ByEnd}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, engine.TakesOne)
				g.p.MaxMessages = tt.credit
				out := &output{}
				g.batcher("b").Batcher = tt.b
				g.output("out", out, true)
				g.runs("1", "2", "3")
				if len(out.triggers) != len(tt.want) || out.triggers[0] != tt.want[0] || out.triggers[1] != tt.want[1] {
					t.Errorf("batches %q left by %q, want %q", out.writes, out.triggers, tt.want)
				}
			})
		})
	}
}

// A batch is sent when its batcher says so, even if no more messages arrive.
func TestABatchLeavesWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		out := &output{}
		g.batcher("b").Batcher = &collect{n: 9, wait: 3 * time.Second}
		g.output("out", out, true)
		g.p.Inputs[0].Inputs[0] = &slow{source: g.src, wait: 10 * time.Second}
		began := time.Now()
		g.runs("1")
		if took := out.at["1"].Sub(began); took != 3*time.Second || out.triggers[0] != engine.ByTimeout {
			t.Errorf("left after %v by %q, want 3s and timeout", took, out.triggers)
		}
	})
}

// slow is an input that ends some time after its last message.
type slow struct {
	*source
	wait time.Duration
}

// Read waits before the end.
func (s *slow) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if s.next == len(s.payloads) {
		time.Sleep(s.wait)
	}
	return s.source.Read(ctx, b)
}

// A batcher with `concurrency: 1` sends the next batch after all outputs have written the previous one.
func TestABatchWaitsForAPlaceInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		quick, slow := &output{}, &output{fail: func(string, int) error { time.Sleep(500 * time.Millisecond); return nil }}
		b := g.batcher("b")
		b.Batcher, b.Concurrency = &collect{n: 1, wait: time.Minute}, 1
		g.output("quick", quick, true)
		g.output("slow", slow, true)
		g.runs("1", "2")
		if gap := quick.at["2"].Sub(quick.at["1"]); gap != 500*time.Millisecond {
			t.Errorf("the second batch follows after %v, want 500ms", gap)
		}
	})
}
