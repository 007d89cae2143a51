// Package graph describes the routes of messages through a pipeline, and what each route guarantees. [Of] makes a [Graph] of a
// pipeline's configuration; [Graph.Text] and [Graph.Mermaid] draw it.
package graph

import (
	"slices"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Graph is a pipeline as a graph.
type Graph struct {
	Pipeline string   `json:"pipeline"`
	File     string   `json:"file"`
	Inputs   []Input  `json:"inputs"`
	Steps    []string `json:"steps,omitempty"` // that every message goes through, by name
	Batchers []Batch  `json:"batchers"`
	Outputs  []Output `json:"outputs"`
	Failed   string   `json:"failed,omitempty"` // the dead-letter output; "": there is none
	Routes   []Route  `json:"routes"`
}

// Input is an input of a pipeline.
type Input struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Steps []string `json:"steps,omitempty"`
}

// Batch is a batcher, in the order in which they are tried. Without batchers, there is one without a name.
type Batch struct {
	Name     string   `json:"name,omitempty"`
	Match    string   `json:"match,omitempty"` // the condition; "": it takes everything
	Continue bool     `json:"continue,omitempty"`
	Key      string   `json:"key,omitempty"`
	Steps    []string `json:"steps,omitempty"`
	Outputs  []string `json:"outputs"`
}

// Output is an output of a pipeline.
type Output struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Steps   []string `json:"steps,omitempty"`
	Members []string `json:"members,omitempty"` // the outputs that it consists of
	Failed  string   `json:"failed,omitempty"`  // the dead-letter output of its own
}

// Route is one way of messages from an input to an output that writes.
type Route struct {
	Input     string `json:"input"`
	Batcher   string `json:"batcher,omitempty"`
	Output    string `json:"output"`
	Guarantee string `json:"guarantee"` // at most once, at least once or exactly once
	Order     string `json:"order"`     // unordered, or what keeps its order
}

// Of returns the graph of a pipeline. Secrets are masked in expressions.
func Of(p config.Loaded, secrets *schema.Secrets) *Graph {
	spec := p.Spec
	g := &Graph{Pipeline: spec.Name, File: p.File, Steps: stepNames(spec.Processors), Failed: spec.Engine.OnFailure.DeadLetter}
	for name, in := range spec.Inputs.All() {
		g.Inputs = append(g.Inputs, Input{name, in.Use.Name, stepNames(in.Processors)})
	}
	for name, out := range spec.Outputs.All() {
		o := Output{Name: name, Type: out.Use.Name, Steps: stepNames(out.Processors), Members: engine.TraitsOf(out.Use.Config).Members}
		if out.OnFailure != nil {
			o.Failed = out.OnFailure.DeadLetter
		}
		g.Outputs = append(g.Outputs, o)
	}
	for _, e := range spec.Tried() {
		b := e.Value
		g.Batchers = append(g.Batchers, Batch{Name: e.Key, Match: secrets.Mask(b.Match.String()), Continue: b.Continue,
			Key: secrets.Mask(b.Key.String()), Steps: stepNames(b.Processors), Outputs: b.Output})
	}
	if len(g.Batchers) == 0 {
		g.Batchers = []Batch{{Outputs: spec.Unbatched()}}
	}
	g.routes(spec, secrets)
	return g
}

func stepNames(steps engine.Steps) (names []string) {
	for i := range steps {
		names = append(names, config.StepName(&steps[i]))
	}
	return names
}

// routes fills in g.Routes.
func (g *Graph) routes(spec *engine.Pipeline, secrets *schema.Secrets) {
	order := "unordered"
	if by := spec.Engine.OrderBy; !by.IsZero() && !spec.Engine.Unordered() {
		order = "in order by " + secrets.Mask(by.String())
	}
	for name, in := range spec.Inputs.All() {
		for _, b := range g.Batchers {
			for _, out := range g.leaves(b.Outputs, nil) {
				o, _ := spec.Outputs.Get(out)
				r := Route{Input: name, Batcher: b.Name, Output: out, Guarantee: guarantee(spec, in, o), Order: order}
				if order != "unordered" && b.Key != "" && b.Key != spec.Engine.OrderBy.String() {
					r.Order += " within each " + b.Key
				}
				g.Routes = append(g.Routes, r)
			}
		}
	}
}

// guarantee returns how often a message from one component arrives at another.
func guarantee(spec *engine.Pipeline, in engine.InputSpec, out engine.OutputSpec) string {
	for _, c := range runtime.Components(in) { // the inputs of a poll or a sequence, too
		if t := engine.TraitsOf(c.Config); t.AcksEarly || t.Forgets {
			return "at most once"
		}
	}
	from, to := engine.TraitsOf(in.Use.Config), engine.TraitsOf(out.Use.Config)
	switch {
	case spec.Engine.ExactlyOnce && from.Transacts != "" && from.Transacts == to.Transacts:
		return "exactly once"
	}
	return "at least once"
}

// leaves returns the outputs that write for those with these names. within are the outputs around them.
func (g *Graph) leaves(names, within []string) (all []string) {
	for _, name := range names {
		switch o := g.output(name); {
		case o == nil || slices.Contains(within, name): // a mistake that lint reports
		case len(o.Members) == 0:
			all = append(all, name)
		default:
			all = append(all, g.leaves(o.Members, append(within, name))...)
		}
	}
	return all
}

func (g *Graph) output(name string) *Output {
	if i := slices.IndexFunc(g.Outputs, func(o Output) bool { return o.Name == name }); i >= 0 {
		return &g.Outputs[i]
	}
	return nil
}
