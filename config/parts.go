package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/schema"
)

// sequence is the input whose parts may be names of other inputs.
const sequence = "sequence"

// badPart is the lint code of an input that a sequence can't read.
const badPart = "bad-part"

// nameParts puts each input that a sequence names in the place of its name. The sequence reads it then, so it is no longer
// an input by itself.
func (l *loader) nameParts(f *file) {
	inputs := f.root.Lookup("inputs")
	if inputs == nil || inputs.Kind != schema.MapNode {
		return
	}
	p := parts{loader: l, inputs: inputs, readBy: map[string]string{}}
	for i, key := range inputs.Keys {
		inputs.Items[i] = p.within(schema.Join("inputs", key.Text), inputs.Items[i], []string{key.Text})
	}
	for name := range p.readBy {
		i := p.index(name)
		inputs.Keys, inputs.Items = slices.Delete(inputs.Keys, i, i+1), slices.Delete(inputs.Items, i, i+1)
	}
}

// parts finds the inputs that the sequences of a file name.
type parts struct {
	loader *loader
	inputs *schema.Node
	readBy map[string]string // by name of an input: the path of the part that reads it
}

func (p *parts) index(name string) int {
	return slices.IndexFunc(p.inputs.Keys, func(key *schema.Node) bool { return key.Text == name })
}

// within returns an input with named inputs in the place of their names. around are the names of the inputs around it.
func (p *parts) within(path string, in *schema.Node, around []string) *schema.Node {
	if in.Kind != schema.MapNode {
		return in
	}
	at := slices.IndexFunc(in.Keys, func(key *schema.Node) bool { return key.Text == sequence })
	if at < 0 {
		return in
	}
	list, path := in.Items[at], schema.Join(path, sequence)
	long := list.Kind == schema.MapNode
	if long {
		if list = list.Lookup("inputs"); list == nil {
			return in
		}
		path = schema.Join(path, "inputs")
	}
	if list.Kind != schema.ListNode {
		return in
	}
	in, list = shallow(in), shallow(list)
	items := list.Items
	list.Items = nil
	for i, item := range items {
		if part := p.part(fmt.Sprintf("%s[%d]", path, i), item, around); part != nil {
			list.Items = append(list.Items, part)
		}
	}
	if !long {
		in.Items[at] = list
		return in
	}
	in.Items[at] = shallow(in.Items[at])
	for i, key := range in.Items[at].Keys {
		if key.Text == "inputs" {
			in.Items[at].Items[i] = list
		}
	}
	return in
}

// part returns the input that a part names, or the part itself. It returns nil if it has reported a problem.
func (p *parts) part(path string, part *schema.Node, around []string) *schema.Node {
	if part.Kind != schema.TextNode {
		return p.within(path, part, around)
	}
	name := part.Text
	i := p.index(name)
	problem := func(message, remedy string) *schema.Node {
		p.loader.report(part.Problem(schema.Problem{Path: path, Code: badPart, Message: message, Remedy: remedy}))
		return nil
	}
	switch other, taken := p.readBy[name]; {
	case i < 0:
		return part
	case slices.Contains(around, name):
		return problem(fmt.Sprintf("the input %s would be a part of itself", name), "remove it from this list")
	case taken:
		return problem(fmt.Sprintf("the input %s is already read by %s", name, other), "name it once")
	}
	p.readBy[name] = path
	in := p.within(schema.Join("inputs", name), p.inputs.Items[i], append(slices.Clone(around), name))
	p.inputs.Items[i] = in
	if in.Kind != schema.MapNode {
		return in
	}
	in = shallow(in)
	for k := len(in.Keys) - 1; k >= 0; k-- {
		if key := in.Keys[k]; slices.Contains(commonKeys, key.Text) {
			p.loader.report(key.Problem(schema.Problem{Path: schema.Join(schema.Join("inputs", name), key.Text), Code: badPart,
				Message: fmt.Sprintf("has no effect, since %s reads this input", path),
				Remedy:  fmt.Sprintf("write it beside `%s`, where it applies to all inputs of the sequence", sequence)}))
			in.Keys, in.Items = slices.Delete(in.Keys, k, k+1), slices.Delete(in.Items, k, k+1)
		}
	}
	return in
}

// commonKeys are the keys beside the type of an input, which a part of a sequence does not have.
var commonKeys = []string{"concurrency", "processors", "rate_limit"}
