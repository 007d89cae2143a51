package bloblang

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep expressions and statements may be nested.
const maxDepth = 300

// Parse reads a mapping. Its error is a [*SyntaxError].
func Parse(src string) (m *Mapping, err error) {
	p := &parser{source: newSource(src), maps: map[string]*namedMap{}}
	defer p.recover(&err)
	p.valid()
	return p.mapping(), nil
}

// parseQuery reads one expression at the beginning of a text that ends with a brace, as an interpolation does, and
// returns its end.
func parseQuery(src string, from int) (n node, s *source, end int, err error) {
	p := &parser{source: newSource(src), maps: map[string]*namedMap{}}
	p.at = from
	defer p.recover(&err)
	p.valid()
	p.space()
	n = p.query()
	p.space()
	return n, p.source, p.at, nil
}

type source struct {
	text  string
	lines []int // where each begins
}

func newSource(text string) *source {
	s := &source{text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// position gives the line and the column, in characters, of a byte.
func (s *source) position(at int) (line, column int) {
	at = min(at, len(s.text))
	line = sort.SearchInts(s.lines, at+1)
	return line, utf8.RuneCountInString(s.text[s.lines[line-1]:at]) + 1
}

type parser struct {
	*source
	at       int
	depth    int
	names    []string // parameters of the lambdas around
	maps     map[string]*namedMap
	comments []comment
}

// failure is what the parser panics with, and only recover sees.
type failure struct{ err *SyntaxError }

func (p *parser) fail(at int, format string, args ...any) {
	line, column := p.position(at)
	panic(failure{&SyntaxError{Line: line, Column: column, Problem: fmt.Sprintf(format, args...)}})
}

func (p *parser) recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// valid refuses bytes that are not text.
func (p *parser) valid() {
	for i, r := range p.text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(p.text[i:]); n == 1 {
				p.fail(i, "there is a byte here that is not UTF-8")
			}
		}
	}
}

// enter counts a level of nesting; what it returns leaves it.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "this is nested more than %d levels deep", maxDepth)
	}
	return func() { p.depth-- }
}

// mapping reads statements up to the end, or else one expression.
func (p *parser) mapping() *Mapping {
	m := &Mapping{maps: p.maps, src: p.source}
	p.gap()
	begin := p.at
	switch {
	case p.at == len(p.text):
		p.fail(p.at, "the mapping is empty")
	case p.from(m):
	case p.statementAhead():
		m.Statements = p.statements(false, true)
	default:
		value := p.query()
		end := p.at
		p.gap()
		if p.at < len(p.text) {
			if ahead := p.at; p.assignmentAhead() {
				p.fail(ahead, "an expression that stands alone is short for `root = …`, and nothing may follow it")
			}
			p.fail(p.at, "%s does not belong here", p.found())
		}
		m.Statements = []Statement{&assign{span: span{begin, end}, value: value}}
	}
	m.comments = p.comments
	return m
}

// from reads a mapping that is a file's.
func (p *parser) from(m *Mapping) bool {
	begin := p.at
	if !p.word("from") || !p.blank() || p.peek() != '"' {
		p.at = begin
		return false
	}
	path := p.quoted()
	m.Statements = []Statement{&imports{span: span{begin, p.at}, path: path, whole: true}}
	p.gap()
	if p.at < len(p.text) {
		p.fail(p.at, "nothing may follow `from`")
	}
	return true
}

// statementAhead says whether a statement begins here. An `if` may also be an expression: it is one if what its braces
// hold is.
func (p *parser) statementAhead() bool {
	begin := p.at
	defer func() { p.at = begin }()
	for _, word := range []string{"let", "map", "import", "meta"} {
		if p.word(word) && p.blank() {
			return true
		}
		p.at = begin
	}
	if p.word("if") && p.blank() {
		return p.ifStatementAhead()
	}
	p.at = begin
	return p.assignmentAhead()
}

func (p *parser) ifStatementAhead() (is bool) {
	comments, depth, names := len(p.comments), p.depth, len(p.names)
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(failure); !ok {
				panic(r)
			}
			is = true // then its error is worth more
		}
		p.comments, p.depth, p.names = p.comments[:comments], depth, p.names[:names]
	}()
	defer p.enter()()
	p.query()
	p.gap()
	p.expect("{")
	p.gap()
	return p.peek() == '}' || p.statementAhead()
}

// assignmentAhead says whether a path and a `=` stand here.
func (p *parser) assignmentAhead() bool {
	begin := p.at
	defer func() { p.at = begin }()
	if p.name() == "" {
		return false
	}
	for p.peek() == '.' {
		p.at++
		if p.peek() == '"' {
			if p.skipQuoted(); p.at > len(p.text) {
				return false
			}
		} else if p.name() == "" {
			return false
		}
	}
	p.space()
	return p.equals()
}

