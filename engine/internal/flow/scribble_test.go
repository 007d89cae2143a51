//go:build race || scribble

package flow

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// The test mode must find the mistakes that it looks for.
func TestAMessageThatIsUsedAfterItsSlabWasGivenBackIsFound(t *testing.T) {
	edits := map[string]func(m *engine.Message){
		"its state":    func(m *engine.Message) { m.Done() },
		"an error":     func(m *engine.Message) { msg(m).Err = &engine.Error{} },
		"its payload":  func(m *engine.Message) { m.SetBytes([]byte("x")) },
		"its metadata": func(m *engine.Message) { m.Meta = m.Meta.With("a", 1) },
		"nothing":      nil,
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			b := BatchOf(engine.Slab{Msgs: make([]engine.Message, 0, inside.SlabSize)})
			m := slab(b).Append([]byte("payload"))
			slab(b).Msgs = slab(b).Msgs[:0]
			scribble(b, 1)
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
			unscribble(b)
		})
	}
}
