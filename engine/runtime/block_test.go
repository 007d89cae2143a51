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
	"github.com/flowd-io/flowd/engine/runtime"
)

// together is a switch with a single case that matches all messages.
func together(on engine.OnError, do ...engine.StepSpec) engine.StepSpec {
	return engine.StepSpec{Name: "block", OnError: on, Use: engine.Use(func(engine.Env) (engine.Processor, error) {
		return engine.Block{Cases: []engine.Case{{Do: do}}}, nil
	})}
}

// add appends text to a payload.
func add(text string) engine.StepSpec {
	return Step("add "+text, func(_ context.Context, m *engine.Message) error {
		m.SetBytes([]byte(string(m.Bytes()) + text))
		m.Meta = m.Meta.With("added", text)
		return nil
	})
}

// breaks fails payloads that contain text.
func breaks(text string) engine.StepSpec {
	return Step("breaks", func(_ context.Context, m *engine.Message) error {
		if strings.Contains(string(m.Bytes()), text) {
			return errors.New("no")
		}
		return nil
	})
}

var (
	goesOn  = engine.OnError{Then: "continue"}
	repairs = engine.OnError{Steps: engine.Steps{Step("repair", func(_ context.Context, m *engine.Message) error {
		if m.Err() == nil {
			return errors.New("there is no error to repair")
		}
		m.SetBytes([]byte(string(m.Bytes()) + "?" + m.Err().Step))
		return nil
	})}}
)

// Blocks without groups are tested in package steps.
func TestABlockThatFailsLeavesItsMessageAsItWas(t *testing.T) {
	later := proc("park", func(_ context.Context, b *engine.Batch) error {
		for m := range b.All() {
			body := string(m.Bytes())
			resume := m.Park()
			time.AfterFunc(time.Second, func() {
				resume(func(m *engine.Message) error {
					m.SetBytes([]byte(body + "p"))
					if strings.Contains(body, "bad") {
						return errors.New("no")
					}
					return nil
				})
			})
		}
		return nil
	})
	grouped := func(on engine.OnError, do ...engine.StepSpec) engine.StepSpec {
		s := group(engine.GroupConfig{Size: 2, Timeout: time.Second, Do: do})
		s.OnError = on
		return s
	}
	tests := []struct {
		name  string
		steps []engine.StepSpec
		in    []string
		want  []string // delivered, by text
		fates map[engine.Fate]int64
	}{
		{"what was parked inside", []engine.StepSpec{together(goesOn, add("1"), later, add("2"))},
			[]string{"ok", "bad"}, []string{"bad!", "ok1p2!"}, nil},
		{"a group", []engine.StepSpec{grouped(goesOn, add("1"), breaks("bad"))}, []string{"ok", "bad"},
			[]string{"bad!", "ok1!"}, nil},
		{"a group with a repair", []engine.StepSpec{grouped(repairs, add("1"), breaks("bad"))}, []string{"ok", "bad"},
			[]string{"bad?breaks!", "ok1!"}, nil},
		{"a group whose merge fails", []engine.StepSpec{grouped(goesOn, add("1"), joined, breaks("bad"))},
			[]string{"ok", "bad"}, []string{"bad!", "ok!"}, nil},
		{"a merge that fails behind its group", []engine.StepSpec{together(goesOn, add("1"),
			grouped(engine.OnError{}, joined), breaks("bad"))}, []string{"ok", "bad"}, []string{"bad!", "ok!"}, nil},
		{"a group in a block", []engine.StepSpec{together(goesOn, add("1"), grouped(engine.OnError{}, add("2"),
			breaks("bad")), add("3"))}, []string{"ok", "bad"}, []string{"bad!", "ok123!"}, nil},
		{"a block in a group", []engine.StepSpec{grouped(engine.OnError{Then: "drop"}, add("1"),
			together(goesOn, add("2"), breaks("bad")))}, []string{"ok", "bad"}, []string{"bad1!", "ok12!"}, nil},
		{"a block in which two of a group are merged",
			[]engine.StepSpec{grouped(engine.OnError{}, add("1"), together(goesOn, add("2"), joined, breaks("bad")))},
			[]string{"ok", "bad"}, []string{"bad1!", "ok1!"}, nil},
		{"a merge that comes to a block", []engine.StepSpec{grouped(engine.OnError{}, joined,
			together(goesOn, add("2"), breaks("bad")))}, []string{"ok", "bad"}, []string{"ok+bad!"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, dst := &Source{Payloads: tt.in, Takes: engine.TakesOne}, &Sink{}
				end := Step("end", func(_ context.Context, m *engine.Message) error {
					if m.Err() != nil {
						return errors.New("the error was not forgotten")
					}
					m.SetBytes([]byte(string(m.Bytes()) + "!"))
					return nil
				})
				p := pipe(src, dst, append(tt.steps, end)...)
				p.Engine.Workers = 1
				rep := Run(t, p, nil)
				if got := sorted(dst.Bodies()); !slices.Equal(got, tt.want) {
					t.Errorf("delivered %q, want %q", got, tt.want)
				}
				if tt.fates == nil {
					tt.fates = map[engine.Fate]int64{engine.Delivered: int64(len(tt.in))}
				}
				for f, n := range tt.fates {
					if ended(rep, f) != n {
						t.Errorf("ends %v, want %d %v", rep.Stats.Roots.Ended, n, f)
					}
				}
			})
		})
	}
}

func TestABlockIsTriedAgainFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, dst := &Source{Payloads: []string{"a"}, Takes: engine.TakesOne}, &Sink{}
		tries, inner := 0, 0
		once := engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
		flaky := Step("flaky", func(_ context.Context, m *engine.Message) error {
			if inner++; inner < 6 {
				return engine.Errorf(engine.Transient, "not yet")
			}
			return nil
		})
		flaky.Retry = &once
		count := Step("count", func(context.Context, *engine.Message) error { tries++; return nil })
		b := together(goesOn, count, add("1"), flaky)
		b.Retry = &engine.Retry{MaxAttempts: 3, Intervals: []time.Duration{time.Minute}}
		began := time.Now()
		Run(t, pipe(src, dst, b), nil)
		if got := dst.Bodies(); !slices.Equal(got, []string{"a1"}) || tries != 3 || inner != 6 {
			t.Errorf("delivered %q after %d tries of the block and %d of the step, want a1, 3 and 6", got, tries, inner)
		}
		if took := time.Since(began).Round(time.Second); took != 2*time.Minute+3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestABlockWithAGroupIsNotTriedAgain(t *testing.T) {
	b := together(engine.OnError{}, group(engine.GroupConfig{Size: 2, Do: engine.Steps{add("1")}}))
	b.Retry = &engine.Retry{MaxAttempts: 3}
	_, problems := runtime.Build(pipe(&Source{}, &Sink{}, b), runtime.Options{})
	if len(problems) != 1 || problems[0].Code != "inner-retry" {
		t.Errorf("problems %v", problems)
	}
}

// Messages that leave a block early, late or through a repair keep the order of their key.
func TestBlocksKeepTheOrderOfAKey(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			var in []string
			for i := range 300 {
				in = append(in, fmt.Sprintf(`{"k":%d,"n":%d,"bad":%v,"slow":%v}`, i*7%5, i, (i*(seed+3))%7 == 0,
					(i*(seed+5))%11 == 0))
			}
			src, dst := &Source{Payloads: in, Takes: engine.TakesOne, PerRead: 1 + seed*3}, &Sink{}
			var tried sync.Map
			slow := Step("slow", func(_ context.Context, m *engine.Message) error {
				body := string(m.Bytes())
				if _, again := tried.LoadOrStore(body, true); strings.Contains(body, `"slow":true`) && !again {
					return engine.Errorf(engine.Transient, "later")
				}
				return nil
			})
			once := engine.Retry{MaxAttempts: 1}
			slow.Retry = &once
			retried := together(goesOn, add(" "), slow, breaks(`"bad":true`))
			retried.Retry = &engine.Retry{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
			p := pipe(src, dst, retried, together(engine.OnError{Steps: engine.Steps{add(" ")}}, breaks(`"bad":true`)))
			p.Engine.Workers = 4
			p.Engine.OrderBy = expr.MustCompile("k")
			Run(t, p, nil)
			wantOrder(t, dst.Bodies(), len(in))
		})
	}
}

func wantOrder(t *testing.T, bodies []string, n int) {
	t.Helper()
	last := map[int]int{}
	for _, body := range bodies {
		var k, at int
		if _, err := fmt.Sscanf(body, `{"k":%d,"n":%d`, &k, &at); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if before, seen := last[k]; seen && at < before {
			t.Errorf("key %d: %d was delivered behind %d", k, at, before)
		}
		last[k] = at
	}
	if len(bodies) != n {
		t.Errorf("%d were delivered, want %d", len(bodies), n)
	}
}
