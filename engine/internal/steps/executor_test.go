package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

func cell(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }

func slab(b *engine.Batch) *engine.Slab { return b.Inside(inside.Key{}) }

// owner records the calls of an executor.
type owner struct {
	steps.Owner
	held     int
	gathered []string
}

func (o *owner) Hold(*engine.Batch, inside.Stage) { o.held++ }
func (*owner) Split(_ context.Context, x *steps.Executor, b *engine.Batch, pc int32) *engine.Batch {
	same := func(cur *engine.Batch, _ bool) *engine.Batch { return cur }
	return steps.Pull(b, slab(b).Like(), &x.Prog.Ops[pc], same, func(_, _ *engine.Message) {}, func(*engine.Message, int) {})
}
func (o *owner) Gather(b *engine.Batch, sel []int32, _ *steps.Op) {
	for _, i := range sel {
		o.gathered = append(o.gathered, string(slab(b).Msgs[i].Bytes()))
		cell(&slab(b).Msgs[i]).State = inside.Moved
	}
}

// resume lets waiting messages continue.
func resume(b *engine.Batch) {
	for i := range slab(b).Msgs {
		if c := cell(slab(b).Nth(i)); c.State == inside.Waits {
			c.State, c.Err = inside.Live, nil
		}
	}
}

func bodies(b *engine.Batch) (all []string) {
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	return all
}

// flaky fails payloads with "bad" the first few times.
func flaky(times int, err func() error) engine.StepSpec {
	return Step("flaky", func(_ context.Context, m *engine.Message) error {
		if !bytes.Contains(m.Bytes(), []byte("bad")) {
			return nil
		}
		if times--; times >= 0 {
			m.SetBytes([]byte("half done"))
			return err()
		}
		return nil
	})
}

func transient() error { return engine.Errorf(engine.Transient, "busy") }

func TestAStepIsTriedAgainWhereItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prog := build(t, add("1"), flaky(3, transient), add("2")).Prog
		prog.Ops[1].Retry = &retry.Plan{MaxAttempts: 3, Intervals: []time.Duration{time.Second, time.Minute}}
		own := &owner{}
		x := steps.Executor{Prog: prog, Own: own, Stage: inside.InBatch}
		b := Batch("bad", "ok")
		x.Exec(t.Context(), b, 0)
		m := slab(b).Nth(0)
		for n, wait := range []time.Duration{time.Second, time.Minute} {
			tr := retry.TrialOf(m)
			if cell(m).State != inside.Waits || cell(m).Stage != inside.InBatch || string(m.Bytes()) != "bad1" || own.held != n+1 ||
				tr.Tries() != n+1 || tr.Due != time.Now().Add(wait) {
				t.Errorf("after %d tries: state %d, stage %d, payload %s, held %d times, trial %+v", n+1, cell(m).State, cell(m).Stage,
					m.Bytes(), own.held, tr)
			}
			resume(b)
			x.Exec(t.Context(), b, 0)
		}
		err := cell(m).Err
		if cell(m).State != inside.Failed || err.Attempt != 3 || err.Step != "flaky" || err.Class != engine.Transient {
			t.Errorf("it has failed as %+v", err)
		}
		if got := bodies(b); !slices.Equal(got, []string{"ok12"}) {
			t.Errorf("got %q, want the other message alone", got)
		}
		if f := prog.Ops[1].Figures.Read(); f.In != 4 || f.Failed != 3 {
			t.Errorf("the step counts %+v", f)
		}
	})
}

