package stage

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// Only the failed message is written again, after its back-off.
func TestAFailedMessageIsTriedAgainAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		out := &output{fail: func(payload string, n int) error {
			if payload == "b" && n < 3 {
				return engine.Errorf(engine.Transient, "later")
			}
			return nil
		}}
		g.output("out", out, true).Retry = &retry.Plan{MaxAttempts: 3, Intervals: []time.Duration{time.Second, 5 * time.Second}}
		g.runs("a", "b", "c")
		if got := out.stored(); !slices.Equal(got, []string{"a", "c", "b"}) {
			t.Errorf("wrote %q, want a and c, and then b", got)
		}
		if took := out.at["b"].Sub(out.began); took != 6*time.Second {
			t.Errorf("written after %v, want 6s", took)
		}
		if out.attempts["a"] != 1 || g.src.fates["b"] != engine.Delivered {
			t.Errorf("attempts %v, fates %v", out.attempts, g.src.fates)
		}
	})
}

// An outage is not a failure of messages. The output is probed repeatedly, and no message uses up its only attempt.
func TestAnOutputThatIsDownIsProbedWithOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		probed := map[time.Time]int{} // number of messages, by the time of the write
		out := &output{}
		out.fail = func(string, int) error {
			if time.Since(out.began) < 10*time.Second {
				probed[time.Now()]++
				return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New("no route to host")}
			}
			return nil
		}
		g.batcher("b").Batcher = &collect{n: 3, wait: time.Second}
		g.output("out", out, true)
		g.runs("a", "b", "c", "d", "e", "f")
		got := out.stored()
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b", "c", "d", "e", "f"}) {
			t.Errorf("wrote %q", got)
		}
		for at, n := range probed {
			if first := at.Equal(out.began); first && n != 3 || !first && n > 1 {
				t.Errorf("%d messages were written after %v, want one batch, and then one message at a time", n, at.Sub(out.began))
			}
		}
		if len(probed) == 0 || g.src.fates["a"] != engine.Delivered {
			t.Errorf("%d probes, fates %v", len(probed), g.src.fates)
		}
	})
}

// A write that hangs is abandoned after twice its timeout. Its message fails, and a new instance writes the others.
func TestAWriteThatHangsIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		out, second := &output{}, &output{}
		hung := make(chan struct{})
		out.fail = func(string, int) error { <-hung; return nil }
		o := g.output("out", out, true)
		o.Rebuild = func() (engine.Output, error) { return second, nil }
		began := time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			close(hung)
		}()
		g.runs("a")
		if got := g.src.fates["a"]; got != engine.Returned {
			t.Errorf("ended %v, want returned", got)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("abandoned after %v, want twice the timeout of 1s", took)
		}
		time.Sleep(time.Minute) // the abandoned call returns
	})
}

// Messages with the key of a failing message wait for it. Messages with other keys do not.
func TestOtherKeysContinueWhileOneIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		orderedBy(g, "raw()[0:1]")
		out := &output{fail: func(payload string, n int) error {
			if payload == "a1" && n < 3 {
				return engine.Errorf(engine.Transient, "later")
			}
			return nil
		}}
		g.output("out", out, true).Retry = &retry.Plan{Intervals: []time.Duration{time.Second}}
		g.runs("a1", "b1", "a2", "b2")
		got := out.stored()
		if !slices.Equal(got[len(got)-2:], []string{"a1", "a2"}) || slices.Index(got, "b1") > slices.Index(got, "b2") {
			t.Errorf("wrote %q, want those of key b, then a1 and a2", got)
		}
	})
}
