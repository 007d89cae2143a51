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

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var s *fakes3.Server
	payloads := []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`, `{"id":5}`}
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			s = fakes3.Start(t)
			s.URL = wire.Over(s.URL)
			return func() engine.Output {
				return made(t, s, `, "key": "$(id)"`)
			}
		},
		Arrived: func(t *testing.T) (all []string) {
			for _, key := range s.Keys(t) {
				body, _ := s.Get(t, key)
				all = append(all, body)
			}
			return all
		},
		Payloads: payloads,
		Headers:  func(t *testing.T) map[string]string { return s.Metadata(t, s.Keys(t)[0]) },
	}.Run(t)
}

func TestOutput(t *testing.T) {
	s := fakes3.Start(t)
	enginetest.Output(t, func(t *testing.T) engine.Output { return made(t, s, `, "key": "out/$(id).json"`) },
		`{"id": 1}`, `{"id": 2}`)
	if got, _ := s.Get(t, "out/1.json"); got != `{"id": 1}` {
		t.Errorf("the object is %q", got)
	}
}
