package bloblang

import (
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// writer turns operations into YAML. Consecutive operations of one kind become one step.
type writer struct{ o Options }

// keeping returns the variables that keep the original message.
func (p *planner) keeping() []operation {
	var ops []operation
	if p.useBefore {
		ops = append(ops, operation{act: setVariable, name: p.keptName(""), x: whole("this", unknown)})
	}
	if p.useRaw {
		ops = append(ops, operation{act: setVariable, name: p.keptName("_raw"), x: whole("raw()", text)})
	}
	if p.useMeta {
		ops = append(ops, operation{act: setVariable, name: p.keptName("_meta"), x: whole("meta()", objectKind)})
	}
	return ops
}

// early moves reads of the batch's messages into variables that are set before the batch changes: a step runs on all
// messages before the next step does, but on one message after the other.
func early(ops []operation) []operation {
	var lets []operation
	names := map[string]bool{}
	for _, o := range ops {
		names[o.name] = names[o.name] || o.act == setVariable
	}
	for i, o := range ops {
		if o.act == setVariable || !strings.Contains(o.x.text, "messages()") || o.when != nil {
			continue
		}
		name := "all"
		if o.name != "" {
			name = o.name
		} else if len(o.path) > 0 {
			name = o.path[len(o.path)-1]
		}
		for names[name] {
			name += "_"
		}
		names[name] = true
		lets = append(lets, operation{act: setVariable, name: name, x: o.x})
		ops[i].x = expression{text: "vars(" + quote(name) + ")", bind: bindWhole, kind: o.x.kind}
	}
	return append(lets, ops...)
}

// leftOver puts remaining comments after the last step.
func (p *planner) leftOver(nodes []*yaml.Node) {
	if len(nodes) == 0 {
		return
	}
	var rest []string
	for i, c := range p.m.comments {
		if !p.taken[i] {
			rest = append(rest, c.text)
		}
	}
	if len(rest) > 0 {
		nodes[len(nodes)-1].FootComment = comments(rest)
	}
}

func comments(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == '\uFEFF' || r == '\u2028' || r == '\u2029' || r == '\uFFFE' || r == '\uFFFF' {
				return ' '
			}
			return r
		}, line)
		out = append(out, strings.TrimRight("# "+line, " "))
	}
	return strings.Join(out, "\n")
}

func (w *writer) steps(ops []operation) []*yaml.Node {
	var nodes []*yaml.Node
	for i := 0; i < len(ops); {
		n := 1
		for i+n < len(ops) && joins(ops[i:i+n], ops[i+n]) {
			n++
		}
		nodes = append(nodes, w.step(ops[i:i+n]))
		i += n
	}
	return nodes
}

// joins reports whether an operation can be another line of a step.
func joins(group []operation, next operation) bool {
	first := group[0]
	if first.act != next.act || first.when != nil || next.when != nil || first.first != next.first {
		return false
	}
	switch next.act {
	case setField, setMetadata, setVariable:
		return !slices.ContainsFunc(group, func(o operation) bool { return o.key() == next.key() })
	case unsetField:
		return true
	}
	return false
}

func (o operation) key() string {
	if o.act == setField || o.act == unsetField {
		return path(o.path)
	}
	return o.name
}

func (w *writer) step(group []operation) *yaml.Node {
	o := group[0]
	var n *yaml.Node
	switch o.act {
	case setField, setMetadata, setVariable:
		name := map[act]string{setField: "set", setMetadata: "meta", setVariable: "let"}[o.act]
		if o.first {
			name = "map"
		}
		lines := mapping()
		for _, o := range group {
			key := scalar(w.o.written(o.key()))
			value := w.expression(o.x)
			if len(group) > 1 {
				key.HeadComment = comments(o.head)
				behind(key, value, o.line)
			}
			lines.Content = append(lines.Content, key, value)
		}
		n = mapping(scalar(name), lines)
	case unsetField:
		if len(group) == 1 {
			n = mapping(scalar("unset"), scalar(path(o.path)))
			break
		}
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, o := range group {
			item := scalar(path(o.path))
			if len(o.head) > 0 || o.line != "" {
				list.Style = 0
				item.HeadComment = comments(o.head)
				item.LineComment = comments(nonEmpty(o.line))
			}
			list.Content = append(list.Content, item)
		}
		n = mapping(scalar("unset"), list)
	case setRoot:
		name := "payload"
		if o.x.kind == objectKind || o.x.kind == listKind || o.x.kind == number || o.x.kind == boolean {
			name = "map"
		}
		n = mapping(scalar(name), w.expression(o.x))
	case keepIf:
		n = mapping(scalar("filter"), w.expression(o.x))
	case failWith:
		n = mapping(scalar("fail"), scalar(w.o.written(o.text)))
	case runCodec:
		n = o.node
	case chooseCase:
		return w.choice(o)
	}
	if o.when != nil {
		n.Content = append(n.Content, scalar("when"), w.expression(*o.when))
	}
	if o.onError != "" {
		n.Content = append(n.Content, scalar("on_error"), scalar(o.onError))
	}
	if len(group) == 1 {
		n.HeadComment = comments(o.head)
		value := n.Content[1]
		if value.Kind == yaml.MappingNode && value.Style == 0 {
			behind(n, value.Content[1], o.line)
		} else {
			behind(n, value, o.line)
		}
	}
	return n
}

