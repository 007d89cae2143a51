package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Runner runs inner steps: those of `each`, for example. It is safe for
// concurrent use.
type Runner struct{ prog *program }

// Run runs the steps over b, which the caller has made with [NewBatch]. Splits and
// merges are carried out in place: afterwards b.All yields what came of them, in
// order, and b.Ended what was dropped or has failed. A step that parks a message
// fails it. The error is that of ctx.
func (r *Runner) Run(ctx context.Context, b *Batch) error {
	if b.in.Sel != nil {
		panic("engine: Runner.Run needs a batch of its own, made with NewBatch")
	}
	x := executor{prog: r.prog, own: inPlace{}}
	for i := range b.in.Msgs {
		b.in.Msgs[i].in.PC = 0
	}
	if out := x.exec(ctx, b, 0); out != b {
		*b = *out
	}
	b.refuseParked("another step")
	return ctx.Err()
}

// refuseParked fails what a step has parked where nothing could resume it.
func (b *Batch) refuseParked(where string) {
	for i := range b.in.Msgs {
		if m := &b.in.Msgs[i]; m.in.State == parked {
			m.in.Parking = nil
			m.failAt("", Errorf(Permanent, "a step that lets messages wait can't stand inside %s: write it under the pipeline's `processors`", where))
		}
	}
}

// inPlace owns messages that are nobody's account: parts stay together.
type inPlace struct{}

func (inPlace) merge(*Message) {}

func (inPlace) hold(*Batch, stage) {}

func (inPlace) gather(*Batch, []int32, *op) {}

func (inPlace) split(_ context.Context, x *executor, b *Batch, pc int32) *Batch {
	same := func(cur *Batch, _ bool) *Batch { return cur }
	return b.pull(b.like(), &x.prog.ops[pc], same, func(_, _ *Message) {}, func(*Message, int) {})
}

// Build compiles inner steps, for a plugin's build function.
func (s Steps) Build(env Env) (*Runner, error) {
	b := env.builder
	if b == nil { // outside of a pipeline, in tests
		b = &builder{spec: &Pipeline{}, plan: &Plan{}, env: env}
		b.env.builder = b
		if env.Log == nil {
			b.env.Log = slog.New(slog.DiscardHandler)
		}
	}
	before, inner := len(b.problems), b.inner
	b.inner = true
	r := &Runner{prog: b.assemble(s)}
	b.inner = inner
	if len(b.problems) == before {
		return r, nil
	}
	if env.builder == nil {
		return nil, errors.New(b.problems[before].String())
	}
	return nil, errReported
}

// NewRunner makes a Runner of processors, one after the other.
func NewRunner(steps ...Processor) *Runner {
	p := &program{}
	for i, s := range steps {
		p.ops = append(p.ops, op{run: s, next: int32(i + 1), timeout: time.Minute, figures: newStepFigures("", "")})
	}
	return &Runner{prog: p}
}
