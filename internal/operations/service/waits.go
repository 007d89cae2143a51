package service

import (
	"cmp"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Wait says that a component is held up, by what, and why.
type Wait struct {
	Who    string `json:"who"`           // "input web", "output lake", "lanes" or "messages"
	For    string `json:"for,omitempty"` // another component, "limit api" or "operator"; "": its own system
	Why    string `json:"why"`           // one of the constants below
	Detail string `json:"detail"`        // with numbers, for people; may show data
}

// The reasons in [Wait.Why].
const (
	WhyBackPressure = "back_pressure" // it is not read any faster, since what follows is slower
	WhyBusy         = "busy"          // it works as much as it may
	WhyLimit        = "limit"         // a rate limit
	WhyBreaker      = "breaker"       // writes have failed, so only probes are made
	WhyStalled      = "stalled"       // its system accepts nothing at present
	WhyHold         = "hold"          // messages wait for another attempt
	WhyRestart      = "restart"       // it failed, and is opened again after a back-off
	WhyPaused       = "paused"        // by an operator
	WhySchedule     = "schedule"      // it waits for a time
	WhyStuck        = "stuck"         // a call is past its deadline
)

// waitsOf says what holds up what in a pipeline, those that others wait for first.
func waitsOf(s engine.Snapshot) []Wait {
	all := []Wait{} // [] instead of null
	for _, x := range s.Stuck {
		all = append(all, Wait{Who: x.Place, Why: WhyStuck, Detail: fmt.Sprintf("a %s has not returned since %s", x.What,
			x.Since.UTC().Format(time.DateTime))})
	}
	for _, o := range s.Outputs {
		if w, yes := outputWaits(o); yes {
			all = append(all, w)
		}
	}
	for _, x := range s.Steps {
		if w, yes := poolWaits(x); yes {
			all = append(all, w)
		}
	}
	if w, yes := lanesWait(s); yes {
		all = append(all, w)
	}
	if h := s.Held; h != nil {
		detail := fmt.Sprintf("%s held, the oldest for %s", count(s.Waiting, "message"), h.Age.Round(time.Second))
		if h.Err != "" {
			detail += ": " + h.Err
		}
		all = append(all, Wait{"messages", h.For, WhyHold, detail})
	}
	cause := "the messages in flight"
	if len(all) > 0 {
		cause = all[0].Who
	}
	for _, in := range s.Inputs {
		if w, yes := inputWaits(in, s, cause); yes {
			all = append(all, w)
		}
	}
	return all
}

// outputWaits says what holds up an output.
func outputWaits(o engine.OutputState) (w Wait, yes bool) {
	w = Wait{Who: "output " + o.Name}
	queued := count(o.Queued, "message") + " queued"
	switch {
	case o.Breaker != "" && o.Breaker != "closed":
		w.Why, w.Detail = WhyBreaker, "the breaker is "+o.Breaker
		if o.Err != "" {
			w.Detail += ": " + o.Err
		}
	case o.Stalled != "":
		w.Why, w.Detail = WhyStalled, o.Stalled
	case o.Queued > 0 && o.Writing >= o.Concurrency:
		w.Why, w.Detail = WhyBusy, fmt.Sprintf("%d of %d writes under way, %s", o.Writing, o.Concurrency, queued)
	case o.Queued > 0 && o.Writing == 0 && o.Limit != nil:
		w.For, w.Why, w.Detail = "limit "+o.Limit.Name, WhyLimit, queued
	default:
		return w, false
	}
	return w, true
}

// poolWaits says that the jobs of a step wait for workers.
func poolWaits(x engine.StepState) (w Wait, yes bool) {
	p := x.Pool
	w = Wait{Who: "step " + cmp.Or(x.Name, x.Type)}
	switch {
	case p == nil || p.Waiting == 0:
		return w, false
	case p.Slots == 0:
		w.Why, w.Detail = WhyStalled, "no worker has joined, "+count(p.Waiting, "job")+" queued"
	case p.InFlight >= p.Slots:
		w.Why, w.Detail = WhyBusy, fmt.Sprintf("%d of %d slots busy, %s queued", p.InFlight, p.Slots,
			count(p.Waiting, "job"))
	default:
		return w, false
	}
	return w, true
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// lanesWait says that all lanes are busy, and with which step for the most part.
func lanesWait(s engine.Snapshot) (Wait, bool) {
	if s.Lanes == 0 || s.LanesBusy < s.Lanes {
		return Wait{}, false
	}
	w := Wait{Who: "lanes", Why: WhyBusy, Detail: fmt.Sprintf("%d of %d lanes busy", s.LanesBusy, s.Lanes)}
	most, sum := 0.0, 0.0
	for _, x := range s.Steps {
		if sum += x.Latency.Sum; x.Latency.Sum > most {
			most, w.For = x.Latency.Sum, "step "+cmp.Or(x.Name, x.Type)
		}
	}
	if w.For != "" {
		w.Detail += fmt.Sprintf("; %.0f %% of their time since the start", 100*most/sum)
	}
	return w, true
}

// inputWaits says what holds up an input. cause is what readers wait for when they wait for room.
func inputWaits(in engine.InputState, s engine.Snapshot, cause string) (w Wait, yes bool) {
	w = Wait{Who: "input " + in.Name}
	switch {
	case in.State == "waiting":
		w.For, w.Why = cause, WhyBackPressure
		w.Detail = fmt.Sprintf("%d of %d messages in flight", s.Messages, s.MaxMessages)
		if s.Bytes >= s.MaxBytes && s.MaxBytes > 0 {
			w.Detail = fmt.Sprintf("%d of %d MiB in flight", s.Bytes>>20, s.MaxBytes>>20)
		}
	case in.State == "limited":
		limit := "engine"
		if in.Limit != nil {
			limit = in.Limit.Name
		}
		w.For, w.Why, w.Detail = "limit "+limit, WhyLimit, "it reads as fast as its rate limit allows"
	case in.State == "restarting":
		w.Why, w.Detail = WhyRestart, in.Err
	case in.State == "paused":
		w.For, w.Why, w.Detail = "operator", WhyPaused, "flowd ctl resume makes it read again"
	case !in.Due.IsZero():
		w.Why, w.Detail = WhySchedule, "due at "+in.Due.UTC().Format(time.RFC3339)
	default:
		return w, false
	}
	return w, true
}
