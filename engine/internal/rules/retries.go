package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkRetries finds fields of a retry, a breaker or a restart that contradict each other.
func (r *checker) checkRetries() {
	all, ofSteps := r.spec.Engine.OnFailure.Retry, r.spec.Defaults.Processors.Retry
	schema.Walk(r.spec, func(v reflect.Value) {
		if step, ok := reflect.TypeAssert[engine.StepSpec](v); ok {
			r.checkRetry(step.Retry, ofSteps, all)
		}
	})
	for _, o := range r.spec.Outputs.All() {
		r.checkRetry(o.Retry, all)
	}
	r.checkRetry(ofSteps, all)
	r.checkRetry(r.spec.Defaults.Outputs.Retry, all)
	r.checkRetry(all)
	for name, o := range r.spec.Outputs.All() {
		if o.Breaker != nil {
			r.checkBackoff(r.at("outputs", name, "breaker"), o.Breaker.Backoff, o.Breaker.MaxBackoff)
		}
	}
	r.checkBackoff(r.at("engine", "restart"), r.spec.Engine.Restart.Backoff, r.spec.Engine.Restart.MaxBackoff)
	r.checkReplay()
}

// checkRetry checks one `retry`, which takes the fields that the file omits from others, the next one first.
func (r *checker) checkRetry(own *engine.Retry, from ...*engine.Retry) {
	if own == nil {
		return
	}
	t := engine.Inherited(append([]*engine.Retry{own}, slices.DeleteFunc(from, func(r *engine.Retry) bool { return r == nil })...)...)
	n := t.Place.Node
	if n == nil || n.Kind != schema.MapNode {
		return // the decoder has complained
	}
	wrong := func(key, message, remedy string) {
		r.complain(t.Place.At(key), schema.Problem{Code: "retry-contradiction", Message: message, Remedy: remedy})
	}
	if t.MaxAttempts == 1 { // max_age is useful even so: it bounds the wait for an output that can't be reached
		for _, key := range []string{"backoff", "max_backoff", "intervals"} {
			if n.Lookup(key) != nil {
				wrong(key, "there is no second attempt to wait for: `max_attempts` is 1, which includes the first",
					"allow more attempts, or remove this")
				return
			}
		}
	}
	if n.Lookup("intervals") != nil {
		r.checkIntervals(t, wrong)
		return
	}
	switch {
	case t.Backoff > t.MaxBackoff && n.Lookup("max_backoff") != nil:
		wrong("max_backoff", fmt.Sprintf("the longest wait, %s, is shorter than the first, %s", short(t.MaxBackoff),
			short(t.Backoff)), fmt.Sprintf("write `backoff: %s` or less, or a longer max_backoff", short(t.MaxBackoff)))
	case t.MaxAge > 0 && t.MaxAge < t.Backoff && t.MaxAttempts != 1:
		wrong("max_age",
			fmt.Sprintf("%s is shorter than the first wait, which may take %s, so there may be no second attempt", short(t.MaxAge),
				short(t.Backoff)), fmt.Sprintf("write `backoff: %s` or less, or a longer max_age", short(t.MaxAge)))
	}
}

// checkIntervals checks a retry that lists its waits.
func (r *checker) checkIntervals(t engine.Retry, wrong func(key, message, remedy string)) {
	n := t.Place.Node
	for _, key := range []string{"backoff", "max_backoff"} {
		if n.Lookup(key) != nil {
			wrong(key, "`intervals` already says how long to wait", "remove one of the two")
		}
	}
	list := n.Lookup("intervals")
	if len(t.Intervals) == 0 {
		if list.Kind == schema.ListNode && len(list.Items) == 0 {
			wrong("intervals", "the list is empty", "write waits, such as `intervals: [1s, 10s]`, or remove it")
		}
		return
	}
	for i, wait := range t.Intervals {
		if wait == 0 && i < len(list.Items) && !strings.HasPrefix(list.Items[i].Text, "0") {
			return // the decoder has complained
		}
		if wait < time.Millisecond {
			wrong("intervals", fmt.Sprintf("wait %d, %s, is too short", i+1, short(wait)), "write 1ms or more")
			return
		}
	}
	switch waits := t.MaxAttempts - 1; {
	case t.MaxAge > 0 && t.MaxAge < t.Intervals[0]:
		wrong("max_age", fmt.Sprintf("%s ends before the first wait, %s, so there is never a second attempt",
			short(t.MaxAge), short(t.Intervals[0])), "write a longer max_age, or remove it")
	case t.MaxAttempts > 1 && len(t.Intervals) > waits:
		r.complain(t.Place.At("intervals"), schema.Problem{Code: "unused-interval", Warning: true,
			Message: fmt.Sprintf("only the first %d of these %d waits are used, since there are %d attempts in all",
				waits, len(t.Intervals), t.MaxAttempts),
			Remedy: fmt.Sprintf("also write `max_attempts: %d`, or 0 for no limit", len(t.Intervals)+1)})
	}
}

// checkBackoff checks that the longest wait is not shorter than the first.
func (r *checker) checkBackoff(at schema.Place, first, longest time.Duration) {
	if at.Node.Find("max_backoff") != nil && first > longest && longest > 0 {
		r.complain(at.At("max_backoff"), schema.Problem{Code: "retry-contradiction",
			Message: fmt.Sprintf("the longest wait, %s, is shorter than the first, %s", short(longest), short(first)),
			Remedy:  fmt.Sprintf("write `backoff: %s` or less, or a longer max_backoff", short(longest))})
	}
}

// checkReplay warns of a max_replay that stops a reader while an incomplete batch waits for more messages.
func (r *checker) checkReplay() {
	e := r.spec.Engine
	if e.MaxReplay == 0 || e.MaxReplay >= e.MaxInFlight.Messages {
		return
	}
	r.complain(r.at("engine", "max_replay"), schema.Problem{Code: "small-replay", Warning: true,
		Message: fmt.Sprintf(
			"inputs that keep a position stop reading at %d unsettled messages, before the %d of max_in_flight: "+
				"an incomplete batch may then wait for messages that are not read", e.MaxReplay, e.MaxInFlight.Messages),
		Remedy: fmt.Sprintf("write %d or more, or lower `max_in_flight.messages`", e.MaxInFlight.Messages)})
}

// short prints a duration without Go's zeros: 1m, not 1m0s.
func short(d time.Duration) string { return schema.DurationText(d) }
