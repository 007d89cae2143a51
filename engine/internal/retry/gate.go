package retry

import (
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Gate is the circuit breaker of an output (see Nygard, Release It!). It shuts when writes keep failing, when credentials
// are refused, or when a write hangs. The output is then probed with back-off until it is up again. The lock of the output
// guards it.
type Gate struct {
	Plan     engine.Breaker
	failures int // failed writes in a row
	probes   int // failed probes in a row
	Shut     bool
	Half     bool          // a Probe succeeded: one message is written to find out whether writes do
	Reopen   bool          // a write hangs, so a new instance must be opened first
	Err      *engine.Error // of the last write or probe that failed
	Outage   Outage        // since the gate was last open
	Probing  bool
	Until    time.Time // of the next probe
}

// Due says whether it is time for a probe.
func (g *Gate) Due(now time.Time) bool { return !g.Probing && !now.Before(g.Until) }

// Worked records a write that succeeded, and says whether that opens the gate.
func (g *Gate) Worked() (opens bool) {
	opens = g.Shut
	*g = Gate{Plan: g.Plan}
	return opens
}

// Failed records a write or a probe that failed, and says whether the gate is shut, and for how long. If the error holds the
// output, one failure shuts it.
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

// Probed records a Probe that succeeded. It proves that the output can be reached; the next message shows whether writes
// succeed.
func (g *Gate) Probed() { g.Probing, g.Half, g.Until = false, true, time.Time{} }

// Reached is called when an output that could not be reached can be reached again.
func (g *Gate) Reached() bool {
	return g.Half && g.Err != nil && g.Err.Holds && g.Err.Class != engine.Auth
}

// blame records why a write or probe failed. It copies the error, since that of a message changes when the message
// continues.
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

// State is the word for the gate in engine.OutputState.
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
