package rules

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// wanted is how many messages are to be collected somewhere.
type wanted struct {
	size int
	what string       // a batch, or a group
	at   schema.Place // where that is written
	path []string     // instead of at
}

// fill warns of batches that never fill, since no more messages arrive before the first
// ones are settled. A split turns one into many, so nothing is known after it.
func (r *rules) fill() {
	all, splits := r.groups()
	for name, b := range r.spec.Batchers.All() {
		size := engine.TraitsOf(b.Use.Config).Size
		if path := []string{"batchers", name, b.Use.Name, "size"}; size > 0 && r.find(path...) != nil {
			all = append(all, wanted{size: size, what: "batch", path: path})
		}
	}
	if splits || len(all) == 0 {
		return
	}
	most := all[0]
	for _, w := range all {
		if w.size > most.size {
			most = w
		}
	}
	if n := r.spec.Engine.MaxInFlight.Messages; n > 0 && n < most.size {
		r.complain(r.at("engine", "max_in_flight", "messages"),
			r.neverFills(most, fmt.Sprintf("only %s may be in flight at once", count(n)),
				fmt.Sprintf("write %d", most.size)))
		return
	}
	unsettled := 0
	for _, in := range r.spec.Inputs.All() {
		n := engine.TraitsOf(in.Use.Config).Unsettled
		if n == 0 {
			return // the others are not needed
		}
		unsettled += n * max(1, in.Concurrency)
	}
	if unsettled >= most.size {
		return
	}
	for name, in := range r.spec.Inputs.All() {
		path := []string{"inputs", name, in.Use.Name}
		if r.find(append(path, "prefetch")...) != nil {
			path = append(path, "prefetch")
		}
		why := fmt.Sprintf("the sources deliver only %s at a time, so it leaves at its timeout", count(unsettled))
		r.complain(r.at(path...), r.neverFills(most, why, fmt.Sprintf("write `prefetch: %d`", most.size)))
		return // one says it for all
	}
}

// groups are the sizes of the groups among the pipeline's steps, and whether one splits.
func (r *rules) groups() (all []wanted, splits bool) {
	for _, s := range r.spec.Processors {
		splits = splits || s.Use.Name == "split"
		if g, ok := s.Use.Config.(engine.GroupConfig); ok && g.Size > 0 {
			all = append(all, wanted{size: g.Size, what: "group", at: s.Use.Place})
		}
	}
	return all, splits
}

func (r *rules) neverFills(w wanted, why, remedy string) schema.Problem {
	path := w.at.Path + ".size"
	if w.path != nil {
		path = ""
		for _, key := range w.path {
			path = schema.Join(path, key)
		}
	}
	return schema.Problem{Code: "never-full", Warning: true, Message: fmt.Sprintf("a %s of %d (%s) never fills: %s",
		w.what, w.size, path, why), Remedy: remedy + " or more, or a smaller `size`"}
}

func count(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
