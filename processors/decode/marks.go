package decode

import (
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// marks adds the id of a schema to metadata. Messages of one origin share metadata, and what
// was made of it last is used again.
type marks struct{ last atomic.Pointer[mark] }

type mark struct {
	from engine.Meta
	id   any
	made engine.Meta
}

// with is the metadata with schema_id, as a fact about the message that outputs do not send
// on.
func (k *marks) with(m engine.Meta, id any) engine.Meta {
	from := m.At(0)
	last := k.last.Load()
	if last == nil || last.from != from || last.id != id {
		last = &mark{from, id, from.WithOwn("schema_id", id)}
		k.last.Store(last)
	}
	return last.made.At(m.Index())
}
