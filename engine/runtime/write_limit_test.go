package runtime_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/google/go-cmp/cmp"
)

// tooMany finds an interval in which more messages passed than a limit allows: of a window's length or, for a bucket, of any length.
func tooMany(l engine.RateLimit, passed map[time.Duration]int) string {
	times := slices.Sorted(maps.Keys(passed))
	for i, from := range times {
		n := 0
		for _, to := range times[i:] {
			most := float64(l.Messages)
			switch {
			case l.Kind == "bucket":
				most = float64(max(l.Burst, 1))
				if l.Burst == 0 {
					most = float64(l.Messages)
				}
				most += float64(to-from) * float64(l.Messages) / float64(l.Per)
			case to-from >= l.Per:
				n = -1 << 40
			}
			if n += passed[to]; float64(n) > most+0.001 {
				return fmt.Sprintf("%d passed from %v to %v, want at most %.1f", n, from, to, most)
			}
		}
	}
	return ""
}

func TestAnOutputWritesWhatItsLimitGives(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	window, bucket := engine.RateLimit{Messages: 10, Per: s}, engine.RateLimit{Messages: 10, Per: s, Kind: "bucket"}
	sixty := map[time.Duration]int{0: 10, s: 10, 2 * s: 10, 3 * s: 10, 4 * s: 10, 5 * s: 10}
	evenly := map[time.Duration]int{0: 10}
	for i := range 50 {
		evenly[time.Duration(i+1)*100*ms] = 1
	}
	tests := []struct {
		name  string
		n     int
		limit engine.RateLimit
		edit  func(t *testing.T, p *engine.Pipeline, dst *Sink)
		want  map[time.Duration]int
	}{
		{name: "a window", n: 60, limit: window, want: sixty},
		{name: "a bucket", n: 60, limit: bucket, want: evenly},
		{name: "several writers", n: 60, limit: window, want: sixty,
			edit: func(_ *testing.T, p *engine.Pipeline, _ *Sink) {
				at(p, func(o *engine.OutputSpec) { o.Concurrency = 4 })
			}},
		{name: "writes that take long", n: 30, limit: window, want: map[time.Duration]int{700 * ms: 10, 1700 * ms: 10,
			2700 * ms: 10}, edit: func(t *testing.T, p *engine.Pipeline, dst *Sink) {
			dst.Delay = 700 * ms
			p.Batchers = Named("all", batched(t, `{"size": 30, "timeout": "1h"}`, "out"))
		}},
		{name: "what comes in the middle of a window waits for what has passed before", n: 20, limit: window,
			want: map[time.Duration]int{0: 4, 900 * ms: 6, s: 4, 1900 * ms: 6},
			edit: func(_ *testing.T, p *engine.Pipeline, _ *Sink) {
				p.Processors = engine.Steps{Step("late", func(_ context.Context, m *engine.Message) error {
					if m.Ref >= 4 && m.Ref < 10 {
						m.Delay(900 * ms)
					} else if m.Ref >= 10 {
						m.Delay(910 * ms)
					}
					return nil
				})}
			}},
		{name: "in order", n: 60, limit: window, want: sixty, edit: func(_ *testing.T, p *engine.Pipeline, dst *Sink) {
			p.Engine.OrderBy, dst.Ordered = expr.MustCompile("n % 3"), true
			at(p, func(o *engine.OutputSpec) { o.Concurrency = 2 })
		}},
		{name: "a batch that is not merged counts its messages", n: 60, limit: window, want: sixty,
			edit: func(t *testing.T, p *engine.Pipeline, _ *Sink) {
				p.Batchers = Named("all", batched(t, `{"size": 30, "timeout": "1h"}`, "out"))
			}},
		{name: "a batch that is merged counts once", n: 60, limit: engine.RateLimit{Messages: 2, Per: s},
			want: map[time.Duration]int{0: 2, s: 1}, edit: func(t *testing.T, p *engine.Pipeline, _ *Sink) {
				b := batched(t, `{"size": 20, "timeout": "1h"}`, "out")
				b.Processors = engine.Steps{proc("merge", mergeAll)}
				p.Batchers = Named("all", b)
			}},
		{name: "other limits do not add up to more", n: 40, limit: window, want: map[time.Duration]int{0: 10, s: 10,
			2 * s: 10, 3 * s: 10}, edit: func(_ *testing.T, p *engine.Pipeline, _ *Sink) {
			p.Engine.RateLimit = &engine.RateLimit{Messages: 20, Per: 2 * s}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := &Sink{}
				p := pipe(&Source{Payloads: numbers(tt.n)}, dst)
				at(p, func(o *engine.OutputSpec) { o.RateLimit = &tt.limit })
				if tt.edit != nil {
					tt.edit(t, p, dst)
				}
				began := time.Now()
				Run(t, p, nil)
				if diff := cmp.Diff(tt.want, arrivals(dst, began)); diff != "" {
					t.Errorf("messages by time (-want +got):\n%s", diff)
				}
				if why := tooMany(tt.limit, arrivals(dst, began)); why != "" && dst.Delay == 0 {
					t.Error(why)
				}
				if !p.Engine.OrderBy.IsZero() {
					wantInOrder(t, dst.Bodies())
				}
			})
		})
	}
}

