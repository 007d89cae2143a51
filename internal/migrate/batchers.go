package migrate

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// setRoutes makes batchers of the ways to outputs, as far as they are needed.
func (t *translator) setRoutes(routes []route) {
	batch := t.inputBatch()
	if g := t.grouped; g != nil && len(g.parts) > 0 {
		routes = t.parted(g, routes)
	}
	for i := range routes {
		r := &routes[i]
		if g := t.grouped; g != nil && g.key != "" {
			r.key = g.key
			if i == 0 {
				r.head = join(g.head, r.head)
			}
		}
		if t.windowed() {
			r.window = t.window(lookup(t.batching, "system_window"))
		} else if r.batch == nil {
			r.batch = batch
		}
		r.steps = append(append([]*yaml.Node{}, t.behind...), r.steps...)
	}
	if len(routes) == 1 && routes[0].plain() && len(routes[0].outputs) == 1 && !routes[0].more {
		if len(t.outputs.Content) > 0 {
			t.outputs.Content[0].HeadComment = join(routes[0].head, t.outputs.Content[0].HeadComment)
		}
		return
	}
	for _, r := range routes {
		b := mapping()
		if r.match != "" {
			put(b, "match", code(r.match))
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
