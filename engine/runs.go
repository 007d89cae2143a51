package engine

import "context"

// inPlace owns messages that are nobody's account: parts stay together.
type inPlace struct{}

func (inPlace) merge(*Message) {}

func (inPlace) hold(*Batch, stage) {}

func (inPlace) gather(*Batch, []int32, *op) {}

func (inPlace) split(_ context.Context, x *executor, b *Batch, pc int32) *Batch {
	same := func(cur *Batch, _ bool) *Batch { return cur }
	return b.pull(b.in.Like(), &x.prog.ops[pc], same, func(_, _ *Message) {}, func(*Message, int) {})
}

// runner runs steps outside of stages: those inside of another step.
type runner struct{ prog *program }

// Run carries out what [engine.Runner] says.
func (r *runner) Run(ctx context.Context, b *Batch) error {
	if b.in.Sel != nil {
		panic("engine: Runner.Run needs a batch of its own, made with NewBatch")
	}
	x := executor{prog: r.prog, own: inPlace{}}
	for i := range b.in.Msgs {
		b.in.Msgs[i].in.PC = 0
	}
	if out := x.exec(ctx, b, 0); out != b {
		b.in = out.in
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
