package engine

import (
	"context"
	"errors"
	"log/slog"
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
