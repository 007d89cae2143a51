package decode

import (
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// marks adds the id of a schema to metadata. Messages of one origin share metadata, so the last result is reused.
type marks struct{ last atomic.Pointer[mark] }

type mark struct {
	from   engine.Meta       // shared metadata; unset if it comes from a source
	source engine.MetaSource // nil: the metadata does not come from a source
	id     any
	made   engine.Meta
}

// withSchemaID returns the metadata withSchemaID schema_id, marked as the message's own, which outputs do not send on.
func (k *marks) withSchemaID(m engine.Meta, id any) engine.Meta {
	now := mark{id: id}
	if now.source, _ = m.Source(); now.source == nil {
		now.from = m.At(0)
	}
	last := k.last.Load()
	if last == nil || last.from != now.from || last.source != now.source || last.id != id {
		if now.source == nil {
			now.made = now.from.WithOwn("schema_id", id)
		} else {
			now.made = engine.MetaFrom(marked{now.source, id})
		}
		last = &now
		k.last.Store(last)
	}
	return last.made.At(m.Index())
}

// marked is a source of metadata with the id added.
type marked struct {
	engine.MetaSource
	id any
}

// Get returns a value of message i.
func (s marked) Get(i int, name string) (any, bool) {
	if name == "schema_id" {
		return s.id, true
	}
	return s.MetaSource.Get(i, name)
}

// Meta returns the metadata of message i.
func (s marked) Meta(i int) engine.Meta { return s.MetaSource.Meta(i).WithOwn("schema_id", s.id) }
