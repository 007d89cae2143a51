package s3

import (
	"fmt"
	"strings"
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

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var s *fakes3.Server
	sent := 0
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			s = fakes3.Start(t)
			fields := strings.Replace(s.Fields(), s.URL, wire.Over(s.URL), 1)
			return `{"s3": {` + fields + `, "interval": "10ms", "after": "delete"}}`
		},
		Send: func(t *testing.T, payloads ...string) {
			for _, p := range payloads {
				sent++
				s.Put(t, fmt.Sprintf("%05d", sent), p+"\n")
			}
		},
		SendHeaders: func(t *testing.T, payload string, headers map[string]string) {
			s.PutWith(t, "1", payload+"\n", headers)
		},

		Left:   func(t *testing.T) int { return len(s.Keys(t)) },
		Shared: true,
	}.Run(t)
}
