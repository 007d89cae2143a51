package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

func group(c engine.GroupConfig) engine.StepSpec {
	return engine.StepSpec{Name: "group", Use: engine.Use(func(engine.Env) (engine.Processor, error) {
		return engine.Block{Group: &c}, nil
	})}
}

// joined merges all messages into one.
var joined = proc("join", func(_ context.Context, b *engine.Batch) error {
	var all []string
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	b.Merge([]byte(strings.Join(all, "+")), b.All())
	return nil
})

func TestGroupsCloseWhenTheyAreFullOrOld(t *testing.T) {
	tests := []struct {
		name  string
		c     engine.GroupConfig
		n     int
		every time.Duration
		works time.Duration // how long its step takes
		want  []string      // each as SIZE TRIGGER
		by    time.Duration
	}{
		{"by size, the rest at the end", engine.GroupConfig{Size: 4, Timeout: time.Hour}, 10, 0, 0,
			[]string{"4 size", "4 size", "2 end"}, 0},
		{"by time since the first", engine.GroupConfig{Size: 100, Timeout: 25 * time.Millisecond}, 6,
			10 * time.Millisecond, 0, []string{"3 timeout", "3 timeout"}, 70 * time.Millisecond},
		{"a second by default", engine.GroupConfig{Size: 100}, 4, 400 * time.Millisecond, 0,
			[]string{"3 timeout", "1 end"}, 2 * time.Second},
		{"before the message that would overflow", engine.GroupConfig{Bytes: 20, Timeout: time.Hour}, 5, 0, 0,
			[]string{"2 bytes", "2 bytes", "1 end"}, 0},
		{"at once, while the step works", engine.GroupConfig{Size: 20, AtOnce: true}, 10, 10 * time.Millisecond,
			34 * time.Millisecond, []string{"1 timeout", "3 timeout", "3 timeout", "3 timeout"}, 150 * time.Millisecond},
		{"at once, up to its size", engine.GroupConfig{Size: 2, AtOnce: true}, 5, 10 * time.Millisecond, 45 * time.Millisecond,
			[]string{"1 timeout", "2 size", "2 size"}, 150 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				tt.c.Do = engine.Steps{proc("count", func(_ context.Context, b *engine.Batch) error {
					got = append(got, fmt.Sprint(b.Len(), " ", b.Trigger()))
					time.Sleep(tt.works)
					return nil
				})}
				src, dst := &Source{Payloads: numbers(tt.n), Every: tt.every, PerRead: 1}, &Sink{}
				p := pipe(src, dst, group(tt.c))
				p.Engine.Workers = 1
				began := time.Now()
				Run(t, p, nil)
				if !slices.Equal(got, tt.want) {
					t.Errorf("groups %q, want %q", got, tt.want)
				}
				if took := time.Since(began); took > tt.by+time.Millisecond {
					t.Errorf("took %v", took)
				}
				if !slices.Equal(dst.Bodies(), numbers(tt.n)) {
					t.Errorf("delivered %q", dst.Bodies())
				}
			})
		})
	}
}

