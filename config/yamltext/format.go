package yamltext

import (
	"errors"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// ErrUnsafe says that a file can't be formatted without a risk for its meaning.
var ErrUnsafe = errors.New("the file can't be formatted without a risk for its meaning")

// Format returns a file with two columns of indentation for each level, no white space at the ends of lines, single empty
// lines, and line feeds. Everything else stays as it is: comments, the order of keys, quotes, braces. It checks that the
// result has the same nodes. If the file is not a valid pipeline file, it returns why.
//
// The encoder of yaml.v3 would lose empty lines and move comments. So Format moves whole lines: nodes tell where keys
// begin, and which lines continue a text or a bracket.
func Format(file string, data []byte) (string, []schema.Problem, error) {
	root, problems := Parse(file, data)
	if root == nil {
		return "", problems, nil
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if strings.ContainsAny(text, "\r\u0085\u2028\u2029") { // line breaks for YAML alone
		return "", nil, ErrUnsafe
	}
	before, _, err := documents(text)
	if err != nil {
		return "", nil, err
	}
	src := newSource(file, text)
	f := &formatter{cur: cursor{Source: src}, text: text, keys: map[int]bool{},
		lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	f.goesOn, f.moves = make([]continued, len(f.lines)), make([]move, len(f.lines))
	f.visit(before, -1)
	if f.unsafe {
		return "", nil, ErrUnsafe
	}
	for i := range f.lines {
		f.line(i)
	}
	f.flush(0, 0, f.levels)
	for len(f.out) > 0 && f.out[len(f.out)-1] == "" && !f.content {
		f.out = f.out[:len(f.out)-1]
	}
	formatted := strings.Join(f.out, "\n") + "\n"
	after, second, err := documents(formatted)
	if err != nil || second != nil || f.unsafe || !same(before, after) {
		return "", nil, ErrUnsafe
	}
	return formatted, nil, nil
}

// same compares two trees.
func same(a, b *yaml.Node) bool {
	return a != nil && b != nil && a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor &&
		a.Style == b.Style && slices.EqualFunc(a.Content, b.Content, same)
}

// formatter formats one file.
type formatter struct {
	cur    cursor
	text   string
	lines  []string
	keys   map[int]bool // bytes at which keys of block mappings begin
	goesOn []continued  // by line
	moves  []move       // by line, of those that continue nothing
	unsafe bool         // the file has something that the formatter does not know

	levels  []openLevel
	pending []string // comments and empty lines before the next content
	out     []string
	content bool // the last line of out belongs to a block scalar
}

// openLevel is an open block mapping or list, at a column, counted from 0.
type openLevel struct {
	old, now int
	list     bool
}

// move says how far the end of a line moves, and which level is open behind it.
type move struct {
	by int
	in openLevel
}

// continued says what a line continues; the zero value: nothing.
type continued struct {
	kind   piece
	first  int  // the line where it begins
	indent int  // of a block scalar
	given  bool // its header gives the indentation
}

type piece int8

const (
	inBrackets piece = iota + 1
	inText           // without quotes
	inQuoted         // white space at the end of a line may count
	inBlock          // lines of a block scalar are content
)

// visit records keys and continuing lines of a node in a block collection at a column. It returns the byte after a node
// that is not a block collection.
func (f *formatter) visit(n *yaml.Node, column int) (end int) {
	from := f.cur.offset(n.Line, n.Column)
	begin := f.skipProperties(from, n)
	switch {
	case n.Kind == yaml.AliasNode:
		return from + 1 + len(n.Value)
	case n.Kind == yaml.ScalarNode:
		return f.scalar(n, from, begin, column)
	case n.Style&yaml.FlowStyle != 0:
		return f.brackets(n, from, begin, column)
	}
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		column = n.Content[0].Column - 1
	} else {
		column = n.Column - 1
	}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			f.keys[f.cur.offset(item.Line, item.Column)] = true
		}
		f.visit(item, column)
	}
	return 0
}

// skipProperties returns where a node begins behind its anchor and tag.
func (f *formatter) skipProperties(at int, n *yaml.Node) int {
	if n.Anchor == "" && n.Style&yaml.TaggedStyle == 0 && !strings.HasPrefix(f.text[at:], "!") {
		return at
	}
	for at < len(f.text) && (f.text[at] == '&' || f.text[at] == '!') {
		for at < len(f.text) && strings.IndexByte(" \t\n", f.text[at]) < 0 {
			at++
		}
		at = f.skipSpace(at)
	}
	return at
}

