package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// checkReplies checks that messages that reach an output `reply` can come from an
// `http_server`, possibly through pipes.
func (l *loader) checkReplies() {
	s := sources{writers: map[string][]*file{}}
	for _, f := range l.files {
		for _, u := range runtime.Components(f.spec.Pipeline) {
			if u.Kind == engine.Outputs.Kind() && u.Type == "pipe" {
				s.writers[u.Refers()] = append(s.writers[u.Refers()], f)
			}
		}
	}
	for _, f := range l.files {
		for _, u := range runtime.Components(f.spec.Pipeline) {
			if u.Kind != engine.Outputs.Kind() || u.Type != "reply" {
				continue
			}
			s.waits, s.early, s.seen = false, false, map[*file]bool{}
			s.look(f)
			switch {
			case s.waits:
			case s.early:
				l.complain(u.Place, schema.Problem{Code: "no-request",
					Message: "the http_server answers each request as soon as it is read, so there is none to reply to",
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
	writers map[string][]*file // by pipe
	seen    map[*file]bool

	waits bool // there is an http_server that waits for what becomes of its messages
	early bool // there is one that does not
}

func (s *sources) look(f *file) {
	if s.seen[f] {
		return
	}
	s.seen[f] = true
	for _, u := range runtime.Components(f.spec.Pipeline) {
		if u.Kind != engine.Inputs.Kind() {
			continue
		}
		switch {
		case u.Type == "http_server" && engine.TraitsOf(u.Config).AcksEarly:
			s.early = true
		case u.Type == "http_server":
			s.waits = true
		case u.Type == "pipe" && len(s.writers[u.Refers()]) == 0:
			s.waits = true // the open pipe is what is wrong
		case u.Type == "pipe":
			for _, w := range s.writers[u.Refers()] {
				s.look(w)
			}
		}
	}
}
