package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

// groups is a source with message groups. It delivers up to ten messages of a group in a Read, and the next ones only after all of
// these have ended. Returned messages are redelivered first, in order.
type groups struct {
	mu   sync.Mutex // guards the fields below
	all  []string   // "group:number"
	out  map[int]bool
	done map[int]bool
	wake chan struct{}
	why  []error // errors of messages that were returned because of an earlier one
}

func newGroups(n int, names ...string) *groups {
	g := &groups{out: map[int]bool{}, done: map[int]bool{}, wake: make(chan struct{}, 1)}
	for i := range n {
		for _, name := range names {
			g.all = append(g.all, fmt.Sprintf("%s:%d", name, i))
		}
	}
	return g
}

func (g *groups) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesOne, Withholds: true}
}

func (g *groups) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for {
		if n, over := g.read(b); n > 0 || over {
			if over {
				return g, engine.ErrEnd
			}
			return g, nil
		}
		select {
		case <-g.wake:
		case <-ctx.Done():
			return g, nil
		}
	}
}

func (g *groups) read(b *engine.Batch) (n int, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := map[string]bool{}
	for i := range g.out {
		shut[groupOf(g.all[i])] = true
	}
	for i, body := range g.all {
		if !shut[groupOf(body)] && !g.done[i] && n < 10 && b.Room() > 0 {
			b.Add([]byte(body)).Ref = uint64(i)
			g.out[i] = true
			n++
		}
	}
	return n, len(g.done) == len(g.all)
}

func (g *groups) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range rs {
		delete(g.out, int(r.Ref))
		g.done[int(r.Ref)] = r.Fate != engine.Returned
		if r.Fate == engine.Returned {
			delete(g.done, int(r.Ref))
			if errors.Is(r.Err, engine.ErrBehind) {
				g.why = append(g.why, r.Err)
			}
		}
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return nil, nil
}

func groupOf(body string) string {
	name, _, _ := strings.Cut(body, ":")
	return name
}

// failsAtFirst fails every nth message of a group at its first deliveries.
func failsAtFirst(n, times int) func(body string) error {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(body string) error {
		mu.Lock()
		defer mu.Unlock()
		var number int
		_, _ = fmt.Sscan(body[strings.Index(body, ":")+1:], &number)
		if seen[body]++; number%n == n-1 && seen[body] <= times {
			return engine.Errorf(engine.Permanent, "not now")
		}
		return nil
	}
}

// stopsAtIt is an output that does not write messages after a failed message of their group.
type stopsAtIt struct {
	*Sink
	fail func(body string) error
}

func (stopsAtIt) Traits() engine.Traits { return engine.Traits{Sequential: true} }

func (o stopsAtIt) Write(ctx context.Context, b *engine.Batch) error {
	shut := map[string]bool{}
	for m := range b.All() {
		in := groupOf(string(m.Bytes()))
		if shut[in] {
			m.Fail(engine.ErrBehind)
		} else if err := o.fail(string(m.Bytes())); err != nil {
			m.Fail(err)
			shut[in] = true
		}
	}
	return o.Sink.Write(ctx, b)
}

func TestWhatIsBehindAReturnedMessageGoesBackToASourceThatWithholds(t *testing.T) {
	step := func(fail func(string) error) engine.StepSpec {
		return Step("check", func(ctx context.Context, m *engine.Message) error {
			time.Sleep(time.Millisecond) // other messages of the slab are in other lanes
			return fail(string(m.Bytes()))
		})
	}
	inBatches := func(p *engine.Pipeline, steps ...engine.StepSpec) {
		all := batched(t, `{"size": 7, "timeout": "10ms"}`, "out")
		all.Processors = steps
		p.Batchers = Named("all", all)
	}
	tests := []struct {
		name string
		edit func(p *engine.Pipeline, dst *Sink, fail func(string) error)
	}{
		{"a step fails it", func(p *engine.Pipeline, _ *Sink, fail func(string) error) {
			p.Processors = []engine.StepSpec{step(fail)}
		}},
		{"the output fails it", func(_ *engine.Pipeline, dst *Sink, fail func(string) error) { dst.Fail = fail }},
		{"the output fails it in a batch", func(p *engine.Pipeline, dst *Sink, fail func(string) error) {
			dst.Fail = fail
			inBatches(p)
		}},
		{"an output that stops at it", func(p *engine.Pipeline, dst *Sink, fail func(string) error) {
			p.Outputs = Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) {
				return stopsAtIt{dst, fail}, nil
			})})
			inBatches(p)
		}},
		{"a step of a batch fails it", func(p *engine.Pipeline, _ *Sink, fail func(string) error) {
			inBatches(p, step(fail))
		}},
		{"it is tried again before", func(p *engine.Pipeline, dst *Sink, fail func(string) error) {
			p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 2, Backoff: 20 * time.Millisecond}
			dst.Fail = func(body string) error {
				if err := fail(body); err != nil {
					return engine.WithClass(engine.Transient, err)
				}
				return nil
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := newGroups(30, "a", "b", "c"), &Sink{}
				p := &engine.Pipeline{
					Name: "test", Outputs: Named("out", dst.Output()),
					Inputs: Named("in",
						engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}),
					Engine: engine.EngineSpec{Workers: 4, OrderBy: expr.MustCompile(`split(raw(), ":")[0]`),
						OnFailure: once},
				}
				p.Engine.OnFailure.Then.Word = "return"
				tt.edit(p, dst, failsAtFirst(4, 3))
				rep := Run(t, p, context.Background())
				next := map[string]int{}
				for _, body := range dst.Bodies() {
					if want := fmt.Sprintf("%s:%d", groupOf(body), next[groupOf(body)]); body != want {
						t.Errorf("delivered %s, want %s", body, want)
					}
					next[groupOf(body)]++
				}
				if c := rep.Stats.Roots; len(dst.Bodies()) != 90 || !c.Balanced() || c.Ended[engine.Returned] == 0 ||
					len(src.why) == 0 {
					t.Errorf("delivered %d, %+v, %d behind others", len(dst.Bodies()), c, len(src.why))
				}
			})
		})
	}
}

func TestOtherKeysContinueBesideAReturnedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := newGroups(5, "a", "b"), &Sink{}
		fail := failsAtFirst(5, 1)
		dst.Fail = func(body string) error {
			if groupOf(body) == "a" {
				return fail(body)
			}
			return nil
		}
		p := pipe(&Source{}, dst)
		p.Inputs = Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
		p.Engine.OrderBy, p.Engine.OnFailure.Then.Word = expr.MustCompile(`split(raw(), ":")[0]`), "return"
		rep := Run(t, p, context.Background())
		if c := rep.Stats.Roots; c.Ended[engine.Returned] != 1 || len(dst.Bodies()) != 10 {
			t.Errorf("%+v, delivered %q", c, slices.Sorted(slices.Values(dst.Bodies())))
		}
	})
}
