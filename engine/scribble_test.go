//go:build race || scribble

package engine

import (
	"strings"
	"testing"
)

// The test mode must itself be seen to find what it looks for.
func TestAMessageThatIsUsedAfterItsSlabWasGivenBackIsFound(t *testing.T) {
	edits := map[string]func(m *Message){
		"its state":    func(m *Message) { m.Done() },
		"an error":     func(m *Message) { m.in.Err = &Error{} },
		"its payload":  func(m *Message) { m.SetBytes([]byte("x")) },
		"its metadata": func(m *Message) { m.Meta = m.Meta.With("a", 1) },
		"nothing":      nil,
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			b := batchOf(Slab{Msgs: make([]Message, 0, slabSize)})
			m := b.in.Append([]byte("payload"))
			b.in.Msgs = b.in.Msgs[:0]
			b.scribble(1)
			if strings.Contains(string(m.Bytes()), "payload") {
				t.Error("the payload can still be read")
			}
			if edit != nil {
				edit(m)
			}
			defer func() {
				if found := recover() != nil; found != (edit != nil) {
					t.Errorf("found: %v", found)
				}
			}()
			b.unscribble()
		})
	}
}
