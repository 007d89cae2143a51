package patterns

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// replacement replaces a match: texts, and groups of the match.
type replacement []piece

// piece is text or, if that is empty, a group.
type piece struct {
	text  string
	name  string // of a group whose number is not known yet
	group int
}

// parseReplacement reads $1, ${name} and $$. A $ before anything else stands for itself.
func parseReplacement(text string) replacement {
	var r replacement
	for {
		before, rest, ok := strings.Cut(text, "$")
		if before != "" {
			r = append(r, piece{text: before})
		}
		if !ok {
			return r
		}
		name := groupName(rest)
		switch text = rest; {
		case strings.HasPrefix(rest, "$"):
			r, text = append(r, piece{text: "$"}), rest[1:]
		case name == "":
			r = append(r, piece{text: "$"})
		case rest[0] == '{':
			r, text = append(r, piece{name: name}), rest[len(name)+2:]
		default:
			r, text = append(r, piece{name: name}), rest[len(name):]
		}
	}
}

// groupName is the name with which text begins, without its braces if it has any, or "".
func groupName(text string) string {
	bare, braces := strings.CutPrefix(text, "{")
	end := strings.IndexFunc(bare, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	switch {
	case end < 0 && !braces:
		return bare
	case end < 0, braces && bare[end] != '}':
		return ""
	}
	return bare[:end]
}

// of is the replacement with the numbers of the groups of a pattern. It is r itself if r has them.
func (r replacement) of(s *lang.Site, re *regexp.Regexp) replacement {
	if !r.open() {
		return r
	}
	settled := make(replacement, len(r))
	for i, p := range r {
		if p.name != "" {
			p.group, p.name = groupOf(s, re, p.name), ""
		}
		settled[i] = p
	}
	return settled
}

// open says whether the numbers of some groups are not known yet.
func (r replacement) open() bool {
	for _, p := range r {
		if p.name != "" {
			return true
		}
	}
	return false
}

func groupOf(s *lang.Site, re *regexp.Regexp, name string) int {
	if n, _ := strconv.Atoi(name); strconv.Itoa(n) == name && n <= re.NumSubexp() {
		return n
	}
	if n := re.SubexpIndex(name); n > 0 {
		return n
	}
	shown, remedy := "a group "+name, "$$ is a dollar sign"
	digits := strings.TrimLeft(name, "0123456789")
	if n := name[:len(name)-len(digits)]; n != "" && digits != "" {
		remedy = fmt.Sprintf("write ${%s}%s for the group %s, or $$ for a dollar sign", n, digits, n)
	}
	if s.Secret[0] {
		shown, remedy = "such a group", ""
	}
	s.FailWith(remedy, "%s(): the pattern does not have %s", s.Name, shown)
	return 0
}

// size is how many bytes the replacement of a match takes.
func (r replacement) size(at []int) int {
	n := 0
	for _, p := range r {
		if p.text != "" {
			n += len(p.text)
		} else if at[2*p.group] >= 0 {
			n += at[2*p.group+1] - at[2*p.group]
		}
	}
	return n
}

// write writes the replacement of a match in text.
func (r replacement) write(b *strings.Builder, text string, at []int) {
	for _, p := range r {
		if p.text != "" {
			b.WriteString(p.text)
		} else if at[2*p.group] >= 0 {
			b.WriteString(text[at[2*p.group]:at[2*p.group+1]])
		}
	}
}
