package retry

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// msg opens what the engine keeps in a message.

func msg(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }
