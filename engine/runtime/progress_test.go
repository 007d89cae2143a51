package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/google/go-cmp/cmp"
)

// placed is a source that knows its end. Each instance reads one part, and reports results as settled.
type placed struct {
	*Source
	part int
}

func (p placed) Progress() engine.Progress {
	settled := int64(len(p.Results()))
	return engine.Progress{Revoked: 1, TakenAway: int64(p.part),
		Positions: []engine.Position{{Name: fmt.Sprint("part/", p.part), Settled: settled, Read: 3, End: 10}}}
}

// TestProgressIsThatOfAllInstances uses parts whose order differs from that of the instances.
func TestProgressIsThatOfAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		p := pipe(&Source{}, &Sink{Block: block})
		p.Inputs = Named("in", engine.InputSpec{Concurrency: 2,
			Use: engine.Use(func(env engine.Env) (engine.Input, error) {
				return placed{&Source{Payloads: numbers(3), Endless: true, Takes: engine.TakesOne}, 2 - env.Index}, nil
			})})
		plan := Build(t, p)
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { plan.Run(stop, context.Background()) })
		shows := func(settled int64, lag int64) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			want := &engine.Progress{Revoked: 2, TakenAway: 3, Positions: []engine.Position{
				{Name: "part/1", Settled: settled, Read: 3, End: 10}, {Name: "part/2", Settled: settled, Read: 3, End: 10}}}
			got := plan.Snapshot().Inputs[0].Progress
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("progress (-want +got):\n%s", diff)
			}
			if got.Lag() != lag {
				t.Errorf("lag %d, want %d", got.Lag(), lag)
			}
		}
		shows(0, 20)
		close(block)
		shows(3, 14)
		cancel()
		wg.Wait()
	})
}

// TestNoProgressWithoutAnEnd uses an input that does not know where its source ends, and so has no progress.
func TestNoProgressWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := Build(t, pipe(&Source{Payloads: numbers(3), Endless: true}, &Sink{}))
		stop, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { plan.Run(stop, context.Background()) })
		synctest.Wait()
		if got := plan.Snapshot().Inputs[0].Progress; got != nil {
			t.Errorf("got %+v", got)
		}
		cancel()
		wg.Wait()
	})
}

func TestLagIsNeverNegative(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   engine.Position
		want int64
	}{
		{"in the middle", engine.Position{Settled: 3, Read: 5, End: 10}, 7},
		{"at the end", engine.Position{Settled: 10, Read: 10, End: 10}, 0},
		{"the end was heard long ago", engine.Position{Settled: 12, Read: 15, End: 10}, 0},
		{"nobody knows where it begins", engine.Position{Settled: -1, End: 10}, 0},
	} {
		if got := tt.at.Lag(); got != tt.want {
			t.Errorf("%s: lag %d, want %d", tt.name, got, tt.want)
		}
	}
}
