package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// ofMembers are the keys that only say something about what is written to.
var ofMembers = []string{"processors", "concurrency", "timeout", "retry", "rate_limit", "breaker", "on_failure"}

// composites checks the outputs that consist of others, such as a `fallback`.
func (r *rules) composites() {
	for name, o := range r.spec.Outputs.All() {
		members := engine.TraitsOf(o.Use.Config).Members
		if len(members) == 0 {
			continue
		}
		for i := range members {
			r.listed(r.member(name, o, i), members, i)
		}
		for _, key := range ofMembers {
			if r.find("outputs", name, key) != nil {
				r.complain(r.key("outputs", name, key), schema.Problem{Code: "composite-key",
					Message: fmt.Sprintf("%s writes nothing itself, so %s has no effect here", o.Use.Name, key),
					Remedy:  "write it in the members: " + strings.Join(members, ", ")})
			}
		}
	}
	r.circles()
}

// member is where the i-th member of a composite is named.
func (r *rules) member(name string, o engine.OutputSpec, i int) schema.Place {
	if o.Use.Place.Node == nil {
		return r.key("outputs", name)
	}
	return within(o.Use.Place, "outputs").Item(i)
}

// circles finds outputs that lead back to themselves.
func (r *rules) circles() {
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
			r.complain(r.member(name, o, i), schema.Problem{Code: "output-cycle",
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

// membersOf are the outputs that one consists of, as they are most likely meant.
func (r *rules) membersOf(name string) []string {
	o, _ := r.spec.Outputs.Get(name)
	var members []string
	for _, m := range engine.TraitsOf(o.Use.Config).Members {
		members = append(members, schema.Meant(m, r.outputs))
	}
	return members
}

// members are all outputs that others consist of.
func (r *rules) members() map[string]bool {
	all := map[string]bool{}
	for name := range r.spec.Outputs.All() {
		for _, m := range r.membersOf(name) {
			all[m] = true
		}
	}
	return all
}
