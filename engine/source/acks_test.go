package source

import (
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// TestMarksCountInTheOrderInWhichTheyWereRead acknowledges in other orders.
func TestMarksCountInTheOrderInWhichTheyWereRead(t *testing.T) {
	var got []string
	a := &Acks[string]{Settled: func(marks []string) { got = append(got, marks...) },
		IsSettled: func(mark string) bool { return mark == "end" }}
	settle := func(ref uint64, fate engine.Fate, want ...string) {
		t.Helper()
		got = nil
		if _, err := a.Ack(t.Context(), []engine.Result{{Ref: ref, Fate: fate}}); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d, %q count, want %q", ref, got, want)
		}
	}
	a.Read([]string{"a", "b", "end"})
	if a.Next() != 3 {
		t.Errorf("the next Ref is %d", a.Next())
	}
	a.Read([]string{"c", "d"})
	settle(3, engine.Delivered)
	settle(1, engine.Dropped)
	settle(0, engine.Filtered, "a", "b", "end", "c")
	settle(4, engine.Returned)
	a.Read(nil)
	a.Read([]string{"e"})
	settle(5, engine.Delivered)
}