// behind puts a comment after a value or, if that has several lines, before it.
func behind(before, value *yaml.Node, line string) {
	switch {
	case line == "":
	case value.Kind == yaml.ScalarNode && value.Style != yaml.LiteralStyle:
		value.LineComment = comments([]string{line})
	default:
		before.HeadComment = strings.TrimPrefix(before.HeadComment+"\n"+comments([]string{line}), "\n")
	}
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// choice writes cases as a switch. A single case becomes a condition of its steps.
func (w *writer) choice(o operation) *yaml.Node {
	cases := slices.DeleteFunc(slices.Clone(o.cases), func(c operationCase) bool {
		return len(c.do) == 0 &&
			c.when == nil
	})
	for len(cases) > 0 && len(cases[len(cases)-1].do) == 0 {
		cases = cases[:len(cases)-1]
	}
	if len(cases) == 1 && cases[0].when != nil {
		c := cases[0]
		if op := c.do[0]; len(c.do) == 1 && op.act == keepIf && op.x.text == "false" {
			op.x = c.when.negated()
			op.head = append(slices.Clone(o.head), op.head...)
			return w.step([]operation{op})
		}
		steps := w.steps(c.do)
		if len(steps) == 1 && !hasWhen(steps[0]) {
			n := steps[0]
			n.Content = append(n.Content, scalar("when"), w.expression(*c.when))
			n.HeadComment = joinLines(comments(o.head), n.HeadComment)
			return n
		}
		n := mapping(scalar("steps"), &yaml.Node{Kind: yaml.SequenceNode, Content: steps}, scalar("when"),
			w.expression(*c.when))
		n.HeadComment = comments(o.head)
		return n
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, c := range cases {
		n := mapping()
		if c.when != nil {
			n.Content = append(n.Content, scalar("when"), w.expression(*c.when))
		}
		do := &yaml.Node{Kind: yaml.SequenceNode, Content: w.steps(c.do)}
		if len(do.Content) == 0 {
			do.Style = yaml.FlowStyle
		}
		n.Content = append(n.Content, scalar("do"), do)
		n.HeadComment = comments(c.head)
		list.Content = append(list.Content, n)
	}
	n := mapping(scalar("switch"), list)
	n.HeadComment = comments(o.head)
	return n
}

func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

func hasWhen(n *yaml.Node) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "when" {
			return true
		}
	}
	return false
}

func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: content}
}

func flow() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle} }

// scalar writes a text, without quotes if YAML allows it and it stays text.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	var v any
	if yaml.Unmarshal([]byte(s), &v) == nil {
		switch v.(type) {
		case bool, int, int64, uint64, float64:
			n.Tag = "" // as it is
			return n
		}
	}
	n.SetString(s)
	return n
}

// expression writes an expression, a long one on several lines.
func (w *writer) expression(x expression) *yaml.Node {
	s := w.o.written(x.text)
	block := s
	if len(x.chain) > 1 && (len(s) > 80 || len(x.chain) > 3) {
		lines := make([]string, len(x.chain))
		for i, line := range x.chain {
			lines[i] = broken(w.o.written(line), 0)
		}
		block = strings.Join(lines, " :\n")
	} else if len(s) > width {
		block = broken(s, 0)
	}
	if block != s {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: block}
	}
	return scalar(s)
}

// width is the maximum length of an expression's lines, if it can be broken.
const width = 96

// broken breaks a long expression at the arguments of its longest call, or the elements of its longest list or
// object, recursively.
func broken(s string, indent int) string {
	if len(s)+indent <= width {
		return s
	}
	open, end := longestGroup(s)
	if open < 0 || end-open < 40 {
		return s
	}
	parts := commas(s[open+1 : end])
	if len(parts) == 1 { // nested brackets add no level
		return s[:open+1] + broken(parts[0], indent) + s[end:]
	}
	inner := strings.Repeat(" ", indent+2)
	var b strings.Builder
	b.WriteString(s[:open+1])
	for i, part := range parts {
		b.WriteString("\n" + inner + broken(strings.TrimSpace(part), indent+2))
		if i+1 < len(parts) {
			b.WriteByte(',')
		}
	}
	b.WriteString("\n" + strings.Repeat(" ", indent) + s[end:])
	return b.String()
}

// outside calls visit for each byte outside of texts, with the depth of brackets.
func outside(s string, visit func(i, depth int)) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '`':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' && c == '"' {
					i++
				}
			}
		case '(', '[', '{':
			visit(i, depth)
			depth++
		case ')', ']', '}':
			depth--
			visit(i, depth)
		default:
			visit(i, depth)
		}
	}
}

// longestGroup finds the longest outermost pair of brackets.
func longestGroup(s string) (open, end int) {
	open, end = -1, -1
	begin := 0
	outside(s, func(i, depth int) {
		switch {
		case depth > 0:
		case strings.IndexByte("([{", s[i]) >= 0:
			begin = i
		case strings.IndexByte(")]}", s[i]) >= 0 && i-begin > end-open:
			open, end = begin, i
		}
	})
	return open, end
}

// commas splits at the commas outside of brackets.
func commas(s string) []string {
	var parts []string
	from := 0
	outside(s, func(i, depth int) {
		if depth == 0 && s[i] == ',' {
			parts = append(parts, s[from:i])
			from = i + 1
		}
	})
	return append(parts, s[from:])
}
