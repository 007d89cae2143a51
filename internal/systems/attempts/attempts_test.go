package attempts

import (
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestAttemptsBetweenDeliveriesCount(t *testing.T) {
	env := engine.Env{Pipeline: "p", Name: "in", Shared: &engine.Shared{}}
	b := ForInput(env)
	name := func(id string) func() string { return func() string { return id } }
	failed := func(attempt int, delay time.Duration) engine.Result {
		return engine.Result{Fate: engine.Returned, Delay: delay, Err: &engine.Error{Attempt: attempt}}
	}
	b.Returned("a", failed(3, time.Minute), 1) // delivered once, tried three times
	b.Returned("b", failed(1, time.Minute), 1)
	b.Returned("c", failed(5, 0), 1) // no delay: the source counts from one again
	for id, want := range map[string]int{"a": 4, "b": 2, "c": 2, "d": 2} {
		if got := ForInput(env).Attempt(2, name(id)); got != want { // another instance of the input
			t.Errorf("the second delivery of %s is attempt %d, want %d", id, got, want)
		}
	}
	if got := b.Attempt(3, name("a")); got != 3 || b.Len() != 0 {
		t.Errorf("the third delivery is attempt %d, want 3; %d messages remembered, want 0", got, b.Len())
	}
	if other := ForInput(engine.Env{Pipeline: "q", Name: "in", Shared: env.Shared}); other == b {
		t.Error("two inputs share a book")
	}
}
