package widget

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func build(t *testing.T) engine.Processor {
	p, err := newProcessor(Config{Field: "said", Text: "hello"}, engine.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProcessor is what every processor must pass.
func TestProcessor(t *testing.T) { enginetest.Processor(t, build, `{}`, `{"said":1,"b":2}`) }

func TestItSetsTheField(t *testing.T) {
	got := enginetest.Apply(t, build(t), `{"a":1}`)
	if want := `{"a":1,"said":"hello"}`; len(got) != 1 || got[0].Body != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
