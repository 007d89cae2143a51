package yamltext

import (
	"fmt"
	"strings"
)

// value reads the value that begins at off in the line that ends at end.
func (s *scan) value(off, end int) *finding {
	s.whole = off + spaces(s.text[off:end])
	return s.content(s.whole, end)
}

// content reads a value after its tags and anchors.
func (s *scan) content(off, end int) *finding {
	rest := s.text[off:end]
	top := s.top()
	if top == nil {
		s.levels = []level{{}}
		top = s.top()
	}
	if rest == "" || rest[0] == '#' {
		top.open = true
		return nil
	}
	top.open = false
	quote := "put the whole value into quotes: " + s.wholeInQuotes(end)
	switch c := rest[0]; c {
	case '@', '`', '%', ']', '}', ',':
		return &finding{off, fmt.Sprintf("a value can't begin with %c", c), quote}
	case '|', '>':
		return s.block(off, end, top.col)
	case '"', '\'':
		return s.quoted(off, end)
	case '[', '{':
		return s.flow(off, top.col)
	case '*', '&', '!':
		return s.property(off, end)
	}
	switch {
	case strings.HasPrefix(rest, "- ") || rest == "-":
		return &finding{off, "a list can't begin on the line of its key",
			"begin the list on the next line, or write [a, b]"}
	case strings.HasPrefix(rest, "? "):
		return &finding{off, "a value can't begin with `? `", quote}
	}
	if i := keyLen(rest); i >= 0 {
		return &finding{off + i, "`: ` in a value without quotes looks like a second key", quote}
	}
	top.plain = true
	return nil
}

// wholeInQuotes returns the current value, which ends at end, in quotes.
func (s *scan) wholeInQuotes(end int) string { return inQuotes(uncommented(s.text[s.whole:end])) }

// property reads what may precede a value: *alias, &anchor, !tag.
func (s *scan) property(off, end int) *finding {
	rest := s.text[off:end]
	word := rest[:wordLen(rest)]
	name := word[1:]
	quote := "an expression that begins with " + word[:1] + " goes into quotes: " + s.wholeInQuotes(end)
	switch word[0] {
	case '*':
		if after := uncommented(rest[len(word):]); after != "" {
			return &finding{off, "a value that begins with * repeats another one, so nothing may follow", quote}
		}
		if !s.anchors[name] {
			return unnamed(off, name, "put the value into quotes: "+inQuotes(word))
		}
		return nil
	case '&':
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name == "" {
			return &finding{off, "& gives a value a name, but this is not a name", quote}
		}
		s.anchors[name] = true
	case '!':
		tag := &finding{off, "! begins a YAML tag, but this is not a tag",
			"write `not` for !, or put the value into quotes: " + s.wholeInQuotes(end)}
		behind := off + len(word) + spaces(s.text[off+len(word):end])
		if strings.ContainsAny(name, "<>(){}[],&|=") {
			return tag
		}
		f := s.content(behind, end)
		if f != nil && strings.IndexByte("|>&*", s.text[behind]) >= 0 { // an operator, as in !a || b
			return tag
		}
		return f
	}
	off += len(word)
	return s.content(off+spaces(s.text[off:end]), end)
}

// unnamed returns the mistake of an alias whose anchor does not exist.
func unnamed(off int, name, remedy string) *finding {
	return &finding{off, fmt.Sprintf("*%s repeats the value named &%[1]s, but no value above has that name", name), remedy}
}

// block reads a | or > scalar: its header, and the deeper lines below.
func (s *scan) block(off, end, col int) *finding {
	header := s.text[off+1 : end]
	if after := strings.TrimLeft(header, "+-0123456789"); uncommented(after) != "" || after != "" && !endsWord(after) {
		at := off + 1 + len(header) - len(after)
		return &finding{at + spaces(after), fmt.Sprintf("text can't be on the line of %c", s.text[off]),
			"begin it on the next line, indented; a value that begins with " + s.text[off:off+1] + " goes into quotes"}
	}
	for s.at < len(s.text) {
		line := s.text[s.at : s.at+contentLen(s.text[s.at:])]
		if n := spaces(line); n < len(line) && n <= col {
			return nil
		}
		s.at += lineLen(s.text[s.at:])
	}
	return nil
}

// quoted reads a quoted value, which may span several lines.
func (s *scan) quoted(off, end int) *finding {
	n, bad := quotedLen(s.text[off:])
	switch {
	case bad > 0:
		return badEscape(s.text, off+bad)
	case n < 0:
		return unclosedQuote(s.text, off)
	}
	if after := uncommented(s.rest(off + n)); after != "" {
		if off+n > end {
			return unclosedQuote(s.text, off)
		}
		at := off + n + spaces(s.text[off+n:])
		remedy := "put the whole value into quotes: " + inQuotes(uncommented(s.text[off:end]))
		if at == off+n && s.text[off] == '\'' {
			remedy = "write '' for an apostrophe inside single quotes"
		}
		return &finding{at, "there is text after the closing quote", remedy}
	}
	s.skipTo(off + n)
	return nil
}

// rest returns the rest of the line at off.
func (s *scan) rest(off int) string { return s.text[off : off+contentLen(s.text[off:])] }

// skipTo continues with the line after off.
func (s *scan) skipTo(off int) { s.at = max(s.at, off+lineLen(s.text[off:])) }

// quotedLen returns the length of the quoted text at the beginning of s, or -1 if it is never closed. bad is the
// place of an escape that YAML does not know.
func quotedLen(s string) (n, bad int) {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case q == '"' && s[i] == '\\':
			if i+1 < len(s) && strings.IndexByte("0abt\tnvfre \"/\\N_LPxuU\r\n", s[i+1]) < 0 {
				return -1, i
			}
			i++
		case s[i] == q && q == '\'' && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			return i + 1, 0
		}
	}
	return -1, 0
}

func badEscape(text string, off int) *finding {
	c := text[off+1 : min(off+2, len(text))]
	return &finding{off, fmt.Sprintf(`\%s means nothing in double quotes`, c),
		fmt.Sprintf(`write \\%s, or use single quotes, in which a backslash is an ordinary character`, c)}
}

func unclosedQuote(text string, off int) *finding {
	inside := "a quote inside is written \\\""
	if text[off] == '\'' {
		inside = "an apostrophe inside is written ''"
	}
	return &finding{off, "this quote is not closed on its line", fmt.Sprintf("close it with %c; %s", text[off], inside)}
}

// uncommented returns s without its comment at the end, and trimmed.
func uncommented(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// inQuotes quotes text for YAML, with the quotes that need the fewest changes.
func inQuotes(text string) string {
	if strings.Contains(text, "'") && !strings.ContainsAny(text, `"\`) {
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
