package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
)

func TestFailuresAreCountedByReason(t *testing.T) {
	const reasons, bounded = 30, 20
	src := &Source{Payloads: numbers(3 * reasons)}
	n := 0
	p := pipe(src, &Sink{}, Step("fails", func(_ context.Context, m *engine.Message) error {
		n++
		return errors.New(strings.Repeat("very ", n%reasons) + "bad number " + string(m.Bytes()))
	}))
	p.Engine.Workers = 1
	rep := Run(t, p, nil)
	if len(rep.Failures) != bounded+1 {
		t.Fatalf("%d groups, want %d", len(rep.Failures), bounded+1)
	}
	for i, g := range rep.Failures {
		want := int64(3)
		if i == bounded {
			want *= reasons - bounded
		}
		if g.Count != want || g.Others != (i == bounded) {
			t.Errorf("group %d: %d messages, others %v (%s); want %d", i, g.Count, g.Others, g.First.Message, want)
		}
	}
}
