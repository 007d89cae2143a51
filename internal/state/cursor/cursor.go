// Package cursor is shared by inputs that ask a source for what follows a cursor: it has the function cursor(), and
// tracks how far reading is settled. Start at [Since] and [Places].
package cursor

import (
	"errors"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// Known is a source of expressions in which cursor() is defined. Its fields have the tag scope:"cursor".
type Known interface {
	expr.Source
	Cursor() any
}

func init() {
	expr.Register(expr.Func{Name: "cursor", Group: "sources", Scope: "cursor", Usage: "cursor() any",
		Types: []any{new(func() any)}, Example: "cursor() → nil",
		Doc: "How far an input has read: what its cursor was of the last row or answer, or nil.",
		Call: func(src expr.Source, _ ...any) (any, error) {
			s, ok := src.(Known)
			if !ok {
				return nil, errors.New("cursor() is only known where an input asks for more")
			}
			return s.Cursor(), nil
		}})
}

// Since is a source without fields.
type Since struct {
	doc   doc.Doc
	value any
}

var _ Known = (*Since)(nil)

// After returns a source for a cursor, as JSON. nil means that there is none.
func After(text []byte) (*Since, error) {
	s := &Since{}
	s.doc.Reset([]byte("{}"), nil)
	if text == nil {
		return s, nil
	}
	var err error
	s.value, err = doc.DecodeRaw(text)
	return s, err
}

// Document returns an empty document.
func (s *Since) Document() *doc.Doc { return &s.doc }

// Cursor returns the cursor.
func (s *Since) Cursor() any { return s.value }