func TestABlockIsTriedAgainFromItsBeginning(t *testing.T) {
	prog := build(t, cases("block", goesOn, when("", add("1"), flaky(1, transient))), add("2")).Prog
	prog.Ops[0].Retry = &retry.Plan{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
	b := Batch("bad")
	x := steps.Executor{Prog: prog, Own: &owner{}}
	x.Exec(t.Context(), b, 0)
	if m := slab(b).Nth(0); cell(m).State != inside.Waits || string(m.Bytes()) != "bad" {
		t.Errorf("state %d, payload %s, want one that waits as it came", cell(m).State, m.Bytes())
	}
	resume(b)
	x.Exec(t.Context(), b, 0)
	if got := bodies(b); !slices.Equal(got, []string{"bad12"}) {
		t.Errorf("got %q, want the steps of the block once", got)
	}
}

func TestAPartDoesNotRepeatItsBlock(t *testing.T) {
	prog := build(t, cases("block", goesOn, when("", split, flaky(1, transient))), add("!")).Prog
	prog.Ops[0].Retry = &retry.Plan{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
	b := (&steps.Executor{Prog: prog, Own: &owner{}}).Exec(t.Context(), Batch("a,bad"), 0)
	if got := bodies(b); !slices.Equal(got, []string{"a!", "bad!"}) {
		t.Errorf("got %q, want both parts to continue", got)
	}
}

func TestOnlyFailuresThatMayPassAreTriedAgain(t *testing.T) {
	for class, again := range map[engine.Class]bool{engine.Transient: true, engine.Timeout: true, engine.Permanent: false,
		engine.Rejected: false, engine.Panicked: false} {
		prog := build(t, flaky(1, func() error { return engine.Errorf(class, "no") })).Prog
		prog.Ops[0].Retry = &retry.Plan{MaxAttempts: 2, Intervals: []time.Duration{time.Second}}
		b := Batch("bad")
		(&steps.Executor{Prog: prog, Own: &owner{}}).Exec(t.Context(), b, 0)
		if got := cell(slab(b).Nth(0)).State == inside.Waits; got != again {
			t.Errorf("class %s is tried again: %v, want %v", class, got, again)
		}
	}
}

func TestAStepHasUntilItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := Step("slow", func(ctx context.Context, _ *engine.Message) error { <-ctx.Done(); return ctx.Err() })
		slow.Timeout = time.Minute
		began := time.Now()
		wantRun(t, []engine.StepSpec{slow}, []string{"a"}, []string{"failed a: slow: timeout: context deadline exceeded"})
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestMessagesOfAGroupLeaveTheProgram(t *testing.T) {
	prog := build(t, guarded(`raw() != "b"`, add("1")), add("2")).Prog
	prog.Ops[0].Group = 1
	own := &owner{}
	b := Batch("a", "b", "c")
	(&steps.Executor{Prog: prog, Own: own}).Exec(t.Context(), b, 0)
	if got := bodies(b); !slices.Equal(got, []string{"b2"}) || !slices.Equal(own.gathered, []string{"a", "c"}) {
		t.Errorf("the group got %q, and %q went on", own.gathered, got)
	}
}

func TestMiddlewareWrapsEveryRun(t *testing.T) {
	var calls []string
	wrap := func(name string, err error) engine.Middleware {
		return func(next engine.Processor) engine.Processor {
			return Func(func(ctx context.Context, b *engine.Batch) error {
				calls = append(calls, name)
				return errors.Join(next.Process(ctx, b), err)
			})
		}
	}
	x := steps.Executor{Prog: build(t, add("1")).Prog, Own: &owner{},
		Wrap: []engine.Middleware{wrap("outer", nil), wrap("inner", nil)}}
	for range 2 {
		if got := bodies(x.Run(t.Context(), Batch("a"))); !slices.Equal(got, []string{"a1"}) {
			t.Errorf("got %q", got)
		}
	}
	if want := []string{"outer", "inner", "outer", "inner"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	x = steps.Executor{Prog: x.Prog, Own: &owner{}, Wrap: []engine.Middleware{wrap("fails", errors.New("no"))}}
	for m := range x.Run(t.Context(), Batch("a")).Ended() {
		if err := m.Err(); err.Step != "middleware" || err.Class != engine.Permanent {
			t.Errorf("failed as %+v", err)
		}
	}
}

// Func is a processor of whole batches.
type Func func(context.Context, *engine.Batch) error

func (f Func) Process(ctx context.Context, b *engine.Batch) error { return f(ctx, b) }

// TestTheLogOfAWaitingStep uses a step whose server is unreachable, for two reasons, or refuses requests.
func TestTheLogOfAWaitingStep(t *testing.T) {
	tests := []struct {
		name string
		errs []string // every second; "" is success
		want []string
	}{
		{"two reasons", []string{"refused", "refused", "no such host", "no such host", ""},
			[]string{"step waiting err=refused", "error has changed err=no such host", "reaches its server"}},
		{"the next outage within a minute", []string{"refused", "", "refused", ""}, []string{"step waiting err=refused", "reaches its server"}},
		{"a failure of its own", []string{"-busy", "-busy", ""}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := 0
				prog := build(t, Step("ask", func(context.Context, *engine.Message) error {
					switch why := tt.errs[n]; {
					case why == "":
						return nil
					case why[0] == '-':
						return engine.Errorf(engine.Transient, "%s", why)
					default:
						return &engine.Error{Class: engine.Transient, Holds: true, Err: errors.New(why)}
					}
				})).Prog
				prog.Ops[0].Retry = &retry.Plan{Intervals: []time.Duration{time.Second}}
				prog.Ops[0].Figures = steps.NewStepFigures("ask", "", slog.New(slog.NewTextHandler(&log, nil)))
				x := steps.Executor{Prog: prog, Own: &owner{}}
				for ; n < len(tt.errs); n++ {
					x.Exec(t.Context(), Batch("a"), 0)
					time.Sleep(time.Second)
				}
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				if log.Len() == 0 {
					lines = nil
				}
				ok := len(lines) == len(tt.want)
				for i := range min(len(lines), len(tt.want)) {
					for part := range strings.SplitSeq(tt.want[i], " err=") {
						ok = ok && strings.Contains(lines[i], part)
					}
				}
				if !ok {
					t.Errorf("the log says\n%s\nwant %q", &log, tt.want)
				}
			})
		})
	}
}

