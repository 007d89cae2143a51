package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkSteps checks the uses of resources.steps: `- steps: NAME`.
func (l *loader) checkSteps() {
	g := stepGraph{lists: map[string]list{}, used: map[string]bool{}, report: l.report}
	for _, f := range l.files {
		for _, e := range f.spec.Resources.Steps.Entries() {
			g.names = append(g.names, e.Key)
			g.lists[e.Key] = list{file: f, uses: stepUses(e.Value)}
		}
	}
	for _, name := range g.names {
		for _, u := range g.lists[name].uses {
			g.known(u)
		}
		g.cycles(name, nil)
	}
	for _, f := range l.files {
		for _, u := range stepUses(f.spec.Pipeline) {
			g.known(u)
			g.reach(meant(u.name(), g.names))
		}
	}
	for _, name := range g.names {
		if !g.used[name] {
			c := checker{file: g.lists[name].file, report: l.report}
			c.complainKey([]string{"resources", "steps", name}, schema.Problem{Code: "unused-steps", Warning: true, Message: "no pipeline uses these steps", Remedy: fmt.Sprintf("use them with `- steps: %s`, or remove them", name)})
		}
	}
}

// stepGraph is what the named lists of steps use of one another.
type stepGraph struct {
	names  []string // in the order written
	lists  map[string]list
	used   map[string]bool
	done   map[string]bool // lists that have been searched for cycles
	report func(...schema.Problem)
}

type list struct {
	file *file
	uses []use
}

// stepUses are the places in v that use a named list.
func stepUses(v any) []use {
	return slices.DeleteFunc(uses(v), func(u use) bool { return u.kind != engine.Processors.Kind() || u.plugin != "steps" || u.name() == "" })
}

// known complains unless there is a list of that name.
func (g *stepGraph) known(u use) {
	if _, ok := g.lists[u.name()]; ok {
		return
	}
	g.report(u.complaint(schema.Problem{Code: "unknown-steps", Message: fmt.Sprintf("resources.steps has no %q", u.name()), Remedy: didYouMean(u.name(), g.names, fmt.Sprintf("add %q to `resources.steps`", u.name()))}))
}

// reach marks a list, and those that it uses, as used.
func (g *stepGraph) reach(name string) {
	if g.used[name] {
		return
	}
	g.used[name] = true
	for _, u := range g.lists[name].uses {
		g.reach(meant(u.name(), g.names))
	}
}

// cycles follows the uses from a list, by way of the lists in trail.
func (g *stepGraph) cycles(name string, trail []string) {
	if g.done[name] {
		return
	}
	trail = append(slices.Clip(trail), name)
	for _, u := range g.lists[name].uses {
		if i := slices.Index(trail, u.name()); i >= 0 {
			g.report(u.complaint(schema.Problem{Code: "steps-cycle", Message: "these steps use themselves: " + strings.Join(append(slices.Clip(trail[i:]), u.name()), " → "), Remedy: "remove one of the uses"}))
			continue
		}
		g.cycles(u.name(), trail)
	}
	if g.done == nil {
		g.done = map[string]bool{}
	}
	g.done[name] = true
}