// skipQuoted goes behind a quoted text, or beyond the end if it has none.
func (p *parser) skipQuoted() {
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
}

// equals goes behind an equals sign that is none of ==.
func (p *parser) equals() bool {
	if p.peek() != '=' || p.ahead("==") || p.ahead("=>") {
		return false
	}
	p.at++
	return true
}

// statements reads statements up to the end, or up to a closing brace.
func (p *parser) statements(braces, top bool) []Statement {
	defer p.enter()()
	var list []Statement
	for {
		p.gap()
		if braces && p.peek() == '}' {
			p.at++
			return list
		}
		if p.at >= len(p.text) {
			if braces {
				p.fail(p.at, "a closing } is missing")
			}
			return list
		}
		list = append(list, p.statement(top))
		line, _ := p.position(p.at)
		end := p.at
		p.gap()
		if next, _ := p.position(p.at); next == line && p.at < len(p.text) && !(braces && p.peek() == '}') {
			p.at = end
			p.space()
			p.fail(p.at, "%s does not belong here: a statement ends with its line", p.found())
		}
	}
}

func (p *parser) statement(top bool) Statement {
	begin := p.at
	switch {
	case p.word("let") && p.blank():
		name := p.nameOrQuoted("the name of a variable")
		value := p.assigned()
		return &let{span{begin, p.at}, name, value}
	case p.back(begin) && p.word("meta") && p.metaAhead():
		s := &setMeta{all: true}
		if p.space(); p.peek() != '=' {
			s.name, s.all = p.nameOrQuoted("the name of a metadata field"), false
		}
		s.value = p.assigned()
		s.span = span{begin, p.at}
		return s
	case p.back(begin) && p.word("import") && p.blank():
		if !top {
			p.fail(begin, "import is allowed only at the top of a mapping")
		}
		path := p.quoted()
		return &imports{span: span{begin, p.at}, path: path}
	case p.back(begin) && p.word("map") && p.blank():
		return p.define(begin, top)
	case p.back(begin) && p.word("if") && p.blank():
		return p.branches(begin)
	}
	p.at = begin
	path := p.target()
	s := &assign{path: path, value: p.assigned()}
	s.span = span{begin, p.at}
	return s
}

// back returns to where a statement begins.
func (p *parser) back(to int) bool {
	p.at = to
	return true
}

// metaAhead says whether what follows the word makes it a statement rather than a path.
func (p *parser) metaAhead() bool {
	begin := p.at
	p.space()
	spaced := p.at > begin
	if p.peek() == '=' && !p.ahead("==") {
		return true
	}
	return spaced
}

func (p *parser) define(begin int, top bool) Statement {
	if !top {
		p.fail(begin, "a map is defined only at the top of a mapping")
	}
	name := p.nameOrQuoted("the name of a map")
	if _, ok := p.maps[name]; ok {
		p.fail(begin, "there are two maps %q", name)
	}
	p.gap()
	p.expect("{")
	m := &namedMap{name: name, pos: begin, src: p.source}
	p.maps[name] = m
	m.statements = p.statements(true, false)
	return &define{span: span{begin, p.at}, name: name}
}

func (p *parser) branches(begin int) Statement {
	s := &branches{}
	for {
		b := branch{span: span{p.at, p.at}, when: p.query()}
		p.gap()
		p.expect("{")
		b.do = p.statements(true, false)
		b.to = p.at
		s.cases = append(s.cases, b)
		end, comments := p.at, len(p.comments)
		p.gap()
		if !p.word("else") {
			p.at, p.comments = end, p.comments[:comments]
			break
		}
		begin := p.at
		if p.blank() && p.word("if") && p.blank() {
			continue
		}
		p.at = begin
		p.gap()
		b = branch{span: span{p.at, p.at}}
		p.expect("{")
		b.do = p.statements(true, false)
		b.to = p.at
		s.cases = append(s.cases, b)
		break
	}
	s.span = span{begin, p.at}
	return s
}

// target reads the path of an assignment, without a leading root.
func (p *parser) target() []string {
	begin := p.at
	first := p.name()
	if first == "" {
		p.fail(p.at, "%s does not begin a statement, such as `root.a = this.b`", p.found())
	}
	path := []string{first}
	for p.peek() == '.' {
		p.at++
		if p.peek() == '"' {
			path = append(path, p.quoted())
			continue
		}
		name := p.name()
		if name == "" {
			p.fail(p.at, "the path lacks a name here")
		}
		path = append(path, name)
	}
	if end := p.at; len(path) == 1 {
		if p.space(); p.peek() != '=' {
			p.at = end
			p.fail(begin, "%q does not begin a statement, such as `root.a = this.b`", first)
		}
		p.at = end
	}
	if path[0] == "root" {
		return path[1:]
	}
	return path
}

