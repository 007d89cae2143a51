package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// retries checks how often and how long things are tried again: no two fields of
// a retry, a breaker or a restart may contradict each other.
func (c *checker) retries() {
	for _, in := range []any{c.spec.Pipeline, c.spec.Resources.Steps} {
		walk(reflect.ValueOf(in), 0, func(v reflect.Value) {
			if v.Type() == retryType {
				r := v.Interface().(engine.Retry)
				if all := c.spec.Engine.OnFailure.Retry; all != nil {
					r = r.Over(*all)
				}
				c.retry(r)
			}
		})
	}
	for name, o := range c.spec.Outputs.All() {
		if o.Breaker != nil {
			c.backoff([]string{"outputs", name, "breaker"}, o.Breaker.Backoff, o.Breaker.MaxBackoff)
		}
	}
	c.backoff([]string{"engine", "restart"}, c.spec.Engine.Restart.Backoff, c.spec.Engine.Restart.MaxBackoff)
	c.replay()
}

// retry checks one `retry`. What a file leaves out has its default in r.
func (c *checker) retry(r engine.Retry) {
	n := r.Place.Node
	if n == nil || n.Kind != schema.MapNode {
		return // the decoder has complained
	}
	wrong := func(key, message, remedy string) {
		c.report(under(r.Place, key, schema.Problem{Code: "retry-contradiction", Message: message, Remedy: remedy}))
	}
	if r.MaxAttempts == 1 { // max_age bounds the wait for an output that can't be reached, too
		for _, key := range []string{"backoff", "max_backoff", "intervals"} {
			if n.Lookup(key) != nil {
				wrong(key, "there is no second attempt to wait for: `max_attempts` is 1, and counts the first", "allow more attempts, or remove this")
				return
			}
		}
	}
	if n.Lookup("intervals") != nil {
		c.intervals(r, wrong)
		return
	}
	switch {
	case r.Backoff > r.MaxBackoff && n.Lookup("max_backoff") != nil:
		wrong("max_backoff", fmt.Sprintf("the longest wait, %s, is shorter than the first, %s", short(r.MaxBackoff), short(r.Backoff)), fmt.Sprintf("write `backoff: %s` or less, or a longer max_backoff", short(r.MaxBackoff)))
	case r.MaxAge > 0 && r.MaxAge < r.Backoff && r.MaxAttempts != 1:
		wrong("max_age", fmt.Sprintf("%s is shorter than the first wait, which may take %s: whether there is a second attempt is left to chance", short(r.MaxAge), short(r.Backoff)), fmt.Sprintf("write `backoff: %s` or less, or a longer max_age", short(r.MaxAge)))
	}
}

// intervals checks a retry whose waits are listed.
func (c *checker) intervals(r engine.Retry, wrong func(key, message, remedy string)) {
	n := r.Place.Node
	for _, key := range []string{"backoff", "max_backoff"} {
		if n.Lookup(key) != nil {
			wrong(key, "`intervals` already says how long to wait", "remove one of the two")
		}
	}
	list := n.Lookup("intervals")
	if len(r.Intervals) == 0 {
		if list.Kind == schema.ListNode && len(list.Items) == 0 {
			wrong("intervals", "the list is empty", "write waits, such as `intervals: [1s, 10s]`, or remove it")
		}
		return
	}
	for i, wait := range r.Intervals {
		if wait == 0 && i < len(list.Items) && !strings.HasPrefix(list.Items[i].Text, "0") {
			return // the decoder has complained
		}
		if wait < time.Millisecond {
			wrong("intervals", fmt.Sprintf("wait %d, %s, is too short", i+1, short(wait)), "write 1ms or more")
			return
		}
	}
	switch waits := r.MaxAttempts - 1; {
	case r.MaxAge > 0 && r.MaxAge < r.Intervals[0]:
		wrong("max_age", fmt.Sprintf("%s is over before the first wait, %s: there is never a second attempt", short(r.MaxAge), short(r.Intervals[0])), "write a longer max_age, or remove it")
	case r.MaxAttempts > 1 && len(r.Intervals) > waits:
		c.report(under(r.Place, "intervals", schema.Problem{Code: "unused-interval", Warning: true,
			Message: fmt.Sprintf("only the first %d of these %d waits are used, since there are %d attempts in all", waits, len(r.Intervals), r.MaxAttempts),
			Remedy:  fmt.Sprintf("also write `max_attempts: %d`, or 0 for no limit", len(r.Intervals)+1)}))
	}
}

// backoff checks a pair of waits.
func (c *checker) backoff(path []string, first, longest time.Duration) {
	if n := find(c.root, append(path, "max_backoff")...); n != nil && first > longest && longest > 0 {
		c.complain(append(path, "max_backoff"), schema.Problem{Code: "retry-contradiction",
			Message: fmt.Sprintf("the longest wait, %s, is shorter than the first, %s", short(longest), short(first)), Remedy: fmt.Sprintf("write `backoff: %s` or less, or a longer max_backoff", short(longest))})
	}
}

// replay warns of a reader that waits for batches which wait for messages.
func (c *checker) replay() {
	e := c.spec.Engine
	if e.MaxReplay == 0 || e.MaxReplay >= e.MaxInFlight.Messages {
		return
	}
	c.complain([]string{"engine", "max_replay"}, schema.Problem{Code: "small-replay", Warning: true,
		Message: fmt.Sprintf("readers that keep a position stop at %d messages, before the %d of max_in_flight: they may wait for batches that wait for more messages", e.MaxReplay, e.MaxInFlight.Messages),
		Remedy:  fmt.Sprintf("write %d or more, or lower `max_in_flight.messages`", e.MaxInFlight.Messages)})
}

// under is a problem of a field of the value at a place.
func under(at schema.Place, key string, p schema.Problem) schema.Problem {
	at.Path = join(at.Path, key)
	if n := find(at.Node, key); n != nil {
		at.Node = n
	}
	return use{place: at}.complaint(p)
}

// short is a duration without the zeros that Go prints: 1m, not 1m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zeros) {
			text = text[:len(text)-2]
		}
	}
	return text
}
