package bloblang

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// levels are the binary operators, the tightest first. Operators of one level associate to the left.
var levels = [][]string{{"*", "/", "%", "|"}, {"+", "-"}, {"==", "!=", ">=", "<=", ">", "<"}, {"&&", "||"}}

// operators are tried in this order, longer ones first.
var operators = []string{"&&", "||", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", ">", "<", "|"}

func (p *parser) query() node {
	defer p.enter()()
	p.space()
	values := []node{p.operand()}
	var ops []string
	var places []int
	for {
		end := p.at
		p.space()
		op := p.operator()
		if op == "" {
			p.at = end
			break
		}
		places = append(places, p.at-len(op))
		ops = append(ops, op)
		p.gap()
		values = append(values, p.operand())
	}
	for _, level := range levels {
		kept, rest, at := values[:1:1], []string{}, []int{}
		for i, op := range ops {
			if !contains(level, op) {
				kept, rest, at = append(kept, values[i+1]), append(rest, op), append(at, places[i])
				continue
			}
			left := kept[len(kept)-1]
			kept[len(kept)-1] = &binary{place: place(left.pos()), op: op, left: left, right: values[i+1]}
		}
		values, ops, places = kept, rest, at
	}
	return values[0]
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func (p *parser) operator() string {
	for _, op := range operators {
		if p.ahead(op) {
			p.at += len(op)
			return op
		}
	}
	return ""
}

// operand parses an operand.
func (p *parser) operand() node {
	begin := p.at
	if p.peek() == '-' && !(p.at+1 < len(p.text) && digit(p.text[p.at+1])) {
		p.at++
		p.gap()
		return &unary{place: place(begin), op: "-", of: p.tailed()}
	}
	return p.tailed()
}

func (p *parser) tailed() node {
	defer p.enter()()
	begin := p.at
	if p.peek() == '!' && !p.ahead("!=") {
		p.at++
		p.space()
		return &unary{place: place(begin), op: "!", of: p.tailed()}
	}
	n := p.primary()
	for levels := 0; ; levels++ {
		if levels > 20*maxDepth {
			p.fail(p.at, "this chain of methods is too long")
		}
		if p.peek() == '[' {
			n = p.brackets(n)
			continue
		}
		end, comments := p.at, len(p.comments)
		p.gap()
		if p.peek() != '.' {
			p.at, p.comments = end, p.comments[:comments]
			return n
		}
		p.at++
		p.gap()
		n = p.tail(n)
	}
}

func (p *parser) tail(of node) node {
	begin := place(p.at)
	switch c := p.peek(); {
	case c == '(':
		p.at++
		p.gap()
		body := p.query()
		p.gap()
		p.expect(")")
		return &within{begin, of, body}
	case c == '"':
		return &field{begin, of, p.quoted()}
	case c == '*':
		p.at++
		return &field{begin, of, "*"}
	}
	name := p.name()
	if name == "" {
		p.fail(p.at, "expected the name of a field or method rather than %s", p.found())
	}
	if p.peek() == '(' {
		c := &call{place: begin, of: of, name: name, args: p.arguments()}
		c.end = p.at
		return c
	}
	return &field{begin, of, name}
}

// brackets parses [index] or [from:to], which are short for methods.
func (p *parser) brackets(of node) node {
	c := &call{place: place(p.at), of: of, name: "index"}
	p.expect("[")
	p.gap()
	if p.peek() != ':' {
		c.args = append(c.args, argument{value: p.query()})
		p.gap()
	} else {
		c.args = append(c.args, argument{value: &literal{place(p.at), int64(0)}})
	}
	if p.peek() == ':' {
		p.at++
		c.name = "slice"
		if p.gap(); p.peek() != ']' {
			c.args = append(c.args, argument{value: p.query()})
			p.gap()
		}
	}
	p.expect("]")
	c.end = p.at
	return c
}

func (p *parser) arguments() []argument {
	p.expect("(")
	var args []argument
	for {
		p.gap()
		if p.peek() == ')' {
			p.at++
			return args
		}
		var a argument
		begin := p.at
		if name := p.name(); name != "" && p.peek() == ':' {
			p.at++
			a.name = name
		} else {
			p.at = begin
		}
		p.gap()
		a.value = p.query()
		args = append(args, a)
		p.gap()
		if p.peek() == ',' {
			p.at++
		} else if p.peek() != ')' {
			p.fail(p.at, "expected , or ) rather than %s", p.found())
		}
	}
}

func (p *parser) primary() node {
	begin := place(p.at)
	c := p.peek()
	switch {
	case c == 0:
		p.fail(len(strings.TrimRight(p.text[:min(p.at, len(p.text))], " \t\r\n")), "a value is missing here")
	case c == '(':
		p.at++
		p.gap()
		n := p.query()
		p.gap()
		p.expect(")")
		return n
	case c == '[':
		return p.list()
	case c == '{':
		return p.object()
	case p.placeholder() != "":
		text := p.placeholder()
		p.at += len(text)
		return &placeholder{begin, text}
	case p.ahead(`"""`):
		return &literal{begin, p.triple()}
	case c == '"':
		return &literal{begin, p.textBetween()}
	case digit(c) || c == '-' && p.at+1 < len(p.text) && digit(p.text[p.at+1]):
		if n := p.number(); n != nil {
			return n
		}
	case c == '@':
		p.at++
		if p.peek() == '"' {
			return &metaRef{place: begin, name: p.quoted()}
		}
		name := p.name()
		return &metaRef{begin, name, name == ""}
	case c == '$':
		p.at++
		name := p.name()
		if name == "" {
			p.fail(int(begin), "the name of a variable is missing behind $")
		}
		return &variable{begin, name}
	}
	name := p.name()
	if name == "" {
		p.fail(p.at, "expected a value rather than %s", p.found())
	}
	return p.named(begin, name)
}

// named parses an expression that begins with a name.
func (p *parser) named(begin place, name string) node {
	end := p.at
	if p.space(); p.ahead("->") {
		p.at += 2
		return p.lambda(begin, name)
	}
	p.at = end
	switch {
	case p.peek() == '(' && name != "match" && name != "if":
		c := &call{place: begin, name: name, args: p.arguments()}
		c.end = p.at
		return c
	case name == "match" && p.keywordEnds():
		return p.match(begin)
	case name == "if" && p.keywordEnds():
		return p.ifElse(begin)
	}
	switch name {
	case "true", "false":
		return &literal{begin, name == "true"}
	case "null":
		return &literal{begin, nil}
	case "this":
		return &this{begin}
	case "root":
		return &root{begin}
	}
	for _, known := range p.names {
		if known == name {
			return &named{begin, name}
		}
	}
	return &field{begin, &this{begin}, name}
}

// keywordEnds reports whether a blank, line end, brace or bracket follows.
func (p *parser) keywordEnds() bool {
	switch p.peek() {
	case ' ', '\t', '\n', '\r', '{', '(':
		return true
	}
	return false
}

func (p *parser) lambda(begin place, name string) node {
	if name == "this" || name == "root" {
		p.fail(int(begin), "%q can't be the parameter of a lambda", name)
	}
	p.gap()
	p.names = append(p.names, name)
	body := p.query()
	p.names = p.names[:len(p.names)-1]
	return &lambda{begin, name, body}
}

func (p *parser) match(begin place) node {
	m := &match{place: begin}
	p.gap()
	if p.peek() != '{' {
		m.subject = p.query()
		p.gap()
	}
	p.expect("{")
	for {
		p.gap()
		for p.peek() == ',' {
			p.at++
			p.gap()
		}
		if p.peek() == '}' {
			p.at++
			if len(m.cases) == 0 {
				p.fail(int(begin), "this match has no cases")
			}
			return m
		}
		var c matchCase
		if begin := p.at; p.word("_") && p.arrowAhead() {
			p.space()
		} else {
			p.at = begin
			c.when = p.query()
			p.gap()
		}
		if !p.ahead("=>") {
			p.fail(p.at, "expected => rather than %s", p.found())
		}
		p.at += 2
		p.gap()
		c.value = p.query()
		m.cases = append(m.cases, c)
	}
}

func (p *parser) arrowAhead() bool {
	begin := p.at
	defer func() { p.at = begin }()
	p.space()
	return p.ahead("=>")
}

func (p *parser) ifElse(begin place) node {
	n := &ifElse{place: begin}
	for {
		p.gap()
		n.whens = append(n.whens, p.query())
		n.values = append(n.values, p.braced())
		end, comments := p.at, len(p.comments)
		p.gap()
		if !p.word("else") {
			p.at, p.comments = end, p.comments[:comments]
			return n
		}
		p.gap()
		if p.word("if") && p.keywordEnds() {
			continue
		}
		n.values = append(n.values, p.braced())
		return n
	}
}

func (p *parser) braced() node {
	p.gap()
	p.expect("{")
	p.gap()
	n := p.query()
	p.gap()
	p.expect("}")
	return n
}

func (p *parser) list() node {
	n := &list{place: place(p.at)}
	p.expect("[")
	for {
		p.gap()
		if p.peek() == ']' {
			p.at++
			return n
		}
		n.items = append(n.items, p.query())
		p.gap()
		if p.peek() == ',' {
			p.at++
		} else if p.peek() != ']' {
			p.fail(p.at, "expected , or ] rather than %s", p.found())
		}
	}
}

func (p *parser) object() node {
	n := &object{place: place(p.at)}
	p.expect("{")
	for {
		p.gap()
		if p.peek() == '}' {
			p.at++
			return n
		}
		key := p.query()
		if l, ok := key.(*literal); ok {
			if _, text := l.value.(string); !text {
				p.fail(key.pos(), "the key of an object must be a text")
			}
		}
		n.keys = append(n.keys, key)
		p.gap()
		p.expect(":")
		p.gap()
		n.values = append(n.values, p.query())
		p.gap()
		if p.peek() == ',' {
			p.at++
		} else if p.peek() != '}' {
			p.fail(p.at, "expected , or } rather than %s", p.found())
		}
	}
}

func (p *parser) number() node {
	begin := p.at
	if p.peek() == '-' {
		p.at++
	}
	p.digits()
	if p.at+1 < len(p.text) && p.text[p.at] == '.' && digit(p.text[p.at+1]) {
		p.at++
		p.digits()
		f, err := strconv.ParseFloat(p.text[begin:p.at], 64)
		if err != nil {
			p.fail(begin, "%s is not a number that fits", p.text[begin:p.at])
		}
		return &literal{place(begin), f}
	}
	if p.at < len(p.text) && nameByte(p.text[p.at]) { // a field whose name begins with digits
		p.at = begin
		return nil
	}
	i, err := strconv.ParseInt(p.text[begin:p.at], 10, 64)
	if err != nil {
		p.fail(begin, "%s does not fit into 64 bits", p.text[begin:p.at])
	}
	return &literal{place(begin), i}
}

func (p *parser) digits() {
	for p.at < len(p.text) && digit(p.text[p.at]) {
		p.at++
	}
}

// placeholder returns the run for a placeholder of the environment at this place: see [Options.Unescaped].
func (p *parser) placeholder() string {
	end := p.at
	for end < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[end:])
		if r < firstRune || r > lastRune || r == firstRune && end > p.at || r > firstRune && end == p.at {
			break
		}
		end += n
	}
	return p.text[p.at:end]
}
