package flow

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// A batcher with many keys opens a batch for nearly every message.
func TestABatchIsOpenedWithoutAnother(t *testing.T) {
	from, made := NewSlab(0), new(engine.Batch)
	slab(from).Open = func() *engine.Batch { return made }
	if n := testing.AllocsPerRun(100, func() { from.Open() }); n > 0 {
		t.Errorf("Open allocates %v times beside what it is given", n)
	}
}
