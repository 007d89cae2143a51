package retry

import (
	"errors"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
)

// Gate is an output's breaker: it shuts when writes fail again and again, when
// credentials are refused, and when a write hangs; then the output is probed with
// back-off until it works. The output's lock guards it. (Nygard, Release It!,
// "Circuit Breaker".)
type Gate struct {
	Plan     engine.Breaker
	failures int // failed writes in a row
	probes   int // failed probes in a row
	Shut     bool
	Half     bool          // a Probe succeeded: one message shows the rest
	Reopen   bool          // because a write hangs: a new instance is opened first
	Err      *engine.Error // of the last write or probe that failed
	Named    Causes        // by the log, since the gate was open
	Probing  bool
	Until    time.Time // of the next probe
}

// Due says whether it is time for a probe.
func (g *Gate) Due(now time.Time) bool { return !g.Probing && !now.Before(g.Until) }

// Worked records a write that succeeded and says whether that opens the gate.
func (g *Gate) Worked() (opens bool) {
	opens = g.Shut
	*g = Gate{Plan: g.Plan}
	return opens
}

// Failed notes a write, or a probe, that failed and says whether that shuts the
// gate, now or still, and for how long. One failure is enough where the output is to
// be held.
func (g *Gate) Failed(err *engine.Error, holds, probe bool) (shuts bool, wait time.Duration) {
	g.failures++
	g.blame(err)
	if probe {
		g.Probing, g.Half = false, false
	}
	switch {
	case probe, holds && !g.Shut, g.Plan.Failures > 0 && g.failures >= g.Plan.Failures && !g.Shut:
	default:
		return false, 0
	}
	return true, g.close()
}

// Probed records a Probe that succeeded. It proves that the output can be reached; the next
// message shows whether it accepts one.
func (g *Gate) Probed() { g.Probing, g.Half, g.Until = false, true, time.Time{} }

// Reached says that nothing is known against the output any more: it could not be
// reached, and can be.
func (g *Gate) Reached() bool {
	return g.Half && g.Err != nil && g.Err.Holds && g.Err.Class != engine.Auth
}

// blame notes why a write or probe failed. It is a copy: more is written to the error of a
// message when that continues.
func (g *Gate) blame(err *engine.Error) {
	e := *err
	g.Err = &e
}

// Hangs shuts the gate because a write does not return.
func (g *Gate) Hangs(err *engine.Error) time.Duration {
	g.Reopen, g.Probing, g.Half = true, false, false
	g.blame(err)
	return g.close()
}

func (g *Gate) close() time.Duration {
	g.Shut = true
	g.probes++
	wait := Jittered(g.Plan.Backoff, g.Plan.MaxBackoff, g.probes)
	g.Until = time.Now().Add(wait)
	return wait
}

// State is the gate as [OutputState] shows it.
func (g *Gate) State() string {
	switch {
	case g.Reached():
		return "closed"
	case g.Shut && g.Err != nil && g.Err.Class == engine.Auth:
		return "auth"
	case g.Probing:
		return "probing"
	case g.Shut:
		return "open"
	}
	return "closed"
}

// Causes are why something fails, for a log that names each once.
type Causes map[string]bool

// mostCauses bounds what is named: some errors differ each time.
const mostCauses = 50

// News says whether the root of an error is new: what wraps it says where it occurred, in a
// write or a probe. Numbers make no difference: times and sizes change from attempt to
// attempt.
func (c *Causes) News(err error) bool {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	cause := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, guard.FirstLine(err))
	if *c == nil {
		*c = Causes{}
	}
	if (*c)[cause] || len(*c) >= mostCauses {
		return false
	}
	(*c)[cause] = true
	return true
}
