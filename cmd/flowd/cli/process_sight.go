package cli

import (
	"net/http"
	"sync"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/history"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/tap"
	"github.com/flowd-io/flowd/schema"
)

// sight is what a process sees of the messages in its pipelines: taps, and the history. Like the listener, it has the
// configuration of the start. Its methods may be called concurrently.
type sight struct {
	secrets *schema.Secrets

	once    sync.Once // sets the fields below
	taps    *tap.Hub  // nil: nobody can ask for them
	history *history.History
	redact  *tap.Redactor

	traced sync.Once // sets the fields below
	tracer tracer    // nil: nothing is traced
	wrong  error

	exemplars *service.Exemplars // nil: nothing is traced
}

// observers returns what observes all pipelines, and makes it when it is first called.
func (s *sight) observers(c config.Service) (all []engine.Observer) {
	s.once.Do(func() {
		if c.Listen == "" {
			return
		}
		s.taps, s.redact = &tap.Hub{}, tap.NewRedactor(c.Tap.Redact, s.secrets)
		if h := c.History; h != nil {
			s.history = history.New(h.ID, h.Messages)
		}
	})
	if s.taps != nil {
		all = append(all, s.taps)
	}
	if s.history != nil {
		all = append(all, s.history)
	}
	return all
}

// tap streams messages.
func (s *sight) tap(w http.ResponseWriter, r *http.Request) error {
	q, err := tap.ParseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	return s.taps.Serve(w, r, q, s.redact)
}

// trace returns the messages with an id.
func (s *sight) trace(id string) (history.Trace, error) {
	if s.history == nil {
		return history.Trace{}, history.ErrOff
	}
	t := s.history.Find(id)
	for i := range t.Messages {
		m := &t.Messages[i]
		m.Error = s.redact.Failure(m.Error)
		for k := range m.Events {
			m.Events[k].Error = s.redact.Failure(m.Events[k].Error)
		}
	}
	return t, nil
}