// nested is a step that runs steps over the parts of a payload, and joins the results. If it is named "forgetful", it does not
// release the memory of the parts.
func nested(name string, do ...engine.StepSpec) engine.StepSpec {
	return engine.StepSpec{Name: name, Use: engine.Use(func(env engine.Env) (engine.Processor, error) {
		inner, err := engine.Steps(do).Build(env)
		if err != nil {
			return nil, err
		}
		return engine.ProcessorFunc(func(ctx context.Context, m *engine.Message) error {
			all := strings.Split(string(m.Bytes()), ",")
			b := engine.NewBatch(len(all))
			if name != "forgetful" {
				defer b.Free()
			}
			for _, body := range all {
				b.Add([]byte(body)).Within(m)
			}
			if err := inner.Run(ctx, b); err != nil {
				return err
			}
			for part := range b.Ended() {
				if err := part.Err(); err != nil {
					return fmt.Errorf("part %s: %w", part.Bytes(), err)
				}
			}
			m.SetBytes([]byte(strings.Join(bodies(b), ",")))
			return nil
		}), nil
	})}
}

func TestStepsRunInsideOthers(t *testing.T) {
	in := []string{"a,b", "c,bad"}
	park := Step("park", func(_ context.Context, m *engine.Message) error { m.Delay(time.Second); return nil })
	continued := nested("each", breaks("bad"))
	continued.OnError = goesOn
	tests := []struct {
		name  string
		steps []engine.StepSpec
		want  []string
	}{
		{"over parts", []engine.StepSpec{nested("each", add("1")), add("2")}, []string{"a1,b12", "c1,bad12"}},
		{"parts that are dropped", []engine.StepSpec{nested("each", drops("bad"))}, []string{"a,b", "c"}},
		{"a part that fails", []engine.StepSpec{nested("each", add("1"), breaks("bad"))},
			[]string{"a1,b1", "failed c,bad: breaks: permanent: part half done: no"}},
		{"on_error of the step outside", []engine.StepSpec{continued}, []string{"a,b", "c,bad"}},
		{"on_error of a block inside", []engine.StepSpec{nested("each", cases("block", goesOn, when("", add("1"), breaks("bad"))))},
			[]string{"a1,b1", "c1,bad"}},
		{"splits and merges inside", []engine.StepSpec{nested("each", merge, add("1"))}, []string{"a+b1", "c+bad1"}},
		{"inside others", []engine.StepSpec{nested("outer", nested("inner", add("1")), add("2"))}, []string{"a12,b12", "c12,bad12"}},
		{"a step that parks", []engine.StepSpec{nested("each", guarded(`raw() == "bad"`, park))},
			[]string{"a,b", "failed c,bad: each: permanent: part bad: a step that makes messages wait is not allowed inside " +
				"another step: write it under the pipeline's `processors`"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRun(t, tt.steps, in, tt.want) })
	}
}

// staker stakes on the message that it is inside of.
type staker struct{ undone []uint64 }

func (s *staker) Process(_ context.Context, b *engine.Batch) error {
	n := uint64(0)
	for m := range b.All() {
		n++
		m.StakeOnDelivery(s, n)
	}
	return nil
}
func (*staker) Traits() engine.Traits                      { return engine.Traits{Undoes: true} }
func (*staker) Settle(context.Context, []uint64, []uint64) {}
func (s *staker) Undo(refs []uint64)                       { s.undone = append(s.undone, refs...) }

func TestStakesInsideAFailedStepAreUndone(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail engine.StepSpec
		want []uint64
	}{
		{"it fails", breaks("bad"), []uint64{1}},
		{"it succeeds", add(""), nil},
	} {
		s := &staker{}
		run(t, []engine.StepSpec{nested("outer", nested("inner", use("stake", s)), tt.fail)}, "bad")
		if !slices.Equal(s.undone, tt.want) {
			t.Errorf("%s: undone %v, want %v", tt.name, s.undone, tt.want)
		}
	}
}

