package steps

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// inPlace owns messages that are in no ledger. The parts of a split stay in one batch.
type inPlace struct{}

func (inPlace) Merge(*engine.Message) {}

func (inPlace) Hold(*engine.Batch, inside.Stage) {}

func (inPlace) Gather(*engine.Batch, []int32, *Op) {}

func (inPlace) Split(_ context.Context, x *Executor, b *engine.Batch, pc int32) *engine.Batch {
	same := func(cur *engine.Batch, _ bool) *engine.Batch { return cur }
	return Pull(b, slab(b).Like(), &x.Prog.Ops[pc], same, func(_, _ *engine.Message) {}, func(*engine.Message, int) {})
}

// Runner runs steps inside another step.
type Runner struct {
	Prog  *Program
	Sight Sight // of the pipeline that the other step belongs to; only to be copied
}

// Run implements [engine.Runner].
func (r *Runner) Run(ctx context.Context, b *engine.Batch) error {
	if slab(b).Sel != nil {
		panic("engine: Runner.Run needs its own batch, made with NewBatch")
	}
	x := Executor{Prog: r.Prog, Own: inPlace{}, Sight: r.Sight}
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).PC = 0
	}
	if out := x.Exec(ctx, b, 0); out != b {
		*slab(b) = *slab(out)
	}
	refuseParked(b, "another step")
	return ctx.Err()
}

// refuseParked fails messages that a step has parked where nothing could resume them.
func refuseParked(b *engine.Batch, where string) {
	for i := range slab(b).Msgs {
		if m := &slab(b).Msgs[i]; msg(m).State == inside.Parked {
			msg(m).Parking = nil
			FailAt(m, "", engine.Errorf(engine.Permanent,
				"a step that makes messages wait is not allowed inside %s: write it under the pipeline's `processors`",
				where))
		}
	}
}