// skipSpace skips white space and comments.
func (f *formatter) skipSpace(at int) int {
	for at < len(f.text) {
		switch f.text[at] {
		case ' ', '\t', '\n':
			at++
		case '#':
			at += contentLen(f.text[at:])
		default:
			return at
		}
	}
	return at
}

func (f *formatter) scalar(n *yaml.Node, from, at, column int) (end int) {
	text := f.text
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return f.block(at, column)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		for at++; at < len(text) && text[at] != '"'; at++ {
			if text[at] == '\\' {
				at++
			}
		}
		at++
		f.hold(from, at, inQuoted)
	case n.Style&yaml.SingleQuotedStyle != 0:
		for at++; at < len(text); at++ {
			if text[at] == '\'' {
				if !strings.HasPrefix(text[at:], "''") {
					break
				}
				at++
			}
		}
		at++
		f.hold(from, at, inQuoted)
	case n.Value == "": // perhaps with a tag or an anchor
		return from
	default:
		isSpace := func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }
		for word := range strings.FieldsFuncSeq(n.Value, isSpace) {
			for at < len(text) && strings.IndexByte(" \t\n", text[at]) >= 0 {
				at++
			}
			if !strings.HasPrefix(text[at:], word) {
				f.unsafe = true
				return at
			}
			at += len(word)
		}
		f.hold(from, at, inText)
	}
	return at
}

// brackets visits a value in { } or [ ].
func (f *formatter) brackets(n *yaml.Node, from, at, column int) (end int) {
	bracketed := strings.HasPrefix(f.text[at:], "{") || strings.HasPrefix(f.text[at:], "[")
	if bracketed {
		at++
	}
	for _, item := range n.Content {
		at = max(at, f.visit(item, column))
	}
	if !bracketed { // a pair without braces in a list
		return at
	}
	for at < len(f.text) && f.text[at] != '}' && f.text[at] != ']' {
		at = max(at+1, f.skipSpace(at))
	}
	f.hold(from, at+1, inBrackets)
	return at + 1
}

// hold marks the lines after the one where something begins, up to its end. Quotes inside it stay marked as such.
func (f *formatter) hold(from, end int, k piece) {
	first := f.lineOf(from)
	for i := first + 1; i < len(f.lines) && i <= f.lineOf(end-1); i++ {
		if f.goesOn[i].kind != inQuoted {
			f.goesOn[i].kind = k
		}
		f.goesOn[i].first = first
	}
}

func (f *formatter) lineOf(off int) int {
	line, found := slices.BinarySearch(f.cur.lines, off)
	if !found {
		line--
	}
	return line
}

// block marks the lines of a block scalar whose header is at a byte, in a collection at a column.
func (f *formatter) block(at, column int) (end int) {
	header, _, _ := strings.Cut(f.text[at:at+contentLen(f.text[at:])], " ")
	c := continued{kind: inBlock, first: f.lineOf(at), indent: -1}
	if i := strings.IndexAny(header, "123456789"); i >= 0 {
		c.indent, c.given = max(column, 0)+int(header[i]-'0'), true
	}
	last := c.first
	for i := c.first + 1; i < len(f.lines); i++ {
		indent, blank := indentOf(f.lines[i]), strings.Trim(f.lines[i], " ") == ""
		if c.indent < 0 && !blank && indent > column {
			c.indent = indent
		}
		if !blank && (c.indent < 0 || indent < c.indent) {
			break
		}
		if !blank || c.indent >= 0 && indent > c.indent || strings.Contains(header, "+") {
			last = i
		}
	}
	for i := c.first + 1; i <= last; i++ {
		f.goesOn[i] = c
	}
	return at
}

