package config

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkLimits checks every rate limit, and the names against resources.rate_limits.
func (l *loader) checkLimits() {
	var names []string
	owner := map[string]*file{}
	for _, f := range l.files {
		for name, r := range f.spec.Resources.RateLimits.All() {
			names = append(names, name)
			owner[name] = f
			l.defined(r)
		}
	}
	used := map[string]bool{}
	for _, f := range l.files {
		for _, in := range []any{f.spec.Pipeline, f.spec.Resources.Steps} {
			walk(reflect.ValueOf(in), 0, func(v reflect.Value) {
				if v.Type() != limitType {
					return
				}
				r := v.Interface().(engine.RateLimit)
				switch {
				case r.Place.Node == nil:
				case r.Name == "":
					l.limit(r)
				default:
					used[meant(r.Name, names)] = true
					l.named(r)
					if owner[r.Name] == nil {
						l.report(limitProblem(r, "name", schema.Problem{Code: "unknown-limit", Message: fmt.Sprintf("resources.rate_limits has no %q", r.Name), Remedy: didYouMean(r.Name, names, fmt.Sprintf("add %q to `resources.rate_limits`", r.Name))}))
					}
				}
			})
		}
	}
	for _, name := range names {
		if !used[name] {
			c := checker{file: owner[name], report: l.report}
			c.complainKey([]string{"resources", "rate_limits", name}, schema.Problem{Code: "unused-limit", Warning: true, Message: "nothing uses this limit", Remedy: fmt.Sprintf("name it with `rate_limit: %s` in an input, an output, a step or `engine`, or remove it", name)})
		}
	}
}

// limit checks a rate limit that is given where it holds.
func (l *loader) limit(r engine.RateLimit) {
	n := r.Place.Node
	if n.Kind != schema.MapNode && n.Kind != schema.NullNode {
		return // the decoder has complained
	}
	wrong := func(key, message, remedy string) {
		l.report(limitProblem(r, key, schema.Problem{Code: "bad-limit", Message: message, Remedy: remedy}))
	}
	switch messages, per := n.Lookup("messages") != nil, n.Lookup("per") != nil; {
	case !messages && !per:
		wrong("", "a rate limit is a number of messages per period", "write `{messages: 100, per: 1s}`, or the name of one of `resources.rate_limits`")
	case !messages:
		wrong("", "the number of messages is missing", "add `messages: 100`")
	case !per:
		wrong("", "the period is missing", "add `per: 1s`")
	}
	if n.Lookup("burst") != nil && cmp.Or(r.Kind, "window") == "window" {
		wrong("burst", "a burst is for a bucket: a window lets all of its messages pass at once", "add `kind: bucket`, or remove it")
	}
	if n.Lookup("max_keys") != nil && n.Lookup("key") == nil {
		wrong("max_keys", "there is no key that could have too many values", "add `key`, or remove it")
	}
}

// named refuses what a limit says in addition to a name.
func (l *loader) named(r engine.RateLimit) {
	for _, key := range []string{"messages", "per", "kind", "burst", "key", "max_keys"} {
		if find(r.Place.Node, key) != nil {
			l.report(limitProblem(r, key, schema.Problem{Code: "bad-limit", Message: fmt.Sprintf("the limit %q sets this itself", r.Name),
				Remedy: fmt.Sprintf("write it in `resources.rate_limits.%s`, or leave out `name`", r.Name)}))
		}
	}
}

// defined checks an entry of resources.rate_limits.
func (l *loader) defined(r engine.RateLimit) {
	switch {
	case r.Name != "":
		l.report(limitProblem(r, "name", schema.Problem{Code: "bad-limit", Message: "a named limit can't refer to another one", Remedy: "write `messages` and `per`"}))
	case r.Place.Node != nil:
		l.limit(r)
	}
}

// limitProblem is a problem of a rate limit's field; of the whole where the field is
// left out or the limit is a bare name.
func limitProblem(r engine.RateLimit, key string, p schema.Problem) schema.Problem {
	if find(r.Place.Node, key) == nil {
		return use{place: r.Place}.complaint(p)
	}
	return under(r.Place, key, p)
}
