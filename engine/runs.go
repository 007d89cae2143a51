package engine

import "context"

// inPlace owns messages that are nobody's account: parts stay together.
type inPlace struct{}

func (inPlace) merge(*Message) {}

func (inPlace) hold(*Batch, stage) {}

func (inPlace) gather(*Batch, []int32, *op) {}

func (inPlace) split(_ context.Context, x *executor, b *Batch, pc int32) *Batch {
	same := func(cur *Batch, _ bool) *Batch { return cur }
	return b.pull(b.like(), &x.prog.ops[pc], same, func(_, _ *Message) {}, func(*Message, int) {})
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