// room makes an executor of steps whose messages may use limit bytes together, of which some are free.
func room(t *testing.T, limit, free int, list ...engine.StepSpec) (x *steps.Executor, b *engine.Batch, left func() int) {
	c := &flow.Credits{Msgs: 1000, Bytes: free, Most: 1000, Starved: func() {}, Upstream: func() bool { return true }}
	x = &steps.Executor{Prog: build(t, list...).Prog, Own: &owner{}, Room: &steps.Room{Credits: c, Limit: limit}}
	b = Batch("bad")
	slab(b).Arena.Owner = x.Room
	for m := range b.All() {
		cell(m).Orig, cell(m).Charge = m.Bytes(), 3
	}
	return x, b, func() int { return free - c.Used(free) }
}

// grow requests n bytes and uses them.
func grow(n int) engine.StepSpec {
	return Step("grow", func(_ context.Context, m *engine.Message) error {
		if err := m.Grow(n); err != nil {
			return err
		}
		m.SetBytes(make([]byte, n))
		return nil
	})
}

func TestGrowthInStepsNeedsCredits(t *testing.T) {
	const kib = 1 << 10
	takes := Step("takes", func(_ context.Context, m *engine.Message) error { m.SetBytes(make([]byte, 50*kib)); return nil })
	shrinks := Step("shrinks", func(_ context.Context, m *engine.Message) error { m.SetBytes(nil); return nil })
	tests := []struct {
		name  string
		steps []engine.StepSpec
		state inside.State
		left  int // free KiB of 100, rounded down
	}{
		{"what it asks for", []engine.StepSpec{grow(50 * kib)}, inside.Live, 49},
		{"what it takes without asking", []engine.StepSpec{takes}, inside.Live, 49},
		{"what is not free", []engine.StepSpec{add("1"), grow(101 * kib)}, inside.Waits, 99},
		{"what is beyond all room", []engine.StepSpec{grow(300 * kib)}, inside.Failed, 99},
		{"what inner steps made", []engine.StepSpec{nested("each", grow(50*kib), shrinks)}, inside.Live, 99},
		{"what inner steps made and kept", []engine.StepSpec{nested("forgetful", grow(50*kib), shrinks)}, inside.Live, 99},
		{"what inner steps can't get", []engine.StepSpec{nested("each", grow(101*kib))}, inside.Waits, 99},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, b, left := room(t, 200*kib, 100*kib, tt.steps...)
			x.Exec(t.Context(), b, 0)
			m := slab(b).Nth(0)
			if got := left() / kib; cell(m).State != tt.state || got != tt.left && got != tt.left+1 {
				t.Errorf("state %d with %d KiB left (%v), want %d with %d", cell(m).State, got, cell(m).Err, tt.state, tt.left)
			}
			if tt.state == inside.Failed && cell(m).Err.Class != engine.TooLarge {
				t.Errorf("failed as %+v", cell(m).Err)
			}
		})
	}
}

// A message that waits for memory is unchanged. The memory that it gets is for its step, which then requests no more.
func TestAMessageThatWaitedUsesItsRoom(t *testing.T) {
	x, b, left := room(t, 200_000, 10_000, add("1"), grow(50_000))
	x.Exec(t.Context(), b, 0)
	m, before := slab(b).Nth(0), left()
	if tr := retry.TrialOf(m); string(m.Bytes()) != "bad1" || !steps.ForRoom(tr) || tr.Lacked < 49_000 {
		t.Fatalf("payload %s, trial %+v", m.Bytes(), tr)
	}
	lacked := retry.TrialOf(m).Lacked
	retry.TrialOf(m).Room = lacked
	cell(m).Charge += lacked
	resume(b)
	x.Exec(t.Context(), b, 0)
	if cell(m).State != inside.Live || len(m.Bytes()) != 50_000 || left() < before {
		t.Errorf("state %d, %d bytes, %d left of %d: %v", cell(m).State, len(m.Bytes()), left(), before, cell(m).Err)
	}
}

func TestAStepThatAlwaysNeedsMoreRoomFails(t *testing.T) {
	x, b, _ := room(t, 200_000, 10_000, grow(50_000))
	m := slab(b).Nth(0)
	for n := 0; cell(m).State == inside.Live && n < 1000; n++ {
		x.Exec(t.Context(), b, 0)
		resume(b)
	}
	if cell(m).State != inside.Failed || cell(m).Err.Class != engine.TooLarge {
		t.Errorf("state %d, error %v", cell(m).State, cell(m).Err)
	}
}
