package state

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// left is the note that a step attaches to a message: the state of its key.
type left struct {
	step *step
	now  object
	ref  uint64 // number of its entry; 0: none
}

// noteKey is the key of these notes.
type noteKey struct{}

func init() {
	expr.Register(expr.Func{
		Name: "state", Doc: "A value that the messages of this key have left, or nil; see the step `state`.",
		Usage: "state(text) any", Example: `state("count") → 1`, Types: []any{new(func(string) any)},
		Call: func(src expr.Source, args ...any) (any, error) {
			m, ok := src.(*engine.Message)
			if !ok {
				return nil, fmt.Errorf("state() needs a message")
			}
			return readState(m, args[0].(string))
		},
	})
}

// readState returns the value of a name in the last state that m has passed.
func readState(m *engine.Message, name string) (any, error) {
	for x := range m.Notes().All(noteKey{}) {
		l := x.(*left)
		if raw := l.now.get(name); raw != nil {
			return doc.DecodeRaw(raw)
		}
		if l.step.declares(name) {
			break
		}
	}
	return nil, nil
}

// apply evaluates the line.
func (l *line) apply(m *engine.Message, to *left) error {
	return l.expr.Encode(m, func(v any) error {
		raw, err := doc.Append(nil, v)
		if err == nil {
			to.now = to.now.with(l.name, raw)
		}
		return err
	})
}

// maxState is the maximum size of a state, in bytes.
const maxState = 1 << 20

// object is a state: JSON values by name. It is immutable unless its creator says otherwise.
type object []field

type field struct {
	name string
	raw  []byte
}

// get returns the value of a name, or nil.
func (o object) get(name string) []byte {
	for i := range o {
		if o[i].name == name {
			return o[i].raw
		}
	}
	return nil
}

// with returns o with a value set. null removes the name.
func (o object) with(name string, raw []byte) object {
	for i := range o {
		switch {
		case o[i].name != name:
		case string(raw) == "null":
			return append(o[:i], o[i+1:]...)
		default:
			o[i].raw = raw
			return o
		}
	}
	if string(raw) == "null" {
		return o
	}
	return append(o, field{name, raw})
}

func (o object) size() (n int) {
	for i := range o {
		n += len(o[i].name) + len(o[i].raw)
	}
	return n
}

// json returns o as a document.
func (o object) json() []byte {
	text := append(make([]byte, 0, 2+o.size()+6*len(o)), '{')
	for i := range o {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(doc.AppendString(text, o[i].name), ':')
		text = append(text, o[i].raw...)
	}
	return append(text, '}')
}

// parse parses what json has written.
func parse(text []byte) (o object, err error) {
	var d doc.Doc
	d.Reset(text, nil)
	if err := d.Valid(); err != nil || doc.Kind(text) != doc.Object {
		return nil, engine.Errorf(engine.Permanent,
			"what the cache has under this key is not a state (give the step a cache of its own)")
	}
	for name, raw := range doc.Members(text) {
		o = o.with(name, raw)
	}
	return o, nil
}
