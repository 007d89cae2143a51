package stage

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// msg and slab open what the engine keeps in a message and in a batch. The others are what stages note in a batch of
// where it is on its way.

func msg(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }

func slab(b *engine.Batch) *engine.Slab { return b.Inside(inside.Key{}) }

func batcherOf(b *engine.Batch) *BatcherPlan {
	p, _ := slab(b).Way.Batcher.(*BatcherPlan)
	return p
}

func slotOf(b *engine.Batch) *batcher {
	s, _ := slab(b).Way.Slot.(*batcher)
	return s
}

func stageOf(b *engine.Batch) *stage {
	s, _ := slab(b).Way.Out.(*stage)
	return s
}

func setStage(b *engine.Batch, s *stage) { slab(b).Way.Out = inside.Slot(s) }

func inputOf(b *engine.Batch) *InputPlan {
	p, _ := slab(b).Way.In.(*InputPlan)
	return p
}

func setInput(b *engine.Batch, p *InputPlan) { slab(b).Way.In = inside.Slot(p) }
