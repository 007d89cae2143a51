package widget

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// TestInput is what every input must pass. Inputs with a connection also pass enginetest.RemoteInput.
func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		in, err := newInput(Config{Count: 3}, engine.Env{})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}, `{"number":1}`, `{"number":2}`, `{"number":3}`)
}
