package drop

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestOutput(t *testing.T) {
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, `{"drop": {}}`)
	}, "a", "b")
}
