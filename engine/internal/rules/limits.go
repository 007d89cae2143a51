package rules

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkLimits checks every rate limit, including those in resources.rate_limits.
func (r *checker) checkLimits() {
	for _, name := range slices.Sorted(maps.Keys(r.given.Limits)) {
		switch l := r.given.Limits[name]; {
		case l.Place.Node != nil && l.Name != "":
			r.wrongLimit(l, "name", "a named limit can't refer to another one", "write `messages` and `per`")
		default:
			r.checkLimit(l)
		}
	}
	schema.Walk(r.spec, func(v reflect.Value) {
		l, ok := reflect.TypeAssert[engine.RateLimit](v)
		switch {
		case !ok || l.Place.Node == nil:
		case l.Name == "":
			r.checkLimit(l)
		default:
			r.checkNamedLimit(l)
		}
	})
}

// checkLimit checks a rate limit that is written where it applies.
func (r *checker) checkLimit(l engine.RateLimit) {
	n := l.Place.Node
	if n == nil || n.Kind != schema.MapNode && n.Kind != schema.NullNode {
		return // made by a program, or the decoder has complained
	}
	switch messages, per := n.Lookup("messages") != nil, n.Lookup("per") != nil; {
	case !messages && !per:
		r.wrongLimit(l, "", "a rate limit is a number of messages per period",
			"write `{messages: 100, per: 1s}`, or the name of one of `resources.rate_limits`")
	case !messages:
		r.wrongLimit(l, "", "the number of messages is missing", "add `messages: 100`")
	case !per:
		r.wrongLimit(l, "", "the period is missing", "add `per: 1s`")
	}
	if n.Lookup("burst") != nil && cmp.Or(l.Kind, "window") == "window" {
		r.wrongLimit(l, "burst", "`burst` is only for `kind: bucket`: a window lets all of its messages pass at once",
			"add `kind: bucket`, or remove it")
	}
	if n.Lookup("max_keys") != nil && n.Lookup("key") == nil {
		r.wrongLimit(l, "max_keys", "`max_keys` has no effect without a `key`", "add `key`, or remove it")
	}
}

// checkNamedLimit refuses other fields beside the name of a limit.
func (r *checker) checkNamedLimit(l engine.RateLimit) {
	for _, key := range []string{"messages", "per", "kind", "burst", "key", "max_keys"} {
		if l.Place.Node.Find(key) != nil {
			r.wrongLimit(l, key, fmt.Sprintf("the limit %q sets this itself", l.Name),
				fmt.Sprintf("write it in `resources.rate_limits.%s`, or leave out `name`", l.Name))
		}
	}
}

// wrongLimit reports a problem at a field of a limit, or at the limit itself if the field is not written.
func (r *checker) wrongLimit(l engine.RateLimit, key, message, remedy string) {
	r.complain(within(l.Place, key), schema.Problem{Code: "bad-limit", Message: message, Remedy: remedy})
}
