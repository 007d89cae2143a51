package engine

// What stages note in a batch of where it is on its way.

func batcherOf(b *Batch) *batcherPlan {
	p, _ := b.in.Way.batcher.(*batcherPlan)
	return p
}

func slotOf(b *Batch) *batcherRun {
	s, _ := b.in.Way.slot.(*batcherRun)
	return s
}

func outOf(b *Batch) *outRun {
	o, _ := b.in.Way.out.(*outRun)
	return o
}

func setOut(b *Batch, o *outRun) { b.in.Way.out = slot(o) }

func inputOf(b *Batch) *inputPlan {
	p, _ := b.in.Way.in.(*inputPlan)
	return p
}

func setInput(b *Batch, p *inputPlan) { b.in.Way.in = slot(p) }
