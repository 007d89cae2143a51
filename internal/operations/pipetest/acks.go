package pipetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
)

// Ack is how a message of the test was acknowledged.
type Ack struct {
	Fate  string        `json:"fate"`            // "none" if it was not
	Delay time.Duration `json:"delay,omitempty"` // of a returned message
	Err   *Failure      `json:"error,omitempty"`
}

// none is the fate of a message that was not acknowledged.
const none = "none"

// ackOf returns how the i-th message of the test was acknowledged.
func (s *stage) ackOf(i int) Ack {
	for _, in := range s.sources {
		r, ok := in.results[i]
		if !ok {
			continue
		}
		a := Ack{Fate: r.Fate.String(), Delay: r.Delay}
		if r.Err != nil {
			a.Err = failureOf(r.Err)
		}
		return a
	}
	return Ack{Fate: none}
}

// acks compares the acknowledgements of the messages of the test.
func (s *stage) acks(res *Result) (all []Difference) {
	for i, want := range s.Test.Acks {
		all = append(all, ack(fmt.Sprintf("input message %d", i+1), want, res.Acks[i])...)
	}
	return all
}

func ack(at string, want config.ExpectedAck, got Ack) (all []Difference) {
	if want.Fate != "" && want.Fate != got.Fate {
		return []Difference{{at, "ack", want.Fate, got.String()}}
	}
	if want.Delay != nil && *want.Delay != got.Delay {
		all = append(all, Difference{at, "delay", want.Delay.String(), got.Delay.String()})
	}
	if want.ExpectedError != (config.ExpectedError{}) {
		all = append(all, reason(at, want.ExpectedError, got.Err)...)
	}
	return all
}

// Meets reports whether an acknowledgement is as a test expects.
func (a Ack) Meets(want config.ExpectedAck) bool { return len(ack("", want, a)) == 0 }

// Expected returns what a test must expect to get this acknowledgement. Fields that it does not compare stay out.
func (a Ack) Expected(old config.ExpectedAck) config.ExpectedAck {
	e := config.ExpectedAck{Fate: a.Fate}
	if old.Delay != nil && a.Fate == engine.Returned.String() {
		e.Delay = &a.Delay
	}
	if a.Err == nil {
		return e
	}
	message, _, _ := strings.Cut(a.Err.Message, "\n")
	for _, field := range []struct {
		old, got string
		to       *string
	}{{old.Class, string(a.Err.Class), &e.Class}, {old.Place, a.Err.Place, &e.Place}, {old.Message, message, &e.Message}} {
		if field.old != "" {
			*field.to = field.got
		}
	}
	return e
}

// String formats an acknowledgement on one line.
func (a Ack) String() string {
	text := a.Fate
	if a.Delay > 0 {
		text += " after " + a.Delay.String()
	}
	if a.Err == nil {
		return text
	}
	text += ": " + string(a.Err.Class)
	if a.Err.Place != "" {
		text += " in " + a.Err.Place
	}
	return text + ": " + a.Err.Message
}
