package yamltext

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// diagnose reads text that is not valid YAML line by line, and returns the first of the usual mistakes, or nil. It
// knows only as much YAML as that takes: indentation, quotes, brackets, blocks.
func diagnose(text string) *finding {
	s := scan{text: text, number: 1, anchors: map[string]bool{}}
	for s.at < len(text) {
		if f := s.line(); f != nil {
			return f
		}
	}
	return nil
}

// scan is the state of diagnose.
type scan struct {
	text   string
	at     int // between calls of line: the beginning of the next line
	bol    int // the beginning of the current line
	number int // of the current line, from 1
	whole  int // the beginning of the current value, including its tag
	levels []level
	// explicit reports that a key began with `? `, so its value begins with a colon.
	explicit bool
	anchors  map[string]bool
}

// level is an indentation that a line above has opened.
type level struct {
	col   int
	line  int  // the last line at this level
	item  bool // its lines are list items, not keys
	open  bool // the value is missing so far: deeper lines may follow
	plain bool // it has an unquoted value, which deeper lines continue
}

var (
	missingSpace = onFirstUse(`^([\w.-]+):([^\s:/].*)$`)
	equalsSign   = onFirstUse(`^([\w.-]+)\s*=\s*(\S.*)$`)
	missingColon = onFirstUse(`^([\w.-]+)(?:\s+(\S.*))?$`)
)

// onFirstUse compiles a regular expression when it is first needed: few files need it.
func onFirstUse(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// line reads the line at s.at and, if its value continues, the lines that belong to it.
func (s *scan) line() *finding {
	s.number += strings.Count(s.text[s.bol:s.at], "\n")
	s.bol = s.at
	end := s.at + contentLen(s.text[s.at:])
	line := s.text[s.at:end]
	s.at = end + breakLen(s.text[end:])
	content := strings.TrimLeft(line, " \t")
	switch {
	case content == "" || content[0] == '#':
		return nil
	case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "..."), line[0] == '%':
		s.levels = nil
		return nil
	}
	indent := line[:len(line)-len(content)]
	if i := strings.IndexByte(indent, '\t'); i >= 0 {
		return &finding{s.bol + i, "a tab indents this line; YAML allows only spaces",
			"replace it with two spaces per level"}
	}
	return s.entry(s.bol+len(indent), end, false)
}

// entry reads the text from off to the end of the line at end: list items, a key with its value, or a value.
func (s *scan) entry(off, end int, behindDash bool) *finding {
	rest := s.text[off:end]
	col := off - s.bol
	item := rest == "-" || strings.HasPrefix(rest, "- ")
	colon := keyLen(rest)
	if top := s.top(); top != nil && !behindDash && top.plain && col > top.col {
		if item || colon < 0 {
			return nil
		}
		return tooFar(off, top)
	}
	switch {
	case strings.IndexByte(",]}", rest[0]) >= 0:
		return &finding{off, fmt.Sprintf("a line can't begin with %c", rest[0]), "remove it, or put the key or value into quotes"}
	case strings.HasPrefix(rest, "? "):
		s.explicit = true
		return nil // a key without a value
	case (rest == ":" || strings.HasPrefix(rest, ": ")) && !s.explicit:
		return &finding{off, "a key is missing before the colon", "write a name"}
	case s.explicit && strings.HasPrefix(rest, ":"):
		s.explicit = false
		return s.value(off+1, end)
	case item:
		if f := s.enter(off, col, true); f != nil {
			return f
		}
		next := off + 1 + spaces(s.text[off+1:end])
		if next == end || s.text[next] == '#' {
			return nil
		}
		return s.entry(next, end, true)
	case colon >= 0:
		if f := s.enter(off, col, false); f != nil {
			return f
		}
		return s.value(off+colon+1, end)
	case behindDash:
		return s.value(off, end)
	}
	return s.bare(off, end, col)
}

