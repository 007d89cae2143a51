package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// ofMembers are the keys that only say something about what is written to.
var ofMembers = []string{"processors", "concurrency", "timeout", "retry", "rate_limit", "breaker", "on_failure"}

// composites checks the outputs that consist of others, such as a `fallback`.
func (c *checker) composites() {
	outputs := c.names("outputs")
	for name, o := range c.spec.Outputs.All() {
		composed, ok := o.Use.Config.(engine.Composed)
		if !ok {
			continue
		}
		for i, m := range composed.Members() {
			at, path := c.member(name, o, i)
			switch {
			case slices.Contains(composed.Members()[:i], m):
				c.report(problemAt(at, schema.Problem{Path: path, Code: "repeated-output", Message: fmt.Sprintf("the output %q is given twice", m), Remedy: "name it once"}))
			case !slices.Contains(outputs, m):
				c.report(problemAt(at, unknownOutput(path, m, outputs)))
			}
		}
		for _, key := range ofMembers {
			if find(c.root, "outputs", name, key) != nil {
				c.complainKey([]string{"outputs", name, key}, schema.Problem{Code: "composite-key",
					Message: fmt.Sprintf("%s writes nothing itself, so %s has no effect here", o.Use.Name, key),
					Remedy:  "write it in the members: " + strings.Join(composed.Members(), ", ")})
			}
		}
	}
	c.circles()
}

// member is where the i-th member of a composite is named.
func (c *checker) member(name string, o engine.OutputSpec, i int) (*schema.Node, string) {
	n, path := o.Use.Place.Node, o.Use.Place.Path
	if n == nil {
		return keyAt(c.root, []string{"outputs", name}), path
	}
	if n.Kind == schema.MapNode {
		if list := n.Lookup("outputs"); list != nil {
			n, path = list, join(path, "outputs")
		}
	}
	if n.Kind == schema.ListNode && i < len(n.Items) {
		n, path = n.Items[i], path+"["+strconv.Itoa(i)+"]"
	}
	return n, path
}

// circles finds outputs that lead back to themselves, and whether there are any.
func (c *checker) circles() {
	done := map[string]bool{}
	var follow func(name string, trail []string)
	follow = func(name string, trail []string) {
		if done[name] {
			return
		}
		trail = append(slices.Clip(trail), name)
		o, _ := c.spec.Outputs.Get(name)
		for i, m := range c.membersOf(name) {
			from := slices.Index(trail, m)
			if from < 0 {
				follow(m, trail)
				continue
			}
			at, path := c.member(name, o, i)
			c.report(problemAt(at, schema.Problem{Path: path, Code: "output-cycle",
				Message: "the output leads back to itself: " + strings.Join(append(slices.Clip(trail[from:]), m), " → "),
				Remedy:  "remove one of the names"}))
		}
		done[name] = true
	}
	for name := range c.spec.Outputs.All() {
		follow(name, nil)
	}
}

// membersOf are the outputs that one consists of, as they are most likely meant.
func (c *checker) membersOf(name string) []string {
	o, _ := c.spec.Outputs.Get(name)
	composed, ok := o.Use.Config.(engine.Composed)
	if !ok {
		return nil
	}
	var members []string
	for _, m := range composed.Members() {
		members = append(members, meant(m, c.names("outputs")))
	}
	return members
}

// members are all outputs that others consist of.
func (c *checker) members() map[string]bool {
	all := map[string]bool{}
	for name := range c.spec.Outputs.All() {
		for _, m := range c.membersOf(name) {
			all[m] = true
		}
	}
	return all
}
