package rules

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// wanted is how many messages a batch or a group waits for.
type wanted struct {
	size  int
	what  string // "batch" or "group"
	where string // the path of its size in the configuration
}

// checkSizes warns of batches and groups that never fill, because no more messages arrive before the first ones are
// settled. Behind a split, one message may become many, so nothing is known there.
func (r *checker) checkSizes() {
	var all []wanted
	for _, s := range r.spec.Processors {
		if s.Use.Name == "split" {
			return
		}
		if g, ok := s.Use.Config.(engine.GroupConfig); ok && g.Size > 0 {
			all = append(all, wanted{g.Size, "group", s.Use.Place.Path + ".size"})
		}
	}
	for name, b := range r.spec.Batchers.All() {
		size := engine.TraitsOf(b.Use.Config).Size
		if path := []string{"batchers", name, b.Use.Name, "size"}; size > 0 && r.find(path...) != nil {
			all = append(all, wanted{size, "batch", r.at(path...).Path})
		}
	}
	if len(all) == 0 {
		return
	}
	most := slices.MaxFunc(all, func(a, b wanted) int { return a.size - b.size })
	if n := r.spec.Engine.MaxInFlight.Messages; n > 0 && n < most.size {
		r.complain(r.at("engine", "max_in_flight", "messages"),
			neverFills(most, fmt.Sprintf("only %s may be in flight at once", count(n)),
				fmt.Sprintf("write %d", most.size)))
		return
	}
	unsettled := 0
	for _, in := range r.spec.Inputs.All() {
		n := engine.TraitsOf(in.Use.Config).Unsettled
		if n == 0 {
			return // this input alone gives enough
		}
		unsettled += n * max(1, in.Concurrency)
	}
	if unsettled >= most.size {
		return
	}
	for name, in := range r.spec.Inputs.All() {
		at := within(r.at("inputs", name, in.Use.Name), "prefetch")
		why := fmt.Sprintf("the sources deliver only %s at a time, so it leaves at its timeout", count(unsettled))
		r.complain(at, neverFills(most, why, fmt.Sprintf("write `prefetch: %d`", most.size)))
		return // one warning is enough
	}
}

func neverFills(w wanted, why, remedy string) schema.Problem {
	return schema.Problem{Code: "never-full", Warning: true, Message: fmt.Sprintf("a %s of %d (%s) never fills: %s",
		w.what, w.size, w.where, why), Remedy: remedy + " or more, or a smaller `size`"}
}

func count(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