func TestMessagesThatLeaveAGroupContinue(t *testing.T) {
	fails := func(class engine.Class, times int, bad string) engine.StepSpec {
		return Step("fails", func(_ context.Context, m *engine.Message) error {
			if string(m.Bytes()) == bad && times > 0 {
				times--
				return engine.Errorf(class, "no")
			}
			return nil
		})
	}
	mark := Step("mark", func(_ context.Context, m *engine.Message) error {
		m.SetBytes(append([]byte("<"), append(m.Bytes(), '>')...))
		return nil
	})
	refuse := Step("refuse", func(context.Context, *engine.Message) error { return errors.New("refused") })
	repaired := fails(engine.Permanent, 9, "b")
	repaired.OnError.Steps = engine.Steps{Step("mend",
		func(_ context.Context, m *engine.Message) error { m.SetBytes([]byte("B")); return nil })}
	second := group(engine.GroupConfig{Size: 10, Timeout: time.Hour, Do: engine.Steps{joined}})
	tests := []struct {
		name   string
		do     engine.Steps
		after  engine.Steps
		want   []string
		failed string // messages that are returned to their sources
	}{
		{"edited", engine.Steps{mark}, nil, []string{"<a>", "<b>", "<c>"}, ""},
		{"merged, and later steps see one message", engine.Steps{joined}, engine.Steps{mark}, []string{"<a+b+c>"}, ""},
		{"merged and split", engine.Steps{joined, proc("split", splitAt("+"))}, engine.Steps{mark},
			[]string{"<a>", "<b>", "<c>"}, ""},
		{"merged here and split in a lane", engine.Steps{joined}, engine.Steps{proc("split", splitAt("+")), mark},
			[]string{"<a>", "<b>", "<c>"}, ""},
		{"merged again in a second group", engine.Steps{proc("pairs", pairs)}, engine.Steps{mark, second},
			[]string{"<a+b>+<c>"}, ""},
		{"tried again", engine.Steps{fails(engine.Transient, 2, "b"), mark}, nil, []string{"<a>", "<c>", "<b>"}, ""},
		{"failed alone", engine.Steps{fails(engine.Permanent, 9, "b"), joined}, nil, []string{"a+c"}, "b"},
		{"repaired", engine.Steps{repaired, joined}, nil, []string{"a+B+c"}, ""},
		{"a panic fails what the step held", engine.Steps{fails(engine.Permanent, 9, "b"),
			Step("panics", func(context.Context, *engine.Message) error { panic("oh") })}, nil, nil, "abc"},
		{"a merge that fails later fails each of its parts", engine.Steps{joined}, engine.Steps{refuse}, nil, "abc"},
		{"parked in it", engine.Steps{Step("park",
			func(_ context.Context, m *engine.Message) error {
				m.Delay(time.Second)
				return nil
			}), mark}, nil, []string{"<a>", "<b>", "<c>"}, ""},
	}
	for _, tt := range tests {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, " ", ordered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src, dst := &Source{Payloads: []string{"a", "b", "c"}, Takes: engine.TakesOne}, &Sink{}
					steps := append(engine.Steps{group(engine.GroupConfig{Size: 3, Timeout: time.Hour, Do: tt.do})},
						tt.after...)
					p := pipe(src, dst, steps...)
					p.Engine.Workers = 1
					p.Engine.OnFailure.Retry = nil
					if ordered {
						p.Engine.OrderBy = expr.MustCompile("raw()")
					}
					rep := Run(t, p, nil)
					if got := dst.Bodies(); !slices.Equal(sorted(got), sorted(slices.Clone(tt.want))) {
						t.Errorf("delivered %q, want %q", got, tt.want)
					}
					for body, r := range src.Results() {
						if want := strings.Contains(tt.failed, body); want != (r.Fate == engine.Returned) || !want &&
							r.Fate != engine.Delivered {
							t.Errorf("%s ended %v", body, r.Fate)
						}
					}
					for _, c := range []engine.Counts{rep.Stats.Roots, rep.Stats.Pieces} {
						if !c.Balanced() || c.InFlight != 0 {
							t.Errorf("not accounted for: %+v", c)
						}
					}
				})
			})
		}
	}
}

func TestCopiesOfAMergeEndEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: []string{"a", "b"}, Takes: engine.TakesOne}
		good, bad := &Sink{}, &Sink{Fail: func(string) error { return engine.Errorf(engine.Rejected, "no") }}
		dead := &Sink{}
		p := pipe(src, good, group(engine.GroupConfig{Size: 2, Timeout: time.Hour, Do: engine.Steps{joined}}))
		p.Outputs = schema.MapOf(entry("good", good.Output()), entry("bad", bad.Output()), entry("dlq", dead.Output()))
		p.Engine.Workers = 1 // the order of the parts
		p.Batchers = Named("both", engine.BatcherSpec{Output: engine.Names{"bad", "good"}})
		p.Engine.OnFailure.DeadLetter = "dlq"
		p.Engine.MaxInFlight.Messages = 4
		rep := Run(t, p, nil)
		if !slices.Equal(good.Bodies(), []string{"a+b"}) || !slices.Equal(sorted(dead.Bodies()), []string{"a", "b"}) {
			t.Errorf("delivered %q, dead letters %q", good.Bodies(), dead.Bodies())
		}
		if c := rep.Stats.Pieces; !c.Balanced() || c.InFlight != 0 || c.Ended[engine.DeadLettered] != 2 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestAGroupLetsAFullPipelineContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ordered := range []bool{false, true} {
			src, dst := &Source{Payloads: numbers(100), Takes: engine.TakesOne}, &Sink{}
			p := pipe(src, dst, group(engine.GroupConfig{Size: 1000, Timeout: time.Hour, Do: engine.Steps{joined}}))
			p.Engine.MaxInFlight.Messages = 10
			if ordered {
				p.Engine.OrderBy = expr.MustCompile("1")
			}
			began := time.Now()
			Run(t, p, nil)
			if took := time.Since(began); took > time.Minute || len(src.Results()) != 100 {
				t.Errorf("ordered %v: took %v, %d ended", ordered, took, len(src.Results()))
			}
		}
	})
}

func TestMessagesOfOneKeyFillAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		count := proc("count", func(_ context.Context, b *engine.Batch) error {
			sizes = append(sizes, b.Len())
			return nil
		})
		src, dst := &Source{Payloads: numbers(1000), Every: time.Millisecond, PerRead: 1}, &Sink{}
		p := pipe(src, dst, group(engine.GroupConfig{Size: 100, Timeout: time.Hour, Do: engine.Steps{count}}))
		p.Engine.OrderBy = expr.MustCompile("1")
		Run(t, p, nil)
		if len(sizes) != 10 || !slices.Equal(dst.Bodies(), numbers(1000)) {
			t.Errorf("groups of %v", sizes)
		}
	})
}

