package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/internal/operations/service"
)

// causes are the reasons that make a component a bottleneck. Others follow from them, or are what an operator wants.
var causes = []string{service.WhyStuck, service.WhyBreaker, service.WhyStalled, service.WhyBusy, service.WhyLimit, service.WhyHold}

// bottleneck finds what the pipeline waits for, and marks it among the components. What was so before, too, comes first: a
// single state may have caught a moment.
func (p *Pipeline) bottleneck(old, now service.Pipeline) {
	var first *service.Wait
	for i, w := range now.Waits {
		if !slices.Contains(causes, w.Why) {
			continue
		}
		lasts := slices.ContainsFunc(old.Waits, func(o service.Wait) bool { return o.Who == w.Who && o.Why == w.Why })
		if first == nil && (lasts || held(now) || w.Why != service.WhyBusy) {
			first = &now.Waits[i]
		}
		if lasts {
			first = &now.Waits[i]
			break
		}
	}
	if first == nil {
		return
	}
	b := Bottleneck{Component: first.Who, Why: first.Why, Detail: first.Detail}
	switch {
	case first.Who == "lanes":
		if step, share := slowest(old, now); step != "" {
			b.Component = "step " + step
			b.Detail = fmt.Sprintf("all %d lanes busy, %.0f %% of the time with this step", now.Lanes.Max, 100*share)
		}
	case first.Who == "messages": // For is "a retry of output lake"
		if _, at, found := strings.Cut(first.For, " of "); found {
			b.Component = at
		}
	}
	p.Bottleneck = &b
	for i := range p.Components {
		x := &p.Components[i]
		x.Bottleneck = x.Kind+" "+x.Name == b.Component || first.Why == service.WhyLimit && "limit "+x.Name == first.For
	}
}

// held says that an input reads less than it could.
func held(p service.Pipeline) bool {
	return slices.ContainsFunc(p.Inputs, func(in service.Input) bool { return in.State == "waiting" || in.State == "limited" })
}

// slowest returns the step on which lanes have spent most time between two states, and its share.
func slowest(old, now service.Pipeline) (name string, share float64) {
	most, sum := 0.0, 0.0
	for _, s := range now.Steps {
		if s.Place != "processors" {
			continue
		}
		was := find(old.Steps, func(o service.Step) bool { return o.Place == s.Place && o.Name == s.Name })
		spent := max(0, s.Latency.Mean*float64(s.Latency.Count)-was.Latency.Mean*float64(was.Latency.Count))
		if sum += spent; spent > most {
			most, name = spent, s.Name
		}
	}
	if sum == 0 {
		return "", 0
	}
	return name, most / sum
}
