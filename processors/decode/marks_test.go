package decode

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
)

// records is a source of metadata that differs from message to message.
type records struct{}

func (*records) Get(i int, name string) (any, bool) { return i, name == "offset" }
func (*records) Meta(i int) engine.Meta             { return engine.Meta{}.With("offset", i).Own() }

// TestTheIdIsAddedToEachMessage uses messages that share metadata, or get it from a source.
func TestTheIdIsAddedToEachMessage(t *testing.T) {
	shared := engine.Meta{}.With("topic", "a").Own().WithIndex("offset")
	for name, from := range map[string]engine.Meta{"shared": shared, "of a source": engine.MetaFrom(&records{})} {
		t.Run(name, func(t *testing.T) {
			var k marks
			for i, id := range []int{7, 7, 8} {
				m := k.withSchemaID(from.At(i), id)
				want := from.At(i).WithOwn("schema_id", id)
				if diff := cmp.Diff(want.Map(), m.Map()); diff != "" {
					t.Errorf("message %d (-want +got):\n%s", i, diff)
				}
				if got, _ := m.Get("offset"); got != i {
					t.Errorf("message %d has offset %v", i, got)
				}
			}
		})
	}
}
