package flow

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// msg and slab open the engine's own part of a message and of a batch.

func msg(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }

func slab(b *engine.Batch) *engine.Slab { return b.Inside(inside.Key{}) }
