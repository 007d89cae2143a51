package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// checkStates checks the names that state() is called with, and where it is called.
func (l *loader) checkStates() {
	var all []runtime.Component
	for _, f := range l.files {
		all = append(all, runtime.Components(f.spec.Pipeline)...)
		all = append(all, runtime.Components(f.spec.Resources.Steps)...)
	}
	var names []string
	waits := map[string]bool{}
	for _, c := range all {
		k := engine.TraitsOf(c.Config).Keeps
		for _, name := range k.Names {
			waits[name] = k.Waits && (waits[name] || !slices.Contains(names, name))
			names = append(names, name)
		}
	}
	for _, f := range l.files {
		for _, call := range *schema.Shared[expr.Calls](f.decoder) {
			if call.Name == "state" {
				l.checkState(call, names, waits, all)
			}
		}
	}
}

func (l *loader) checkState(call expr.Call, names []string, waits map[string]bool, all []runtime.Component) {
	name, constant := call.Text(0)
	at := call.Args[0].Offset
	in := func(kind string) *runtime.Component {
		for i, c := range all {
			if c.Type == kind && c.Place.Pos.File == call.Place.Pos.File && schema.Within(call.Place.Path, c.Place.Path) {
				return &all[i]
			}
		}
		return nil
	}
	pool := in("pool")
	switch {
	case !constant:
		l.report(call.Problem(at, schema.Problem{Code: "state-name", Message: "the name must be a string in quotes",
			Remedy: `write state("name")`}))
	case !slices.Contains(names, name):
		l.report(call.Problem(at, schema.Problem{Code: "state-name", Message: fmt.Sprintf("no step `state` sets %q", name),
			Remedy: schema.Suggest(name, names, fmt.Sprintf("write a step `state: {key: …, set: {%s: …}}` before this", name))}))
	case pool != nil && remote(pool):
		l.report(call.Problem(call.Offset, schema.Problem{Code: "state-remote",
			Message: "workers in other processes can't read the state", Remedy: "copy it to a field before the pool, and read the field"}))
	case in("filter") != nil && !waits[name]:
		l.report(call.Problem(call.Offset, schema.Problem{Code: "state-unsettled", Warning: true,
			Message: "this depends on state of messages that may still fail: what it filters because of them is lost",
			Remedy:  "write `wait: true` in the step `state`"}))
	}
}

// remote reports whether a pool's workers are in other processes.
func remote(pool *runtime.Component) bool {
	n := pool.Place.At("workers").Node
	return n != nil && n.Text == "remote"
}
