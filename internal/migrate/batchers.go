package migrate

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"
)

// setRoutes makes batchers from the routes to outputs, as far as they are needed.
func (t *translator) setRoutes(routes []route) {
	if at := t.partedAt(); at != nil && slices.ContainsFunc(routes, func(r route) bool { return r.match != "" }) {
		t.says(at, beforeSteps)
	}
	const most = 5000
	ways := len(routes)
	if t.grouped != nil {
		ways *= 1 + len(t.grouped.parts)
	}
	if ways*len(t.batchesOf(t.everyInput())) > most {
		t.note(Untranslated, lookupOr(t.src.root, "output"), tooMany)
		put(t.engine, "untranslated", scalar(tooMany))
		return
	}
	if t.window == nil {
		routes = t.byInput(routes)
	}
	if g := t.grouped; g != nil && len(g.parts) > 0 {
		routes = t.parted(g, routes)
	}
	for i := range routes {
		r := &routes[i]
		if r.end != toOutputs {
			t.lead(r)
			continue
		}
		if g := t.grouped; g != nil && g.key != "" {
			r.key = g.key
			if i == 0 {
				r.head = join(g.head, r.head)
			}
		}
		if t.window != nil {
			r.window = t.windows(t.window)
		}
		r.steps = append(append([]*yaml.Node{}, t.behind...), r.steps...)
	}
	if len(routes) == 1 && routes[0].plain() && len(routes[0].outputs) == 1 && !routes[0].more {
		if len(t.outputs.Content) > 0 {
			t.outputs.Content[0].HeadComment = join(routes[0].head, t.outputs.Content[0].HeadComment)
		}
		return
	}
	for i, r := range routes {
		b := mapping()
		switch {
		case r.long:
			t.note(Untranslated, lookupOr(t.src.root, "output"), tooLong)
			put(b, "untranslated", scalar(tooLong))
		case r.match != "":
			put(b, "match", code(r.match))
		case i < len(routes)-1: // routes without a condition are tried last
			put(b, "match", code("true"))
		}
		if r.more {
			put(b, "continue", code("true"))
		}
		if r.key != "" {
			put(b, "key", code(r.key))
		}
		switch {
		case r.window != nil:
			put(b, "window", r.window)
		case r.batch != nil:
			policy := plainComments(r.batch)
			r.head, policy.HeadComment = join(r.head, policy.HeadComment), ""
			put(b, "batch", policy)
		}
		if len(r.steps) > 0 {
			put(b, "processors", list(copies(r.steps)...))
		}
		if len(r.outputs) == 1 {
			put(b, "output", scalar(r.outputs[0]))
		} else {
			all := list()
			for _, o := range r.outputs {
				all.Content = append(all.Content, scalar(o))
			}
			put(b, "output", all)
		}
		name := r.name
		for i := 2; lookup(t.batchers, name) != nil; i++ {
			name = fmt.Sprintf("%s_%d", r.name, i)
		}
		key := scalar(name)
		key.HeadComment = r.head
		t.batchers.Content = append(t.batchers.Content, key, b)
	}
}

// Limits of the written file, beyond which nobody could read it.
const (
	tooLong = "the condition would be too long to be read"
	tooMany = "these are too many batchers: one for each output, group and input with a batch of its own"
)

const beforeSteps = "the conditions of outputs see a message as it was before the steps of its batch"

// partedAt returns the batch steps of the file that run after outputs are chosen, or nil.
func (t *translator) partedAt() *yaml.Node {
	switch g := t.grouped; {
	case g != nil && (len(t.behind) > 0 || slices.ContainsFunc(g.parts, func(p part) bool { return len(p.steps) > 0 })):
		return g.at
	case t.window != nil && len(t.behind) > 0:
		return t.window
	}
	return nil
}

// lead ends a route that leads to no output of the file with one that drops, or fails, its messages.
func (t *translator) lead(r *route) {
	name, steps := "nowhere", []*yaml.Node(nil)
	if r.end == toFailure {
		name, steps = "refused", []*yaml.Node{short("fail", "no case of a switch takes this message")}
	}
	if r.outputs = []string{name}; lookup(t.outputs, name) != nil {
		return
	}
	made := mapping("drop", mapping())
	if len(steps) > 0 {
		put(made, "processors", list(steps...))
	}
	t.names["output "+name] = true
	put(t.outputs, name, made)
}
