package migrate

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// component is a component being translated.
type component struct {
	kind   string     // input, output, processor, cache, rate_limit
	node   *yaml.Node // in the source file
	key    *yaml.Node // its type
	config *yaml.Node // the type's configuration
	label  string

	entry  *entry
	ctx    ctx
	out    *yaml.Node // flowd's configuration of the type
	common *yaml.Node // flowd's keys next to the type
	before []*yaml.Node
}

// ctx says where steps are.
type ctx struct {
	batch bool // among batch steps
	alone bool // on a copy, where messages can't be split or merged
	catch bool // among steps that repair a failed message

	packed bool // on a copy that archive has turned into an array with one element
}

// commonKeys are the keys next to the type of a component.
var commonKeys = map[string]bool{"label": true, "type": true, "processors": true, "description": true, "plugin": true}

// open finds the type of a component, or says why there is none.
func (t *translator) open(kind string, n *yaml.Node) (*component, string) {
	if n.Kind == yaml.ScalarNode && t.src.env.has(n.Value) {
		return nil, "a component can't come from the environment: placeholders are replaced in values"
	}
	if n.Kind == yaml.ScalarNode && n.Value != "" && !isNull(n) {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column,
			Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: n.Value, Line: n.Line, Column: n.Column}, mapping()}}
	}
	if n.Kind != yaml.MappingNode {
		return nil, "a component is a mapping with its type as a key"
	}
	c := &component{kind: kind, node: n, label: text(n, "label"), out: mapping(), common: mapping()}
	named := text(n, "type")
	for _, p := range pairsOf(n) {
		if p.key.Value == named || named == "" && !commonKeys[p.key.Value] && c.key == nil {
			c.key, c.config = p.key, p.value
			continue
		}
		if kind == "processor" && p.key.Value == "processors" && c.key == nil {
			continue
		}
		if !commonKeys[p.key.Value] && named == "" {
			return c, fmt.Sprintf("\"%s\" and \"%s\" are both types: a component has one", c.key.Value, p.key.Value)
		}
	}
	if c.key == nil && named != "" {
		c.key, c.config = lookup(n, "type"), mapping()
		c.key = &yaml.Node{Kind: yaml.ScalarNode, Value: named, Line: c.key.Line, Column: c.key.Column}
	}
	if c.key == nil {
		return c, "the type of the component is missing"
	}
	return c, ""
}

// fill translates the fields of a component with its entry in the table.
func (t *translator) fill(c *component) {
	if c.entry.Main != "" && c.config.Kind == yaml.ScalarNode {
		put(c.out, c.entry.Main, scalar(c.config.Value))
	} else {
		t.fillFrom(c, c.config, "")
	}
	for _, name := range sortedFields(c.entry.Fields) {
		f := c.entry.Fields[name]
		if f.Absent != nil && lookup(c.config, strings.Split(name, ".")...) == nil && f.To != "" && *f.Absent != "" {
			putAt(c.out, f.To, code(*f.Absent))
		}
	}
	for _, p := range pairsOf(&c.entry.Always) {
		if lookup(c.out, p.key.Value) == nil {
			put(c.out, p.key.Value, code(p.value.Value))
			if p.value.Kind != yaml.ScalarNode {
				put(c.out, p.key.Value, mapping())
			}
		}
	}
}

func (t *translator) fillFrom(c *component, from *yaml.Node, prefix string) {
	for _, p := range pairsOf(from) {
		name := prefix + p.key.Value
		f, known := c.entry.Fields[name]
		_, switched := c.entry.Fields[name+".enabled"]
		switch {
		case switched && p.value.Kind == yaml.MappingNode && text(p.value, "enabled") != "true":
			if on := lookup(p.value, "enabled"); on != nil && t.src.env.has(on.Value) {
				t.lostField(c.out, p, fmt.Sprintf("whether %s is in force can't depend on the environment", name))
			}
		case known:
			t.field(c, p, name, f)
		case p.value.Kind == yaml.MappingNode && c.entry.Fields.under(name):
			t.fillFrom(c, p.value, name+".")
		case c.kind != "processor" && p.key.Value == "processors" && prefix == "":
		case p.key.Value == "processors" && prefix == "":
		case !empty(p.value):
			t.lostField(c.out, p, fmt.Sprintf("field %s of %s is not known", name, c.key.Value))
		}
	}
}

// field translates one field.
func (t *translator) field(c *component, p pair, name string, f field) {
	v := p.value
	never := empty(v) || v.Kind == yaml.ScalarNode && (v.Value == "false" || f.Unless != "" && v.Value == f.Unless)
	switch {
	case f.Skip:
	case f.Lost != "":
		if !never {
			t.lostField(c.out, p, fmt.Sprintf("%s of %s: %s", name, c.key.Value, f.Lost))
		}
	case f.Left != "":
		if !never {
			t.differs(c.out, p.key, f.Left)
		}
	case f.Use != "":
		use := special[f.Use]
		if use == nil {
			panic("components.yaml names @" + f.Use)
		}
		if why := use(t, c, p); why != "" {
			t.lostField(c.out, p, fmt.Sprintf("%s of %s: %s", name, c.key.Value, why))
		}
	case f.Values != nil:
		ours, ok := f.Values[v.Value]
		switch {
		case empty(v):
		case !ok && t.src.env.has(v.Value):
			t.lostField(c.out, p, fmt.Sprintf("%s of %s: flowd has other names for its values than %s gives", name,
				c.key.Value, v.Value))
		case !ok:
			t.lostField(c.out, p, fmt.Sprintf("%s of %s has no counterpart of \"%s\"", name, c.key.Value, v.Value))
		case ours != "" && f.To != "":
			putAt(c.out, f.To, carry(code(ours), p))
		}
	case empty(v), f.Unless != "" && v.Value == f.Unless:
	default:
		made, why := t.value(c, v, f.As)
		if why != "" {
			t.lostField(c.out, p, fmt.Sprintf("%s of %s: %s", name, c.key.Value, why))
			return
		}
		if f.To == "" {
			*c.out = *made
			return
		}
		putAt(c.out, f.To, carry(made, p))
	}
}

// carry puts the comments of a field on its translation.
func carry(made *yaml.Node, p pair) *yaml.Node {
	if made.Kind == yaml.ScalarNode && !strings.Contains(made.Value, "\n") {
		made.LineComment = join(made.LineComment, p.key.LineComment, p.value.LineComment)
		if strings.Contains(made.LineComment, "\n") {
			made.LineComment, made.HeadComment = "", join(made.HeadComment, made.LineComment)
		}
	}
	return made
}

// mains are flowd's fields that can be written in place of the whole configuration.
var mains = map[string]string{"compress": "format", "decompress": "format", "rate_limit": "name", "log": "message",
	"pipe": "name", "s3.after": "keep", "validate": "schema"}

// close returns the finished component, with its common keys.
func (t *translator) close(c *component) *yaml.Node {
	out := c.out
	if main := mains[c.entry.To]; main != "" && len(out.Content) == 2 && out.Content[0].Value == main &&
		len(commentsOf(out)) == 0 {
		out = out.Content[1]
	}
	n := mapping()
	if c.kind == "processor" && c.label != "" {
		put(n, "name", scalar(c.label))
	}
	put(n, c.entry.To, out)
	for _, p := range pairsOf(c.common) {
		put(n, p.key.Value, p.value)
	}
	n.HeadComment, out.HeadComment = out.HeadComment, ""
	if c.entry.Differs != "" {
		t.differs(n, c.key, c.entry.Differs)
	}
	return n
}
