package config

import (
	"fmt"
	"reflect"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkLimits checks the names of rate limits against resources.rate_limits.
func (l *loader) checkLimits() {
	var names []string
	owner := map[string]*file{}
	for _, f := range l.files {
		for name := range f.spec.Resources.RateLimits.All() {
			names = append(names, name)
			owner[name] = f
		}
	}
	used := map[string]bool{}
	for _, f := range l.files {
		for _, in := range []any{f.spec.Pipeline, f.spec.Resources.Steps} {
			schema.Walk(in, func(v reflect.Value) {
				r, ok := reflect.TypeAssert[engine.RateLimit](v)
				if !ok || r.Place.Node == nil || r.Name == "" {
					return
				}
				used[schema.Meant(r.Name, names)] = true
				if owner[r.Name] == nil {
					at := r.Place
					if at.Node.Find("name") != nil {
						at = at.At("name")
					}
					l.complain(at, schema.Problem{Code: "unknown-limit", Message: fmt.Sprintf("resources.rate_limits has no %q", r.Name),
						Remedy: schema.Suggest(r.Name, names, fmt.Sprintf("add %q to `resources.rate_limits`", r.Name))})
				}
			})
		}
	}
	for _, name := range names {
		if !used[name] {
			l.complain(owner[name].top().Key("resources", "rate_limits", name), schema.Problem{Code: "unused-limit", Warning: true, Message: "nothing keeps this limit", Remedy: fmt.Sprintf("name it by `rate_limit: %s` in an input, an output, a step or `engine`, or remove it", name)})
		}
	}
}
