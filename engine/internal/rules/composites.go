package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// memberKeys are the keys of an output that have no effect on a composite output: its members have them.
var memberKeys = []string{"processors", "concurrency", "timeout", "retry", "rate_limit", "breaker", "on_failure"}

// checkComposites checks the outputs that consist of others, such as a `fallback`.
func (r *checker) checkComposites() {
	for name, o := range r.spec.Outputs.All() {
		members := engine.TraitsOf(o.Use.Config).Members
		if len(members) == 0 {
			continue
		}
		for i := range members {
			r.checkName(r.memberPlace(name, o, i), members, i)
		}
		for _, key := range memberKeys {
			if r.find("outputs", name, key) != nil {
				r.complain(r.key("outputs", name, key), schema.Problem{Code: "composite-key",
					Message: fmt.Sprintf("%s writes nothing itself, so %s has no effect here", o.Use.Name, key),
					Remedy:  "write it in the members: " + strings.Join(members, ", ")})
			}
		}
	}
	r.checkCycles()
}

// memberPlace is where the i-th member of a composite is named.
func (r *checker) memberPlace(name string, o engine.OutputSpec, i int) schema.Place {
	if o.Use.Place.Node == nil {
		return r.key("outputs", name)
	}
	return within(o.Use.Place, "outputs").Item(i)
}

// checkCycles finds composite outputs that contain themselves, directly or through others.
func (r *checker) checkCycles() {
	done := map[string]bool{}
	var follow func(name string, trail []string)
	follow = func(name string, trail []string) {
		if done[name] {
			return
		}
		trail = append(slices.Clip(trail), name)
		o, _ := r.spec.Outputs.Get(name)
		for i, m := range r.membersOf(name) {
			from := slices.Index(trail, m)
			if from < 0 {
				follow(m, trail)
				continue
			}
			r.complain(r.memberPlace(name, o, i), schema.Problem{Code: "output-cycle",
				Message: "the output leads back to itself: " + strings.Join(append(slices.Clip(trail[from:]), m),
					" → "),
				Remedy: "remove one of the names"})
		}
		done[name] = true
	}
	for name := range r.spec.Outputs.All() {
		follow(name, nil)
	}
}

// membersOf are the outputs that an output consists of. A misspelt name counts as the output that it most likely means.
func (r *checker) membersOf(name string) []string {
	o, _ := r.spec.Outputs.Get(name)
	var members []string
	for _, m := range engine.TraitsOf(o.Use.Config).Members {
		members = append(members, schema.Meant(m, r.outputs))
	}
	return members
}

// allMembers are the outputs that are members of others.
func (r *checker) allMembers() map[string]bool {
	all := map[string]bool{}
	for name := range r.spec.Outputs.All() {
		for _, m := range r.membersOf(name) {
			all[m] = true
		}
	}
	return all
}
