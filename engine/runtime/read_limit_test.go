package runtime_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// arrivals counts the messages of a sink by their time since began.
func arrivals(dst *Sink, began time.Time) map[time.Duration]int {
	all := map[time.Duration]int{}
	for _, w := range dst.Writes() {
		all[w.At.Sub(began).Round(time.Millisecond)] += len(w.Bodies)
	}
	return all
}

// A pipeline with a step that reserves far ahead shares a limit with a pipeline whose input is limited. Each gets its share.
func TestAReaderStandsInLineWithSteps(t *testing.T) {
	for _, kind := range []string{"window", "bucket"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := engine.RateLimit{Messages: 10, Per: time.Second, Kind: kind}
				o := runtime.Options{Shared: &engine.Shared{}, Limits: map[string]engine.RateLimit{"api": spec}}
				began := time.Now()
				stop, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()

				steady := &Source{Payloads: numbers(1000), PerRead: 1, Every: 100 * time.Millisecond} // as many as the limit allows
				stepwise := pipe(steady, &Sink{}, limitedBy(t, "api"))
				read := pipe(&Source{Payloads: numbers(1000)}, &Sink{})
				dst := &Sink{}
				read.Outputs = Named("out", dst.Output())
				read.Engine.RateLimit = &engine.RateLimit{Name: "api"}
				var wg sync.WaitGroup
				for _, p := range []*engine.Pipeline{stepwise, read} {
					plan, problems := runtime.Build(p, o)
					for _, x := range problems {
						t.Error(x)
					}
					wg.Go(func() { plan.Run(stop, context.Background()) })
				}
				wg.Wait()
				n := 0
				for at, k := range arrivals(dst, began) {
					if at > 10*time.Second && at <= time.Minute {
						n += k
					}
				}
				if n < 15 {
					t.Errorf("the reader got %d messages in 50 s, want some of the 500 that may pass", n)
				}
			})
		})
	}
}

// limitedBy returns a step with a limit of `resources.rate_limits`.
func limitedBy(t *testing.T, name string) engine.StepSpec {
	t.Helper()
	return engine.StepSpec{Name: "limit", Use: engine.Use(func(env engine.Env) (engine.Processor, error) {
		return env.RateLimit(engine.RateLimitStep{RateLimit: engine.RateLimit{Name: name}})
	})}
}

func TestLimitsOfAReader(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name          string
		src           *Source
		input, engine *engine.RateLimit
		during        func(p *runtime.Plan)
		want          map[time.Duration]int
	}{
		{name: "a window", src: &Source{Payloads: numbers(25)},
			input: &engine.RateLimit{Messages: 10, Per: s}, want: map[time.Duration]int{0: 10, s: 10, 2 * s: 5}},
		{name: "a slow bucket", src: &Source{Payloads: numbers(4)},
			input: &engine.RateLimit{Messages: 1, Per: s, Kind: "bucket", Burst: 2},
			want:  map[time.Duration]int{0: 2, s: 1, 2 * s: 1}},
		{name: "two limits: the slower holds", src: &Source{Payloads: numbers(6)},
			input: &engine.RateLimit{Messages: 3, Per: s}, engine: &engine.RateLimit{Messages: 2, Per: 2 * s},
			want: map[time.Duration]int{0: 2, 2 * s: 2, 4 * s: 2}},
		{name: "what was waited for counts when it is there",
			src:   &Source{Payloads: numbers(20), Every: 2500 * time.Millisecond},
			input: &engine.RateLimit{Messages: 10, Per: 5 * s},
			want:  map[time.Duration]int{2500 * time.Millisecond: 10, 10 * s: 10}},
		{name: "a limit that is raised at once lets the reader go on", src: &Source{Payloads: numbers(30)},
			input: &engine.RateLimit{Messages: 10, Per: time.Hour},
			during: func(p *runtime.Plan) {
				time.Sleep(5 * s)
				_ = p.SetLimit("input in", 100, s, 0, true)
			},
			want: map[time.Duration]int{0: 10, 5 * s: 20}},
		{name: "a pause gives the turn back", src: &Source{Payloads: numbers(30)},
			input: &engine.RateLimit{Messages: 10, Per: 10 * s},
			during: func(p *runtime.Plan) {
				for range 3 {
					time.Sleep(s)
					p.Pause()
					time.Sleep(s)
					p.Resume()
				}
			},
			want: map[time.Duration]int{0: 10, 10 * s: 10, 20 * s: 10}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := &Sink{}
				p := pipe(tt.src, dst)
				in := tt.src.Input()
				in.RateLimit = tt.input
				p.Inputs, p.Engine.RateLimit = Named("in", in), tt.engine
				plan := Build(t, p)
				if tt.during != nil {
					go tt.during(plan)
				}
				began := time.Now()
				plan.Run(t.Context(), t.Context())
				if diff := cmp.Diff(tt.want, arrivals(dst, began)); diff != "" {
					t.Errorf("messages by time (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// limitedSource notes until when it was told to be limited.
type limitedSource struct {
	*Source
	until []time.Time
}

func (s *limitedSource) Limited(until time.Time) { s.until = append(s.until, until) }

func TestAnInputLearnsThatItIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &limitedSource{Source: &Source{Payloads: numbers(5)}}
		p := pipe(src.Source, &Sink{})
		p.Inputs = schema.MapOf(entry("in", engine.InputSpec{
			Use:       engine.Use(func(engine.Env) (engine.Input, error) { return src, nil }),
			RateLimit: &engine.RateLimit{Messages: 2, Per: time.Minute},
		}))
		began := time.Now()
		Run(t, p, nil)
		if want := []time.Time{began.Add(time.Minute), {}, began.Add(2 * time.Minute), {}}; !cmp.Equal(src.until,
			want) {
			t.Errorf("limited until %v, want %v", src.until, want)
		}
	})
}

// A shared limit is used up as long as one of its readers has messages, however slowly the others read.
func TestASlowReaderLeavesItsLimitToOthers(t *testing.T) {
	tests := []struct {
		name  string
		slow  time.Duration // between its messages
		limit engine.RateLimit
	}{
		{"a window", 150 * time.Millisecond, engine.RateLimit{Messages: 100, Per: time.Second}},
		{"a window of one", 150 * time.Millisecond, engine.RateLimit{Messages: 1, Per: time.Second}},
		{"a reader slower than the window", 2500 * time.Millisecond, engine.RateLimit{Messages: 100, Per: time.Second}},
		{"a reader that has nothing at all", time.Hour, engine.RateLimit{Messages: 1, Per: time.Second}},
		{"a bucket", 150 * time.Millisecond, engine.RateLimit{Messages: 100, Per: time.Second, Kind: "bucket"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, fast, dst := &Source{Payloads: numbers(1000), PerRead: 1, Every: tt.slow},
					&Source{Payloads: numbers(10_000)}, &Sink{}
				p := pipe(slow, dst)
				p.Inputs = schema.MapOf(entry("slow", slow.Input()), entry("fast", fast.Input()))
				p.Engine.RateLimit = &tt.limit
				stop, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
				defer cancel()
				began := time.Now()
				Run(t, p, stop)
				all := arrivals(dst, began)
				if why := tooMany(tt.limit, all); why != "" {
					t.Error(why)
				}
				if got, want := len(dst.Bodies()), 10*tt.limit.Messages; got < want {
					t.Errorf("%d messages have passed in 9.5 s, want %d: %v", got, want, all)
				}
			})
		})
	}
}
