package s3

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

func made(t *testing.T, s *fakes3.Server, fields string) engine.Input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, `{"s3": {`+s.Fields()+fields+`}}`)
}

func TestInput(t *testing.T) {
	s := fakes3.Start(t)
	s.Page = 2
	s.Put(t, "in/a", "1\n2\n")
	s.Put(t, "in/b+ c.é", "3\n")
	s.Put(t, "in/c/", "")
	s.Put(t, "in/d", "4\n5")
	s.Put(t, "other", "6")
	enginetest.Input(
		t,
		func(t *testing.T) engine.Input { return made(t, s, `, "prefix": "in/"`) },
		"1",
		"2",
		"3",
		"4",
		"5",
	)
}
