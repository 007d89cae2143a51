package s3

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

func made(t *testing.T, s *fakes3.Server, fields string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs, `{"s3": {`+s.Fields()+fields+`}}`)
}

func TestOutput(t *testing.T) {
	s := fakes3.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if got, _ := s.Get(t, "out/1.json"); got != `{"id": 1}` {
		t.Errorf("the object is %q", got)
	}
}