func TestAGroupKeepsTheOrderOfEveryKey(t *testing.T) {
	const n, keys = 5_000, 20
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = fmt.Sprintf(`{"n":%d,"k":%d}`, i, rand.IntN(keys))
	}
	for _, size := range []int{1, 9, 256} {
		src, dst := &Source{Payloads: payloads, Takes: engine.TakesOne}, &Sink{}
		set := Step("set", func(_ context.Context, m *engine.Message) error { return m.Set(doc.Path{}.Append("z"), 1) })
		p := pipe(src, dst, group(engine.GroupConfig{Size: size, Timeout: time.Hour, Do: engine.Steps{set}}))
		p.Engine.Workers, p.Engine.OrderBy = 4, expr.MustCompile("k")
		Run(t, p, nil)
		var last [keys]int
		broken := 0
		for _, body := range dst.Bodies() {
			var at, k int
			if _, err := fmt.Sscanf(body, `{"n":%d,"k":%d`, &at, &k); err != nil {
				t.Fatal(err)
			}
			if at < last[k] {
				broken++
			}
			last[k] = at
		}
		if got := len(dst.Bodies()); broken > 0 || got != n {
			t.Errorf("groups of %d: %d of %d messages came, %d of them too late", size, got, n, broken)
		}
	}
}

func TestNothingOvertakesAMessageInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group(engine.GroupConfig{Size: 10, Timeout: time.Second,
			Do: engine.Steps{proc("nothing", func(context.Context, *engine.Batch) error { return nil })}})
		g.When = expr.MustCond("n % 2 == 0")
		src, dst := &Source{Payloads: numbers(25), Every: 100 * time.Millisecond, PerRead: 1}, &Sink{}
		p := pipe(src, dst, g)
		p.Engine.OrderBy = expr.MustCompile("1")
		Run(t, p, nil)
		if !slices.Equal(dst.Bodies(), numbers(25)) {
			t.Errorf("delivered %q", dst.Bodies())
		}
	})
}

// Each merged message has the keys of the other one's parts, in the opposite order.
func TestMergesThatCrossDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cross := proc("cross", func(_ context.Context, b *engine.Batch) error {
			all := slices.Collect(b.All())
			b.Merge([]byte("outer"), slices.Values([]*engine.Message{all[0], all[3]}))
			b.Merge([]byte("inner"), slices.Values([]*engine.Message{all[1], all[2]}))
			return nil
		})
		src := &Source{Payloads: []string{`{"k":1}`, `{"k":2}`, `{"k":1}`, `{"k":2}`}, Takes: engine.TakesOne}
		dst := &Sink{}
		p := pipe(src, dst, group(engine.GroupConfig{Size: 4, Timeout: time.Hour, Do: engine.Steps{cross}}))
		p.Engine.OrderBy = expr.MustCompile("k")
		Run(t, p, nil)
		if !slices.Equal(dst.Bodies(), []string{"outer", "inner"}) {
			t.Errorf("delivered %q", dst.Bodies())
		}
	})
}

func TestAGroupStandsOnlyAmongThePipelinesSteps(t *testing.T) {
	g := group(engine.GroupConfig{Size: 2, Do: engine.Steps{joined}})
	tests := []struct {
		name string
		put  func(p *engine.Pipeline)
		bad  bool
	}{
		{"there", func(p *engine.Pipeline) { p.Processors = engine.Steps{g} }, false},
		{"in a group", func(p *engine.Pipeline) {
			p.Processors = engine.Steps{group(engine.GroupConfig{Size: 2, Do: engine.Steps{g}})}
		}, true},
		{"in an input", func(p *engine.Pipeline) {
			src := &Source{}
			in := src.Input()
			in.Processors = engine.Steps{g}
			p.Inputs = Named("in", in)
		}, true},
		{"in a batcher", func(p *engine.Pipeline) {
			p.Batchers = Named("b", engine.BatcherSpec{Output: engine.Names{"out"}, Processors: engine.Steps{g}})
		}, true},
		{"in a step", func(p *engine.Pipeline) {
			p.Processors = engine.Steps{{Use: engine.Use(func(env engine.Env) (engine.Processor, error) {
				_, err := engine.Steps{g}.Build(env)
				return processor(nil), err
			})}}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pipe(&Source{}, &Sink{})
			tt.put(p)
			plan, problems := runtime.Build(p, runtime.Options{})
			if tt.bad != (plan == nil) || tt.bad &&
				(len(problems) == 0 || !strings.Contains(problems[0].String(), "group is not allowed here")) {
				t.Errorf("problems %v", problems)
			}
		})
	}
}
