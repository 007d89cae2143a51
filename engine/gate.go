package engine

import (
	"errors"
	"strings"
	"time"
)

// gate is an output's breaker: it shuts when writes fail again and again, when
// credentials are refused, and when a write hangs; then the output is probed with
// back-off until it works. The output's lock guards it. (Nygard, Release It!,
// "Circuit Breaker".)
type gate struct {
	plan     Breaker
	failures int // failed writes in a row
	probes   int // failed probes in a row
	shut     bool
	half     bool   // a Probe came through: one message shows the rest
	reopen   bool   // because a write hangs: a new instance is opened first
	err      *Error // of the last write or probe that failed
	named    causes // by the log, since the gate was open
	probing  bool
	until    time.Time // of the next probe
}

// due says whether it is time for a probe.
func (g *gate) due(now time.Time) bool { return !g.probing && !now.Before(g.until) }

// worked notes a write that came through and says whether that opens the gate.
func (g *gate) worked() (opens bool) {
	opens = g.shut
	*g = gate{plan: g.plan}
	return opens
}

// failed notes a write, or a probe, that failed and says whether that shuts the
// gate, now or still, and for how long. One failure is enough where the output is to
// be held.
func (g *gate) failed(err *Error, holds, probe bool) (shuts bool, wait time.Duration) {
	g.failures++
	g.blame(err)
	if probe {
		g.probing, g.half = false, false
	}
	switch {
	case probe, holds && !g.shut, g.plan.Failures > 0 && g.failures >= g.plan.Failures && !g.shut:
	default:
		return false, 0
	}
	return true, g.close()
}

// probed notes a Probe that came through. It proves that the output can be reached;
// what it makes of a message, the next one shows.
func (g *gate) probed() { g.probing, g.half, g.until = false, true, time.Time{} }

// reached says that nothing is known against the output any more: it could not be
// reached, and can be.
func (g *gate) reached() bool { return g.half && g.err != nil && g.err.Holds && g.err.Class != Auth }

// blame notes why a write or probe failed. It is a copy: more is written to the error of
// a message when that goes on.
func (g *gate) blame(err *Error) {
	e := *err
	g.err = &e
}

// hangs shuts the gate because a write does not come back.
func (g *gate) hangs(err *Error) time.Duration {
	g.reopen, g.probing, g.half = true, false, false
	g.blame(err)
	return g.close()
}

func (g *gate) close() time.Duration {
	g.shut = true
	g.probes++
	wait := jittered(g.plan.Backoff, g.plan.MaxBackoff, g.probes)
	g.until = time.Now().Add(wait)
	return wait
}

// state is the gate as [OutputState] shows it.
func (g *gate) state() string {
	switch {
	case g.reached():
		return "closed"
	case g.shut && g.err != nil && g.err.Class == Auth:
		return "auth"
	case g.probing:
		return "probing"
	case g.shut:
		return "open"
	}
	return "closed"
}

// causes are why something fails, for a log that names each once.
type causes map[string]bool

// mostCauses bounds what is named: some errors differ each time.
const mostCauses = 50

// news says whether the root of an error is new: what is around it says where it was
// met, in a write or a probe. Numbers make no difference: times and sizes change from
// try to try.
func (c *causes) news(err error) bool {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	cause := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, firstLine(err))
	if *c == nil {
		*c = causes{}
	}
	if (*c)[cause] || len(*c) >= mostCauses {
		return false
	}
	(*c)[cause] = true
	return true
}
