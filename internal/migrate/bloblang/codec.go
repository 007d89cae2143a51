package bloblang

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Bloblang decodes and encodes with methods, flowd with steps: decode, encode, compress, decompress and validate. A
// method that is the whole value of an assignment becomes such a step, after an assignment of its receiver.

// codec is a method that is a step.
type codec struct {
	step    string // type of the step
	format  string
	options []*yaml.Node
	inner   node // the receiver
	payload bool // only for the payload, not for a field
}

// decoders and encoders map methods to formats of steps.
var (
	decodeSteps = map[string]string{
		"parse_csv": "csv", "parse_logfmt": "logfmt", "parse_msgpack": "msgpack", "parse_xml": "xml", "parse_yaml": "yaml",
	}
	encodeSteps = map[string]string{"format_yaml": "yaml", "format_xml": "xml", "format_msgpack": "msgpack"}
)

// codec finds the step for a value. field says that the value is for a field, not for the payload.
func (p *planner) codec(n node, field bool) (codec, bool) {
	c, ok := n.(*call)
	if !ok || c.of == nil {
		return codec{}, false
	}
	if c.name == "string" && len(c.args) == 0 {
		if inner, ok := p.codec(c.of, field); ok && inner.step != "decode" {
			return inner, true
		}
		return codec{}, false
	}
	if format := decodeSteps[c.name]; format != "" {
		options, ok := p.codecOptions(c, format)
		inner := c.of
		if format == "msgpack" && field {
			// A field contains bytes as base64, which the step decodes.
			if inner, ok = p.encoded(c.of, "decode"); !ok {
				return codec{}, false
			}
		}
		return codec{step: "decode", format: format, options: options, inner: inner}, ok
	}
	if c.name == "encode" && field {
		if inner, ok := p.encoded(c, "encode"); ok {
			if m, ok := inner.(*call); ok && m.name == "format_msgpack" && m.of != nil {
				return codec{step: "encode", format: "msgpack", inner: m.of}, true
			}
		}
	}
	if format := encodeSteps[c.name]; format != "" && (format != "msgpack" || !field) {
		a := &asked{translator: p.translator, n: c, e: p.env, params: []string{"indent", "no_indent"}}
		if format == "xml" && !a.truth(1, false) {
			p.differs(c, "The XML is on one line.")
		}
		return codec{step: "encode", format: format, inner: c.of}, true
	}
	if (c.name == "compress" || c.name == "decompress") && !field && len(c.args) == 1 {
		name, ok := (&asked{translator: p.translator, n: c, e: p.env, params: []string{"algorithm"}}).text(0)
		if ok && (name == "gzip" || name == "zstd" || name == "lz4" || name == "snappy") {
			return codec{step: c.name, format: name, inner: c.of, payload: true}, true
		}
	}
	return codec{}, false
}

// encoded returns the receiver of a base64 conversion.
func (p *planner) encoded(n node, method string) (node, bool) {
	c, ok := n.(*call)
	if !ok || c.of == nil || c.name != method {
		return nil, false
	}
	scheme, ok := (&asked{translator: p.translator, n: c, e: p.env, params: []string{"scheme"}}).text(0)
	return c.of, ok && scheme == "base64"
}

// codecOptions converts arguments to options of a step. ok is false if one has no counterpart.
func (p *planner) codecOptions(c *call, format string) ([]*yaml.Node, bool) {
	if len(c.args) == 0 {
		return nil, true
	}
	names := map[string][]string{"csv": {"parse_header_row", "delimiter", "lazy_quotes"}, "xml": {"cast"}}[format]
	a := &asked{translator: p.translator, n: c, e: p.env, params: names}
	switch format {
	case "csv":
		if !a.truth(0, true) {
			return nil, false
		}
		if a.truth(2, false) {
			p.differs(c, "A quote inside a field with quotes around it must be doubled.")
		}
		if d, ok := a.text(1); ok {
			return []*yaml.Node{scalar("delimiter"), scalar(d)}, true
		}
		return nil, !a.has(1)
	case "xml":
		if a.truth(0, false) {
			p.differs(c, "Only numbers are told from text: true and false stay text.")
			return []*yaml.Node{scalar("numbers"), scalar("true")}, true
		}
		return nil, true
	}
	return nil, false
}

// around finds a codec of the payload inside a chain of methods, as in compress("gzip").encode("base64"). It returns
// the chain with the step's result in its place.
func (p *planner) around(n node) (codec, node, bool) {
	switch n := n.(type) {
	case *call:
		if n.of == nil {
			return codec{}, nil, false
		}
		if c, ok := p.codec(n, false); ok {
			var left node = &call{place: n.place, name: "content", end: n.end}
			if c.step == "decode" {
				left = &this{n.place}
			}
			return c, left, true
		}
		c, left, ok := p.around(n.of)
		copied := *n
		copied.of = left
		return c, &copied, ok
	case *field:
		c, left, ok := p.around(n.of)
		return c, &field{n.place, left, n.name}, ok
	}
	return codec{}, nil, false
}

// codecOps returns the operations of a codec for a field, or for the payload if the path is empty.
func (p *planner) codecOps(c codec, target []string) []operation {
	x := p.expr(c.inner, p.env)
	if len(target) == 0 {
		var ops []operation
		if x.text != "raw()" && !(x.text == "this" && c.step == "encode") {
			ops = append(ops, operation{act: setRoot, x: expression{text: x.text, bind: x.bind}})
		}
		return append(ops, operation{act: runCodec, node: c.node(nil, nil)})
	}
	if x.path && x.text != "this" && !strings.HasPrefix(x.text, "vars(") {
		return []operation{{act: runCodec, node: c.node(&x.text, target)}}
	}
	from := path(target)
	return []operation{{act: setField, path: target, x: x}, {act: runCodec, node: c.node(&from, target)}}
}

// node returns the step.
func (c codec) node(from *string, into []string) *yaml.Node {
	if from == nil && len(c.options) == 0 {
		return mapping(scalar(c.step), scalar(c.format))
	}
	options := flow()
	options.Content = c.options
	body := flow()
	body.Content = []*yaml.Node{scalar(c.format), options}
	if from != nil {
		body.Content = append(body.Content, scalar("from"), scalar(*from))
		if *from != path(into) {
			body.Content = append(body.Content, scalar("into"), scalar(path(into)))
		}
	}
	return mapping(scalar(c.step), body)
}

// schemaOf returns the schema that a mapping checks `this` with: root = this.json_schema("…").
func (p *planner) schemaOf(n node) (*yaml.Node, bool) {
	c, ok := n.(*call)
	if !ok || c.name != "json_schema" || c.of == nil {
		return nil, false
	}
	if _, ok := c.of.(*this); !ok {
		return nil, false
	}
	text, ok := (&asked{translator: p.translator, n: c, e: p.env, params: []string{"schema"}}).text(0)
	var schema yaml.Node
	if !ok || yaml.Unmarshal([]byte(text), &schema) != nil || schema.Kind != yaml.DocumentNode ||
		schema.Content[0].Kind != yaml.MappingNode {
		return nil, false
	}
	plainStyle(schema.Content[0])
	return schema.Content[0], true
}

// plainStyle turns JSON into YAML.
func plainStyle(n *yaml.Node) {
	n.Style, n.Line, n.Column = 0, 0, 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.SetString(n.Value)
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		plainStyle(c)
	}
}
