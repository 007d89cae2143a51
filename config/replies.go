package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkReplies checks that messages which reach an output `reply` can come from an `http_server`, directly or through
// pipes.
func (l *loader) checkReplies() {
	writers := l.pipeEnds(engine.Outputs.Kind())
	for _, f := range l.files {
		for _, u := range f.components(engine.Outputs.Kind(), "reply") {
			s := sources{writers: writers, seen: map[*file]bool{}}
			s.look(f)
			switch {
			case s.waits:
			case s.early:
				l.complain(u.Place, schema.Problem{Code: "no-request",
					Message: "the http_server answers each request as soon as it is read, so there is no request left to reply to",
					Remedy:  "remove its `early_ack`, or this output; `reply` of the http_server can set the answer"})
			default:
				l.complain(u.Place, schema.Problem{Code: "no-request",
					Message: "no message here comes from an http_server, so there is no request to reply to",
					Remedy:  "add an input `http_server`, or remove this output"})
			}
		}
	}
}

// sources follows messages back to their inputs.
type sources struct {
	writers map[string][]end // by pipe
	seen    map[*file]bool

	waits bool // an http_server waits for the fate of its messages
	early bool // an http_server with early_ack
}

func (s *sources) look(f *file) {
	if s.seen[f] {
		return
	}
	s.seen[f] = true
	for _, u := range f.components(engine.Inputs.Kind(), "http_server") {
		early := engine.TraitsOf(u.Config).AcksEarly
		s.early = s.early || early
		s.waits = s.waits || !early
	}
	for _, u := range f.components(engine.Inputs.Kind(), "pipe") {
		writers := s.writers[u.Refers()]
		s.waits = s.waits || len(writers) == 0 // the problem is the open pipe, which is reported elsewhere
		for _, w := range writers {
			s.look(w.file)
		}
	}
}
