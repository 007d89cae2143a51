package service

import (
	"slices"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestWhatWaitsForWhat(t *testing.T) {
	slow := engine.OutputState{Name: "lake", Breaker: "closed", Queued: 900, Writing: 4, Concurrency: 4}
	idle := engine.OutputState{Name: "disk", Breaker: "closed", Concurrency: 1}
	tests := []struct {
		name string
		s    engine.Snapshot
		want []string // who, for, why
	}{
		{"nothing waits", engine.Snapshot{Lanes: 2, LanesBusy: 1, Inputs: []engine.InputState{{Name: "web", State: "reading"}},
			Outputs: []engine.OutputState{idle}}, nil},
		{"a slow output", engine.Snapshot{Inputs: []engine.InputState{{Name: "web", State: "waiting"}, {Name: "bus", State: "ended"}},
			Outputs: []engine.OutputState{idle, slow}},
			[]string{"output lake  busy", "input web output lake back_pressure"}},
		{"an output that is down", engine.Snapshot{Inputs: []engine.InputState{{Name: "web", State: "waiting"}},
			Outputs: []engine.OutputState{{Name: "lake", Breaker: "open", Err: "refused"}}},
			[]string{"output lake  breaker", "input web output lake back_pressure"}},
		{"a broker without memory", engine.Snapshot{Outputs: []engine.OutputState{{Name: "mq", Breaker: "closed", Stalled: "low on memory"}}},
			[]string{"output mq  stalled"}},
		{"a slow step", engine.Snapshot{Lanes: 2, LanesBusy: 2, Inputs: []engine.InputState{{Name: "web", State: "waiting"}},
			Steps: []engine.StepState{{Name: "set", Latency: engine.Histogram{Sum: 1}}, {Type: "http", Latency: engine.Histogram{Sum: 9}}}},
			[]string{"lanes step http busy", "input web lanes back_pressure"}},
		{"a pool", engine.Snapshot{Steps: []engine.StepState{{Name: "embed", Pool: &engine.PoolState{Waiting: 7, InFlight: 4, Slots: 4}},
			{Name: "free", Pool: &engine.PoolState{Waiting: 7, InFlight: 1, Slots: 4}}, {Name: "idle", Pool: &engine.PoolState{}},
			{Type: "pool", Pool: &engine.PoolState{Waiting: 1}}}}, []string{"step embed  busy", "step pool  stalled"}},
		{"a limit", engine.Snapshot{Inputs: []engine.InputState{{Name: "web", State: "limited"},
			{Name: "api", State: "limited", Limit: &engine.LimitState{Name: "input api"}}}},
			[]string{"input web limit engine limit", "input api limit input api limit"}},
		{"an output's limit", engine.Snapshot{Outputs: []engine.OutputState{{Name: "lake", Queued: 3, Concurrency: 1,
			Limit: &engine.LimitState{Name: "shared"}}}}, []string{"output lake limit shared limit"}},
		{"messages that failed", engine.Snapshot{Waiting: 7, Held: &engine.Held{For: "a retry of output lake", Age: time.Minute},
			Inputs: []engine.InputState{{Name: "web", State: "waiting"}}},
			[]string{"messages a retry of output lake hold", "input web messages back_pressure"}},
		{"only the credits are known", engine.Snapshot{Inputs: []engine.InputState{{Name: "web", State: "waiting"}}},
			[]string{"input web the messages in flight back_pressure"}},
		{"inputs that don't read", engine.Snapshot{Inputs: []engine.InputState{{Name: "a", State: "paused"}, {Name: "b", State: "restarting"},
			{Name: "c", State: "reading", Due: time.Unix(9, 0)}}},
			[]string{"input a operator paused", "input b  restart", "input c  schedule"}},
		{"a call that hangs", engine.Snapshot{Stuck: []engine.Stuck{{Place: "output lake", What: "write"}}}, []string{"output lake  stuck"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, w := range waitsOf(tt.s) {
				got = append(got, w.Who+" "+w.For+" "+w.Why)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestQuantiles(t *testing.T) {
	even := engine.Histogram{Bounds: []float64{1, 2, 4}, Counts: []uint64{0, 10, 10, 0}, Count: 20}
	beyond := engine.Histogram{Bounds: []float64{1}, Counts: []uint64{0, 5}, Count: 5}
	native := engine.Histogram{Count: 100, Native: map[int]int64{0: 50, 8: 49, 80: 1}}
	for _, tt := range []struct {
		h            engine.Histogram
		p50, p90, p9 float64
	}{
		{even, 2, 3.6, 3.96}, {beyond, 1, 1, 1}, {native, 1, 2, 2}, {engine.Histogram{}, 0, 0, 0},
	} {
		if l := latencyOf(tt.h); !near(l.P50, tt.p50) || !near(l.P90, tt.p90) || !near(l.P99, tt.p9) {
			t.Errorf("%+v: got %+v", tt.h, l)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