// line formats a line.
func (f *formatter) line(i int) {
	if f.goesOn[i].kind != 0 {
		f.flush(0, 0, f.levels)
		f.out = append(f.out, f.further(i))
		f.content = f.goesOn[i].kind == inBlock
		return
	}
	text := trimEnd(f.lines[i])
	body := strings.TrimLeft(text, " \t")
	switch {
	case body == "", body[0] == '#':
		f.pending = append(f.pending, text)
		return
	case text[0] == '%', text == "...", strings.HasPrefix(text, "---"):
		f.unsafe = f.unsafe || text != "---"
		f.flush(0, 0, f.levels)
		f.out, f.content = append(f.out, text), false
		return
	case strings.HasPrefix(body, "? "), body == "?":
		f.unsafe = true
	}
	before := slices.Clone(f.levels)
	old, prefix, rest := f.place(i, text)
	f.flush(old, indentOf(prefix), before)
	f.out, f.content = append(f.out, prefix+rest), false
	f.moves[i] = move{by: len(prefix) + len(rest) - len(text), in: f.top()}
}

// trimEnd removes white space at the end of a line, unless a backslash protects it.
func trimEnd(line string) string {
	if text := strings.TrimRight(line, " \t"); !strings.HasSuffix(text, `\`) {
		return text
	}
	return line
}

// place returns the old column of a line's content, what stands before the first key or value now, and the rest.
func (f *formatter) place(i int, text string) (old int, prefix, rest string) {
	old = indentOf(text)
	for at := old; ; {
		rest = text[at:]
		list := rest == "-" || strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "-\t")
		now := f.enter(at, list, f.keys[f.cur.lines[i]+at], at == old)
		if at == old {
			prefix = strings.Repeat(" ", now)
		}
		if !list {
			return old, prefix, rest
		}
		prefix += "-"
		rest = strings.TrimLeft(rest[1:], " \t")
		if rest == "" {
			return old, prefix, rest
		}
		prefix += " "
		at = len(text) - len(rest)
	}
}

// enter opens the level of an item of a list or of a key, and returns its new column, or that of another value. Only the
// first of a line can end levels.
func (f *formatter) enter(at int, list, key, first bool) (now int) {
	for first && len(f.levels) > 0 {
		top := f.top()
		if top.old < at || top.old == at && (list || key && !top.list) {
			break
		}
		f.levels = f.levels[:len(f.levels)-1]
	}
	if len(f.levels) > 0 {
		top := f.top()
		if top.old == at && top.list == list {
			return top.now
		}
		now = top.now + 2
	}
	if list || key {
		f.levels = append(f.levels, openLevel{at, now, list})
	}
	return now
}

func (f *formatter) top() openLevel {
	if len(f.levels) == 0 {
		return openLevel{}
	}
	return f.levels[len(f.levels)-1]
}

// flush writes the pending comments and empty lines. old and now are the columns of the line that follows; levels are those
// before it.
func (f *formatter) flush(old, now int, levels []openLevel) {
	for _, line := range f.pending {
		body := strings.TrimLeft(line, " \t")
		if body == "" {
			if n := len(f.out); n > 0 && (f.out[n-1] != "" || f.content) {
				f.out, f.content = append(f.out, ""), false
			}
			continue
		}
		f.out, f.content = append(f.out, strings.Repeat(" ", besides(len(line)-len(body), old, now, levels))+body), false
	}
	f.pending = f.pending[:0]
}

// besides returns the new column of a comment: that of the next line, if they had the same, else it stays in its level.
func besides(at, old, now int, levels []openLevel) int {
	if at == old {
		return now
	}
	for _, l := range slices.Backward(levels) {
		if l.old <= at {
			return l.now + at - l.old
		}
	}
	return now
}

// further returns a line that continues what began on another.
func (f *formatter) further(i int) string {
	c, line := f.goesOn[i], f.lines[i]
	m := f.moves[c.first]
	at, blank := indentOf(line), strings.Trim(line, " \t") == ""
	switch {
	case c.kind == inBlock && strings.Trim(line, " ") == "" && (at <= c.indent || c.indent < 0), c.kind != inBlock && blank:
		return ""
	case c.kind == inBlock && c.given:
		at += m.in.now - m.in.old
	case c.kind == inBlock:
		at += m.in.now + 2 - c.indent
	case c.kind == inBrackets:
		at, line = max(at+m.by, m.in.now), strings.TrimLeft(trimEnd(line), " ")
	default:
		at = max(at+m.by, m.in.now+2)
		if c.kind == inText {
			line = trimEnd(line)
		}
	}
	return strings.Repeat(" ", max(at, 0)) + strings.TrimLeft(line, " ")
}

// indentOf returns the number of spaces at the beginning of a line.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
