package config

import (
	"fmt"
	"math"

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
func (c *checker) fill() {
	all, splits := c.groups()
	for name, b := range c.spec.Batchers.All() {
		sized, ok := b.Use.Config.(engine.Sized)
		if path := []string{"batchers", name, b.Use.Name, "size"}; ok && find(c.root, path...) != nil {
			all = append(all, wanted{size: sized.Wants(), what: "batch", path: path})
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
	if n := c.spec.Engine.MaxInFlight.Messages; n > 0 && n < most.size {
		c.complain([]string{"engine", "max_in_flight", "messages"}, c.neverFills(most, fmt.Sprintf("only %s may be in flight at once", count(n)), fmt.Sprintf("write %d", most.size)))
		return
	}
	unsettled := 0
	for _, in := range c.spec.Inputs.All() {
		b, ok := in.Use.Config.(engine.Bounded)
		if !ok {
			return
		}
		n := b.Unsettled()
		if n == math.MaxInt {
			return // the others are not needed
		}
		unsettled += n * max(1, in.Concurrency)
	}
	if unsettled >= most.size {
		return
	}
	for name, in := range c.spec.Inputs.All() {
		path := []string{"inputs", name, in.Use.Name}
		if find(c.root, append(path, "prefetch")...) != nil {
			path = append(path, "prefetch")
		}
		why := fmt.Sprintf("the sources deliver only %s at a time, so it leaves at its timeout", count(unsettled))
		c.complain(path, c.neverFills(most, why, fmt.Sprintf("write `prefetch: %d`", most.size)))
		return // one says it for all
	}
}

// groups are the sizes of the groups among the pipeline's steps, and whether one splits.
func (c *checker) groups() (all []wanted, splits bool) {
	for _, s := range c.spec.Processors {
		splits = splits || s.Use.Name == "split"
		if g, ok := s.Use.Config.(engine.GroupConfig); ok && g.Size > 0 {
			all = append(all, wanted{size: g.Size, what: "group", at: s.Use.Place})
		}
	}
	return all, splits
}

func (c *checker) neverFills(w wanted, why, remedy string) schema.Problem {
	path := w.at.Path + ".size"
	if w.path != nil {
		path = ""
		for _, key := range w.path {
			path = join(path, key)
		}
	}
	return schema.Problem{Code: "never-full", Warning: true, Message: fmt.Sprintf("a %s of %d (%s) never fills: %s", w.what, w.size, path, why), Remedy: remedy + " or more, or a smaller `size`"}
}

func count(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
