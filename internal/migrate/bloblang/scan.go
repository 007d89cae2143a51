package bloblang

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The runes that callers use in place of a placeholder; a run begins with the first.
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

// quoted parses a name in quotes.
func (p *parser) quoted() string {
	begin := p.at
	s := p.textBetween()
	if !utf8.ValidString(s) {
		p.fail(begin, "this name is not UTF-8")
	}
	return s
}

// textBetween parses a text in quotes, which may contain any bytes.
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

// word parses a keyword, but not a longer word that begins with it.
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

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// found names what is at this place, for errors.
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

// blank skips blanks, and reports whether there was one.
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
