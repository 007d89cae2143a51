package engine

// What stages note in a batch of where it is on its way.

func batcherOf(b *Batch) *batcherPlan {
	p, _ := b.way.batcher.(*batcherPlan)
	return p
}

func slotOf(b *Batch) *batcherRun {
	s, _ := b.way.slot.(*batcherRun)
	return s
}

func outOf(b *Batch) *outRun {
	o, _ := b.way.out.(*outRun)
	return o
}

func setOut(b *Batch, o *outRun) { b.way.out = slot(o) }

func inputOf(b *Batch) *inputPlan {
	p, _ := b.way.in.(*inputPlan)
	return p
}

func setInput(b *Batch, p *inputPlan) { b.way.in = slot(p) }
