package config

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkReplies checks that messages that reach an output `reply` can come from an
// `http_server`, possibly through pipes.
func (l *loader) checkReplies() {
	s := sources{writers: map[string][]*file{}}
	for _, f := range l.files {
		for _, u := range uses(f.spec.Pipeline) {
			if u.kind == engine.Outputs.Kind() && u.plugin == "pipe" {
				s.writers[u.name()] = append(s.writers[u.name()], f)
			}
		}
	}
	for _, f := range l.files {
		for _, u := range uses(f.spec.Pipeline) {
			if u.kind != engine.Outputs.Kind() || u.plugin != "reply" {
				continue
			}
			s.waits, s.early, s.seen = false, false, map[*file]bool{}
			s.look(f)
			switch {
			case s.waits:
			case s.early:
				l.report(u.complaint(schema.Problem{Code: "no-request", Message: "the http_server answers each request as soon as it is read, so there is none to reply to", Remedy: "remove its `early_ack`, or this output; `reply` of the http_server can set the answer"}))
			default:
				l.report(u.complaint(schema.Problem{Code: "no-request", Message: "no message here comes from an http_server, so there is no request to reply to", Remedy: "add an input `http_server`, or remove this output"}))
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
	for _, u := range uses(f.spec.Pipeline) {
		if u.kind != engine.Inputs.Kind() {
			continue
		}
		early, _ := u.config.(engine.EarlyAcker)
		switch {
		case u.plugin == "http_server" && early != nil && early.AcksEarly():
			s.early = true
		case u.plugin == "http_server":
			s.waits = true
		case u.plugin == "pipe" && len(s.writers[u.name()]) == 0:
			s.waits = true // the open pipe is what is wrong
		case u.plugin == "pipe":
			for _, w := range s.writers[u.name()] {
				s.look(w)
			}
		}
	}
}

// checkEarly warns of inputs that acknowledge too early.
func (l *loader) checkEarly() {
	early := func(config any) bool {
		c, ok := config.(engine.EarlyAcker)
		return ok && c.AcksEarly()
	}
	l.warnWhere(early, "early_ack", schema.Problem{Code: "at-most-once",
		Message: "messages are acknowledged when they are read: one that fails later, or is lost in a crash, is not delivered again",
		Remedy:  "remove it if every message counts"})
}
