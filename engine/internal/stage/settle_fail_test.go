package stage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// rejects fails the payload "bad" permanently.
func rejects(payload string, _ int) error {
	if payload == "bad" {
		return engine.Errorf(engine.Rejected, "no good")
	}
	return nil
}

func TestWhatOnFailureSays(t *testing.T) {
	tests := []struct {
		name  string
		then  string
		dead  bool // a dead-letter output is configured
		takes engine.TakesBack
		fate  engine.Fate
		stops bool
	}{
		{"a dead letter", "", true, engine.TakesOne, engine.DeadLettered, false},
		{"return", "return", false, engine.TakesOne, engine.Returned, false},
		{"drop", "drop", false, engine.TakesOne, engine.Dropped, false},
		{"stop", "stop", false, engine.TakesOne, engine.Returned, true},
		{"by default a source that takes one back gets it", "", false, engine.TakesOne, engine.Returned, false},
		{"by default a source with a position stops the run", "", false, engine.TakesPosition, engine.Returned, true},
		{"by default what nobody takes back is dropped", "", false, engine.TakesNothing, engine.Dropped, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, tt.takes)
				out, dead := &output{fail: rejects}, &output{}
				g.output("out", out, true)
				var to *OutputPlan
				if tt.dead {
					to = g.output("dead", dead, false)
				}
				g.p.Failure = NewPolicy(engine.Then{Word: tt.then}, to, nil)
				r := g.runs("bad")
				if got := r.Stats().Roots.Ended; got[tt.fate] != 1 {
					t.Errorf("ended %v, want one %v", got, tt.fate)
				}
				if got, told := g.src.fates["bad"]; tt.takes != engine.TakesNothing && (!told || got != tt.fate) {
					t.Errorf("the source is told %v (%v), want %v", got, told, tt.fate)
				}
				if err := r.Failed(); (err != nil) != tt.stops {
					t.Errorf("the run failed with %v; want an error: %v", err, tt.stops)
				}
			})
		})
	}
}

func TestADeadLetterSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		out, dead := &output{fail: rejects}, &output{}
		g.output("out", out, true)
		g.p.Failure = NewPolicy(engine.Then{}, g.output("dead", dead, false), nil)
		r := g.runs("good", "bad")
		wantWrites(t, out, []string{"good"})
		wantWrites(t, dead, []string{"bad"})
		meta := dead.metas["bad"]
		if meta["error_class"] != "rejected" || meta["error_message"] != "no good" || meta["error_output"] != "out" ||
			meta["error_attempt"] != 1 {
			t.Errorf("metadata %v", meta)
		}
		if all := r.Failures.All(); len(all) != 1 || all[0].Fate != engine.DeadLettered || all[0].First.Place != "output out" {
			t.Errorf("failures %+v", all)
		}
	})
}

func TestARefusedDeadLetterGoesToItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		g.output("out", &output{fail: rejects}, true)
		g.p.Failure = NewPolicy(engine.Then{}, g.output("dead", &output{fail: rejects}, false), nil)
		r := g.runs("bad")
		if got := g.src.fates["bad"]; got != engine.Returned {
			t.Errorf("ended %v, want returned", got)
		}
		all := r.Failures.All()
		if len(all) != 1 || !strings.Contains(all[0].First.Message, "no good; its dead letter can't be written: output dead: no good") {
			t.Errorf("failures %+v", all)
		}
	})
}

func TestAFallbackTakesWhatAnOutputRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		first, second, dead := &output{fail: rejects}, &output{}, &output{}
		members := []*OutputPlan{g.output("first", first, false), g.output("second", second, false)}
		members[0].Feeds, members[1].Feeds = true, true
		out := g.output("out", nil, true)
		out.Route = &RoutePlan{Route: engine.Route{Fallback: true}, Members: members}
		g.p.Failure = NewPolicy(engine.Then{}, g.output("dead", dead, false), nil)
		g.runs("good", "bad")
		wantWrites(t, first, []string{"good"})
		wantWrites(t, second, []string{"bad"})
		wantWrites(t, dead)
	})
}

// Dead letters are retried as long as that can help, whatever the retries of their output are.
func TestADeadLetterIsTriedUntilItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, engine.TakesOne)
		g.output("out", &output{fail: rejects}, true)
		dead := &output{fail: func(_ string, n int) error {
			if n < 5 {
				return engine.Errorf(engine.Transient, "not yet")
			}
			return nil
		}}
		to := g.output("dead", dead, false)
		to.Retry = &retry.Plan{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
		g.p.Failure = NewPolicy(engine.Then{}, to, nil)
		g.runs("bad")
		wantWrites(t, dead, []string{"bad"})
		if took := dead.at["bad"].Sub(dead.began); took != 4*time.Second {
			t.Errorf("written after %v, want 4s", took)
		}
	})
}