// assigned reads an equals sign and a value.
func (p *parser) assigned() node {
	p.space()
	if !p.equals() {
		p.fail(p.at, "expected = rather than %s", p.found())
	}
	p.gap()
	return p.query()
}

// levels are the binary operators, from those that bind closest. Those of one level are read from left to right.
var levels = [][]string{{"*", "/", "%", "|"}, {"+", "-"}, {"==", "!=", ">=", "<=", ">", "<"}, {"&&", "||"}}

// operators are tried in this order, so that the longer of two counts.
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

// operand reads what stands between operators.
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

// brackets reads [index] or [from:to], which are short for methods.
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

// named reads what begins with a name.
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

// keywordEnds says whether a blank, a line's end, a brace or bracket follows.
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

// placeholder is what stands here for a placeholder of the environment: see [Options.Unescaped].
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

// A caller puts a run of private runes, which begins with the first of these, where a placeholder stands.
const (
	firstRune = '\U00100000'
	lastRune  = '\U001003FF'
)

func (p *parser) triple() string {
	begin := p.at + 3
	end := strings.Index(p.text[begin:], `"""`)
	if end < 0 {
		p.fail(p.at, `the text lacks its closing """`)
	}
	p.at = begin + end + 3
	return p.text[begin : begin+end]
}

// quoted reads a name between quotes.
func (p *parser) quoted() string {
	begin := p.at
	s := p.textBetween()
	if !utf8.ValidString(s) {
		p.fail(begin, "this name is not UTF-8")
	}
	return s
}

// textBetween reads a text between quotes, which may have any bytes.
func (p *parser) textBetween() string {
	begin := p.at
	if p.peek() != '"' {
		p.fail(p.at, "expected a text in double quotes rather than %s", p.found())
	}
	p.skipQuoted()
	if p.at > len(p.text) {
		p.at = begin
		p.fail(begin, "the text lacks its closing quote")
	}
	s, err := strconv.Unquote(p.text[begin:p.at])
	if err != nil {
		p.fail(begin, "the text has a line break or an escape that there is none of")
	}
	return s
}

func (p *parser) nameOrQuoted(what string) string {
	if p.peek() == '"' {
		return p.quoted()
	}
	name := p.name()
	if name == "" {
		p.fail(p.at, "expected %s rather than %s", what, p.found())
	}
	return name
}

// name reads letters, digits and _.
func (p *parser) name() string {
	begin := p.at
	for p.at < len(p.text) && nameByte(p.text[p.at]) {
		p.at++
	}
	return p.text[begin:p.at]
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func nameByte(c byte) bool {
	return c == '_' || digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word reads a keyword, and nothing that it only begins.
func (p *parser) word(w string) bool {
	if !p.ahead(w) || p.at+len(w) < len(p.text) && nameByte(p.text[p.at+len(w)]) {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) ahead(s string) bool { return strings.HasPrefix(p.text[min(p.at, len(p.text)):], s) }

func (p *parser) expect(s string) {
	if !p.ahead(s) {
		p.fail(p.at, "expected %s rather than %s", s, p.found())
	}
	p.at += len(s)
}

// peek is the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// found names what stands here, for errors.
func (p *parser) found() string {
	if p.at >= len(p.text) {
		return "the end"
	}
	if p.text[p.at] == '\n' || p.text[p.at] == '\r' {
		return "the end of the line"
	}
	if name := p.name(); name != "" {
		p.at -= len(name)
		return strconv.Quote(name)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return strconv.Quote(string(r))
}

// blank skips blanks, of which there must be one.
func (p *parser) blank() bool {
	begin := p.at
	p.space()
	return p.at > begin
}

// space skips blanks within the line.
func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// gap skips blanks, line breaks and comments.
func (p *parser) gap() {
	for {
		p.space()
		switch c := p.peek(); c {
		case '\n', '\r':
			p.at++
		case '#':
			begin := p.at
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
			line, _ := p.position(begin)
			own := strings.TrimSpace(p.text[p.lines[line-1]:begin]) == ""
			text := strings.TrimSpace(p.text[begin+1 : p.at])
			if n := len(p.comments); n == 0 || p.comments[n-1].from < begin {
				p.comments = append(p.comments, comment{span{begin, p.at}, text, own})
			}
		default:
			return
		}
	}
}