// bare reads a line that is neither an item nor a key with a colon: the value of a key above, or a key without its
// colon.
func (s *scan) bare(off, end, col int) *finding {
	rest := strings.TrimRight(s.text[off:end], " \t")
	m := missingSpace().FindStringSubmatch(rest)
	if m != nil {
		return &finding{off + len(m[1]), "a space is missing after the colon",
			fmt.Sprintf("write `%s: %s`", m[1], m[2])}
	}
	if strings.HasPrefix(rest, "```") {
		return &finding{off, "``` belongs to Markdown", "remove the line"}
	}
	s.leave(col)
	more := strings.TrimSpace(s.text[s.at:]) != ""
	if top := s.top(); top == nil && (col > 0 || !more) || top != nil && top.open && top.col < col {
		return s.value(off, end)
	}
	if m := equalsSign().FindStringSubmatch(rest); m != nil {
		return &finding{off, "a key ends with a colon, not with an equals sign",
			fmt.Sprintf("write `%s: %s`", m[1], m[2])}
	}
	if m := missingColon().FindStringSubmatch(rest); m != nil {
		return &finding{off, fmt.Sprintf("a colon is missing after %q", m[1]),
			"write `" + strings.TrimRight(m[1]+": "+m[2], " ") + "`"}
	}
	return &finding{off, "this line is neither `key: value` nor a list item",
		"write `key: value`, or indent it below the value that it continues"}
}

// enter finds the level of an item or key at col, or opens one.
func (s *scan) enter(off, col int, item bool) *finding {
	closed, top := s.leave(col), s.top()
	switch {
	case top == nil && closed != nil:
		return &finding{off, fmt.Sprintf("this line is indented less than line %d, where the file begins", closed.line),
			fmt.Sprintf("indent it by %d", closed.col)}
	case top == nil, top.open && top.col < col, top.open && top.col == col && item && !top.item:
		if top != nil {
			top.open = false
		}
		s.levels = append(s.levels, level{col: col, line: s.number, item: item, open: true})
		return nil
	case top.col == col && top.item && !item && len(s.levels) > 1 && s.levels[len(s.levels)-2].col == col:
		s.levels = s.levels[:len(s.levels)-1] // a list may be indented like its key
		top = s.top()
	case top.col == col && top.item != item:
		return &finding{off,
			fmt.Sprintf("a list item and a key can't be at the same level, as on this line and line %d", top.line),
			"indent what belongs to the line above, or begin it with `- ` as well"}
	case top.col < col && closed == nil:
		return tooFar(off, top)
	case top.col < col && closed.line == top.line:
		return &finding{off, fmt.Sprintf("this line is indented by %d, unlike any line above that it could belong to",
			col), fmt.Sprintf("indent it by %d, to be beside what follows the - on line %d, or by %d for another item",
			closed.col, top.line, top.col)}
	case top.col < col:
		return &finding{off, fmt.Sprintf("this line is indented by %d, unlike any line above that it could belong to",
			col), fmt.Sprintf("indent it by %d like line %d, or by %d like line %d", closed.col, closed.line, top.col,
			top.line)}
	}
	top.line, top.open, top.plain = s.number, true, false
	return nil
}

// tooFar returns the mistake of a line below a level that has its value already.
func tooFar(off int, top *level) *finding {
	return &finding{off, fmt.Sprintf("this line is indented below line %d, whose value is complete", top.line),
		"indent it like the lines around it, or remove the value above"}
}

// leave closes the levels beyond a column, and returns the last one closed.
func (s *scan) leave(col int) (closed *level) {
	for top := s.top(); top != nil && top.col > col; top = s.top() {
		closed = top
		s.levels = s.levels[:len(s.levels)-1]
	}
	return closed
}

func (s *scan) top() *level {
	if len(s.levels) == 0 {
		return nil
	}
	return &s.levels[len(s.levels)-1]
}

// keyLen returns the distance to the colon after the key at the beginning of s, or -1 if there is no key.
func keyLen(s string) int {
	i := 0
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		n, _ := quotedLen(s)
		if n < 0 {
			return -1
		}
		i = n + spaces(s[n:])
		if i < len(s) && s[i] == ':' && endsWord(s[i+1:]) {
			return i
		}
		return -1
	}
	if s != "" && strings.IndexByte("[{|>#@`%", s[0]) >= 0 {
		return -1
	}
	for ; i < len(s); i++ {
		switch {
		case s[i] == ':' && endsWord(s[i+1:]):
			return i
		case s[i] == '#' && i > 0 && (s[i-1] == ' ' || s[i-1] == '\t'):
			return -1
		}
	}
	return -1
}

// endsWord reports whether s is empty or begins with white space.
func endsWord(s string) bool { return s == "" || strings.IndexByte(" \t\r\n", s[0]) >= 0 }
