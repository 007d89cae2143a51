package config

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// inherit gives the outputs and batchers of a file what they inherit from its section `defaults`. Steps inherit later, in
// the engine, since they may be inside others.
func (l *loader) inherit(f *file) {
	n := f.root.Lookup("defaults")
	if n == nil || n.Kind != schema.MapNode {
		return
	}
	d := schema.NewDecoder(l.options.Lookup)
	d.Decode(n, new(engine.Defaults))
	if slices.ContainsFunc(d.Problems(), func(p schema.Problem) bool { return !p.Warning }) {
		return // reported once, where they are written, and not for each component
	}
	eachMapping(f.root, "outputs", func(out *schema.Node) {
		if !l.isComposite(out) {
			merge(out, n.Lookup("outputs"), "defaults.outputs")
		}
	})
	types := engine.Batchers.Names()
	has := func(n *schema.Node, name string) bool { return n.Lookup(name) != nil }
	eachMapping(f.root, "batchers", func(b *schema.Node) {
		from := *n.Lookup("batchers")
		own := slices.IndexFunc(types, func(name string) bool { return has(b, name) })
		if own >= 0 && !has(&from, types[own]) { // the settings of another type are not for this one
			from.Keys, from.Items = slices.Clone(from.Keys), slices.Clone(from.Items)
			for i := len(from.Keys) - 1; i >= 0; i-- {
				if slices.Contains(types, from.Keys[i].Text) {
					from.Keys, from.Items = slices.Delete(from.Keys, i, i+1), slices.Delete(from.Items, i, i+1)
				}
			}
		}
		merge(b, &from, "defaults.batchers")
	})
}

// isComposite reports whether an output consists of others, which inherit in its place.
func (l *loader) isComposite(out *schema.Node) bool {
	for i, key := range out.Keys {
		if spec := engine.Outputs.Lookup(key.Text); spec != nil {
			config := spec.Type.Decode(schema.NewDecoder(l.options.Lookup), out.Items[i])
			return len(engine.TraitsOf(config).Members) > 0
		}
	}
	return false
}

// eachMapping calls edit with a copy of each mapping in a section, which takes its place: nodes may be shared by aliases.
func eachMapping(root *schema.Node, section string, edit func(*schema.Node)) {
	if n := root.Lookup("defaults").Lookup(section); n == nil || n.Kind != schema.MapNode {
		return
	}
	if n := root.Lookup(section); n != nil && n.Kind == schema.MapNode {
		for i, item := range n.Items {
			if item.Kind == schema.MapNode {
				n.Items[i] = shallow(item)
				edit(n.Items[i])
			}
		}
	}
}

// merge adds to a mapping what it lacks, field by field. origin is where that comes from.
func merge(to, from *schema.Node, origin string) {
	for i, key := range from.Keys {
		at := schema.Join(origin, key.Text)
		k := slices.IndexFunc(to.Keys, func(own *schema.Node) bool { return own.Text == key.Text })
		switch {
		case k < 0 && excluded(to, key.Text):
		case k < 0:
			to.Keys, to.Items = append(to.Keys, key), append(to.Items, originating(from.Items[i], at))
		case to.Items[k].Kind == schema.NullNode:
			to.Items[k] = originating(from.Items[i], at)
		case to.Items[k].Kind == schema.MapNode && from.Items[i].Kind == schema.MapNode:
			to.Items[k] = shallow(to.Items[k])
			merge(to.Items[k], from.Items[i], at)
		}
	}
}

// excluded reports whether a retry has waits of one kind, so that it inherits none of the other: see engine.Retry.Over.
func excluded(to *schema.Node, key string) bool {
	switch key {
	case "intervals":
		return to.Lookup("backoff") != nil || to.Lookup("max_backoff") != nil
	case "backoff", "max_backoff":
		return to.Lookup("intervals") != nil
	}
	return false
}

func shallow(n *schema.Node) *schema.Node {
	own := *n
	own.Keys, own.Items = slices.Clone(n.Keys), slices.Clone(n.Items)
	return &own
}

// originating returns a copy of a node that says where its value comes from. Problems keep the place in the file.
func originating(n *schema.Node, from string) *schema.Node {
	own := shallow(n)
	own.Inherits(from)
	for i, item := range own.Items {
		at := from
		if own.Kind == schema.MapNode {
			at = schema.Join(from, own.Keys[i].Text)
		}
		own.Items[i] = originating(item, at)
	}
	return own
}
