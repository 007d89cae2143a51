package pipe

import (
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/components/pipe"
)

func TestOutput(t *testing.T) {
	enginetest.Output(t, func(t *testing.T) engine.Output {
		env := enginetest.Env()
		o, err := newOutput(Config{Name: "x"}, env)
		if err != nil {
			t.Fatal(err)
		}
		read(t, pipe.Of(env.Shared, "x"))
		return o
	}, "a", "b")
}

// read delivers messages until the writers end.
func read(t *testing.T, link *pipe.Link) {
	link.AddReader()
	r := link.NewReader()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			b := engine.NewBatch(10)
			err := r.Read(t.Context(), b)
			for m := range b.All() {
				_, _ = r.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}})
			}
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(wg.Wait)
}

func TestAPipeWithoutReadersDoesNotOpen(t *testing.T) {
	o := enginetest.New(t, engine.Outputs, `{"pipe": "x"}`)
	if err := o.(engine.Opener).Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `nothing reads from pipe "x"`) {
		t.Errorf("got %v", err)
	}
}
