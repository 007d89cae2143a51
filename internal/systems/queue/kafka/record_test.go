package kafka

import (
	"reflect"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A header with a reserved name gets another name as metadata, and its own name again when it is sent.
func TestAHeaderWithAReservedName(t *testing.T) {
	sent := []kgo.RecordHeader{{Key: "topic", Value: []byte("a")}, {Key: "header_topic", Value: []byte("b")},
		{Key: "topic", Value: []byte("c")}, {Key: "n", Value: []byte("\xff")}}
	m := engine.MetaFrom(RecordsOf("t", 0, []*kgo.Record{{Headers: sent}}))
	want := map[string]any{"topic": "t", "header_topic": []any{"a", "c"}, "header_header_topic": "b", "n": "\xff"}
	for name, v := range want {
		got, ok := m.Get(name)
		if _, all := m.Map()[name]; !ok || !all || !reflect.DeepEqual(got, v) || !reflect.DeepEqual(m.Map()[name], v) {
			t.Errorf("%s is %v and %v, want %v", name, got, m.Map()[name], v)
		}
	}
	var again []string
	for _, h := range Headers(nil, m.With("n", "1")) { // changed by a step
		again = append(again, h.Key+"="+string(h.Value))
	}
	if slices.Sort(again); !slices.Equal(again, []string{"header_topic=b", "n=1", "topic=a", "topic=c"}) {
		t.Errorf("the headers are sent as %q", again)
	}
}

// An expression does not see whether metadata exists, only that it is null.
func TestMissingMetadataIsNull(t *testing.T) {
	s := RecordsOf("t", 0, []*kgo.Record{{Value: []byte{}}})
	for _, name := range []string{"key", "tombstone", "headers", "other"} {
		if v, ok := s.Get(0, name); ok || v != nil {
			t.Errorf("%s is %v: %t", name, v, ok)
		}
	}
}
