package engine

import "time"

// gate is an output's breaker: it shuts when writes fail again and again, when
// credentials are refused, and when a write hangs; then the output is probed with
// back-off until it works. The output's lock guards it. (Nygard, Release It!,
// "Circuit Breaker".)
type gate struct {
	plan     Breaker
	failures int // failed writes in a row
	probes   int // failed probes in a row
	shut     bool
	auth     bool // because credentials are refused
	reopen   bool // because a write hangs: a new instance is opened first
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
// gate, now or still, and for how long.
func (g *gate) failed(err *Error, probe bool) (shuts bool, wait time.Duration) {
	g.failures++
	g.auth = err.Class == Auth
	if probe {
		g.probing = false
	}
	switch {
	case probe, err.holds() && !g.shut, g.plan.Failures > 0 && g.failures >= g.plan.Failures && !g.shut:
	default:
		return false, 0
	}
	return true, g.close()
}

// hangs shuts the gate because a write does not come back.
func (g *gate) hangs() time.Duration {
	g.reopen, g.probing = true, false
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
	case g.auth && g.shut:
		return "auth"
	case g.probing:
		return "probing"
	case g.shut:
		return "open"
	}
	return "closed"
}