// at edits the output.
func at(p *engine.Pipeline, edit func(*engine.OutputSpec)) {
	o, _ := p.Outputs.Get("out")
	edit(&o)
	p.Outputs = Named("out", o)
}

// mergeAll makes one message of a batch.
func mergeAll(_ context.Context, b *engine.Batch) error {
	b.Merge([]byte(`{"n":0}`), b.All())
	return nil
}

// wantInOrder checks that messages with the same n % 3 are in order.
func wantInOrder(t *testing.T, bodies []string) {
	t.Helper()
	last := map[int]int{}
	for _, body := range bodies {
		var n int
		_, _ = fmt.Sscanf(body, `{"n":%d}`, &n)
		if n < last[n%3] {
			t.Errorf("%d came behind %d in %s", n, last[n%3], strings.Join(bodies, " "))
			return
		}
		last[n%3] = n
	}
}

// stumbling is an output that fails the fifth message once.
type stumbling struct {
	sequential, failed bool
	took               []string
}

func (s *stumbling) Traits() engine.Traits { return engine.Traits{Sequential: s.sequential} }

func (s *stumbling) Write(_ context.Context, b *engine.Batch) error {
	behind := false
	for m := range b.All() {
		switch body := string(m.Bytes()); {
		case behind:
			m.Fail(engine.ErrBehind)
		case body == `{"n":4}` && !s.failed:
			s.failed, behind = true, s.sequential
			m.Fail(engine.Errorf(engine.Transient, "not yet"))
		default:
			s.took = append(s.took, body)
		}
	}
	return nil
}

// A failed message holds its key, even while the rest of its write waits for the limit.
func TestAMessageThatFailsHoldsItsKeyInTheNextWrite(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprint("sequential ", sequential), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := &stumbling{sequential: sequential}
				p := pipe(&Source{Payloads: numbers(30), Takes: engine.TakesOne}, &Sink{})
				p.Outputs = Named("out",
					engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return dst, nil })})
				p.Engine.OrderBy = expr.MustCompile("n % 3")
				p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 3,
					Intervals: []time.Duration{1500 * time.Millisecond}}
				limit := engine.RateLimit{Messages: 5, Per: time.Second}
				at(p, func(o *engine.OutputSpec) { o.RateLimit = &limit })
				Run(t, p, nil)
				if len(dst.took) != 30 {
					t.Errorf("%d written, want 30", len(dst.took))
				}
				wantInOrder(t, dst.took)
			})
		})
	}
}

// A drain respects the limit. Messages that pass in time are written, and the rest goes back.
func TestADrainWritesWhatTheLimitGives(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(t *testing.T, p *engine.Pipeline)
		drain time.Duration
		want  int
	}{
		{"all in time", func(*testing.T, *engine.Pipeline) {}, 25 * time.Second, 60},
		{"not in time", func(*testing.T, *engine.Pipeline) {}, 4 * time.Second, 40}, // four fifths of it, from 0.5 s on
		{"a batch not in time", func(t *testing.T, p *engine.Pipeline) {
			p.Batchers = Named("all", batched(t, `{"size": 60, "timeout": "1h"}`, "out"))
		}, 4 * time.Second, 40},
		{"one that several pipelines could share", func(_ *testing.T, p *engine.Pipeline) {
			p.Engine.RateLimit = &engine.RateLimit{Messages: 10, Per: time.Second}
		}, 25 * time.Second, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: numbers(60), Takes: engine.TakesOne, Endless: true}, &Sink{}
				p := pipe(src, dst)
				limit := engine.RateLimit{Messages: 10, Per: time.Second}
				at(p, func(o *engine.OutputSpec) { o.RateLimit = &limit })
				p.Engine.Drain.Timeout = tt.drain
				tt.edit(t, p)
				stop, cancel := context.WithCancel(t.Context())
				time.AfterFunc(500*time.Millisecond, cancel)
				rep := Run(t, p, stop)
				if got := int(rep.Stats.Roots.Ended[engine.Delivered]); got != tt.want || got != len(dst.Bodies()) {
					t.Errorf("%d delivered, %d written; want %d", got, len(dst.Bodies()), tt.want)
				}
				told := map[engine.Fate]int{}
				for _, r := range src.Results() {
					told[r.Fate]++
				}
				if told[engine.Delivered] != tt.want || told[engine.Delivered]+told[engine.Returned] != src.Taken() {
					t.Errorf("the source was told %v of %d, want %d delivered and the rest returned", told, src.Taken(),
						tt.want)
				}
			})
		})
	}
}

// If a limit is raised with immediate effect, waiting writers continue.
func TestAWriterSeesARaisedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dst := &Sink{}
		p := pipe(&Source{Payloads: numbers(30)}, dst)
		at(p, func(o *engine.OutputSpec) { o.RateLimit = &engine.RateLimit{Messages: 10, Per: time.Hour} })
		plan, began := Build(t, p), time.Now()
		time.AfterFunc(5*time.Second, func() { _ = plan.SetLimit("output out", 100, time.Second, 0, true) })
		plan.Run(t.Context(), t.Context())
		if diff := cmp.Diff(map[time.Duration]int{0: 10, 5 * time.Second: 20}, arrivals(dst, began)); diff != "" {
			t.Errorf("messages by time (-want +got):\n%s", diff)
		}
	})
}
