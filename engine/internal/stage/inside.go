package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// msg and slab open what the engine keeps in a message and in a batch. The others are what stages note in a batch of
// where it is on its way.

func msg(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }

func slab(b *engine.Batch) *engine.Slab { return b.Inside(inside.Key{}) }

func (*branch) IsBranch(inside.Key)   {}
func (*batcher) IsBatcher(inside.Key) {}
func (*stage) IsPlace(inside.Key)     {}
func (*InputPlan) IsInput(inside.Key) {}
func (*entry) IsTurn(inside.Key)      {}

// batcherOf is the plan of the batcher that b goes through, or has gone through; nil: none.
func batcherOf(b *engine.Batch) *BatcherPlan {
	if x, ok := slab(b).Way.Batcher.(*batcher); ok {
		return x.plan
	}
	return nil
}

// limiterOf is the batcher that counts b among its batches in flight; nil: none does.
func limiterOf(b *engine.Batch) *batcher {
	if !slab(b).Way.Counted {
		return nil
	}
	x, _ := slab(b).Way.Batcher.(*batcher)
	return x
}

// stageOf is the output or group where the messages of b are to be tried again; nil: a lane.
func stageOf(b *engine.Batch) *stage {
	s, _ := slab(b).Way.Out.(*stage)
	return s
}

func setStage(b *engine.Batch, s *stage) {
	if slab(b).Way.Out = nil; s != nil {
		slab(b).Way.Out = s
	}
}

// inputOf is the input in whose own steps the messages of b are; nil: they are elsewhere.
func inputOf(b *engine.Batch) *InputPlan {
	p, _ := slab(b).Way.In.(*InputPlan)
	return p
}

func setInput(b *engine.Batch, p *InputPlan) {
	if slab(b).Way.In = nil; p != nil {
		slab(b).Way.In = p
	}
}
