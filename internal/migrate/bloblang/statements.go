package bloblang

// maxStatements bounds a mapping: the planner compares each statement with all others.
const maxStatements = 2000

// mapping parses statements up to the end, or else one expression.
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
	count := 0
	each(m.Statements, func(Statement) { count++ })
	if count > maxStatements {
		p.fail(begin, "the mapping has more than %d statements (split it)", maxStatements)
	}
	m.comments = p.comments
	return m
}

// from parses a mapping that is in a file.
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

// statementAhead reports whether a statement begins here. An `if` may also be an expression, depending on the content
// of its braces.
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
			is = true // then its error is more useful
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

// assignmentAhead reports whether a path and a = follow.
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

// skipQuoted skips a quoted text, or everything if it does not end.
func (p *parser) skipQuoted() {
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
}

// equals skips an =, but not ==.
func (p *parser) equals() bool {
	if p.peek() != '=' || p.ahead("==") || p.ahead("=>") {
		return false
	}
	p.at++
	return true
}

// statements parses statements up to the end, or up to a closing brace.
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

// back returns to the beginning of a statement.
func (p *parser) back(to int) bool {
	p.at = to
	return true
}

// metaAhead reports whether `meta` begins a statement here, not a path.
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

// target parses the path of an assignment, without a leading root.
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

// assigned parses an = and a value.
func (p *parser) assigned() node {
	p.space()
	if !p.equals() {
		p.fail(p.at, "expected = rather than %s", p.found())
	}
	p.gap()
	return p.query()
}
