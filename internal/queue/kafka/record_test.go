package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWhatARecordDoesNotHaveIsNull to an expression, which does not see whether it is there.
func TestWhatARecordDoesNotHaveIsNull(t *testing.T) {
	s := RecordsOf("t", 0, []*kgo.Record{{Value: []byte{}}})
	for _, name := range []string{"key", "tombstone", "headers", "other"} {
		if v, ok := s.Get(0, name); ok || v != nil {
			t.Errorf("%s is %v: %t", name, v, ok)
		}
	}
}
