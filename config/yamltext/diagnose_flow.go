package yamltext

import (
	"fmt"
	"strings"
)

// flow reads a value in brackets or braces, which may span several lines. col is the indentation of the key or item
// that holds it: a key at that column shows that the closing bracket is missing.
func (s *scan) flow(off, col int) *finding {
	var open []int // where the unclosed brackets begin
	unclosed := func() *finding {
		last := open[len(open)-1]
		return &finding{last, fmt.Sprintf("this %c is not closed", s.text[last]),
			fmt.Sprintf("close it with %c", closing(s.text[last]))}
	}
	fresh, colon := true, false // at the beginning of a value; after the colon of a pair
	for i := off; i < len(s.text); i++ {
		c := s.text[i]
		blank := i > 0 && endsWord(s.text[i-1:i])
		switch {
		case c == '\n' || c == '\r':
			line := s.rest(i + 1)
			if n := spaces(line); n <= col && (keyLen(line[n:]) >= 0 || strings.HasPrefix(line[n:], "- ")) {
				return unclosed()
			}
		case c == ' ' || c == '\t':
		case c == '#' && blank:
			i += contentLen(s.text[i:]) - 1
		case c == '[' || c == '{':
			if !fresh {
				return inFlow(s.text, i, c)
			}
			open = append(open, i)
			colon = false
		case c == ']' || c == '}':
			last := open[len(open)-1]
			if want := closing(s.text[last]); c != want {
				return &finding{i, fmt.Sprintf("%c can't close the %c before it", c, s.text[last]),
					fmt.Sprintf("write %c first", want)}
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return s.behindFlow(off, i+1)
			}
			if next := i + 1 + spaces(s.text[i+1:]); next < len(s.text) && strings.IndexByte(",:]}#\r\n", s.text[next]) < 0 {
				return &finding{next, fmt.Sprintf("there is text after the closing %c", c), "put a comma in between"}
			}
			fresh, colon = false, false
		case c == ',' && fresh && !colon:
			return &finding{i, "there is nothing in front of this comma", "remove it, or write a value before it"}
		case c == ',':
			fresh, colon = true, false
		case c == ':' && (endsWord(s.text[i+1:]) || strings.IndexByte(",]}", s.text[i+1]) >= 0):
			if colon {
				return &finding{i, "there is a second colon in one pair",
					"separate pairs with commas; put a value that contains `: ` into quotes"}
			}
			fresh, colon = true, true
		case c == '?' && (!fresh || endsWord(s.text[i+1:])): // the parser reads it as the start of a key
			return inFlow(s.text, i, c)
		case fresh && (c == '"' || c == '\''):
			n, bad := quotedLen(s.text[i:])
			if bad > 0 {
				return badEscape(s.text, i+bad)
			}
			if n < 0 {
				return unclosedQuote(s.text, i)
			}
			i += n - 1
			next := i + 1 + spaceLen(s.text[i+1:])
			if next < len(s.text) && strings.IndexByte(",:]}#", s.text[next]) < 0 {
				return &finding{next, "there is text after the closing quote",
					"put the whole value into quotes, or a comma in between"}
			}
			fresh = false
		case fresh && strings.IndexByte("@`%|>", c) >= 0:
			return &finding{i, fmt.Sprintf("a value can't begin with %c", c), "put it into quotes"}
		case fresh && c == '&': // the value follows
			n := until(s.text[i+1:], ",]} \t\r\n")
			s.anchors[s.text[i+1:i+1+n]] = true
			i += n
		case fresh && c == '*':
			name := s.text[i+1 : i+1+until(s.text[i+1:], ",]} \t\r\n")]
			if !s.anchors[name] {
				return unnamed(i, name, "put the value into quotes")
			}
			fresh = false
		default:
			fresh = false
		}
	}
	return unclosed()
}

// behindFlow reads the text after the last closing bracket.
func (s *scan) behindFlow(off, end int) *finding {
	after := uncommented(s.rest(end))
	if after == "" || after[0] == ':' {
		s.skipTo(end)
		return nil
	}
	at := end + spaces(s.text[end:])
	if strings.IndexByte("]}", after[0]) >= 0 {
		return &finding{at, fmt.Sprintf("this %c closes nothing", after[0]), "remove it, or open it before"}
	}
	whole := s.text[off : end+contentLen(s.text[end:])]
	return &finding{at, fmt.Sprintf("there is text after the closing %c", s.text[end-1]),
		"put the whole value into quotes: " + inQuotes(uncommented(whole))}
}

func inFlow(text string, off int, c byte) *finding {
	return &finding{off, fmt.Sprintf("%c is in a value inside brackets or braces", c),
		"put the whole value into quotes" + flowValue(text, off)}
}

// flowValue returns, in quotes, the value or key that contains the byte at off on its line. It returns "" if its ends
// are unclear.
func flowValue(text string, off int) string {
	from := strings.LastIndexAny(text[:off], "\n") + 1
	begin, depth := from, 0
	for i := off - 1; i >= from; i-- {
		switch c := text[i]; {
		case c == ')':
			depth++
		case c == '(' && depth > 0:
			depth--
		case c == '"' || c == '\'':
			return ""
		case depth == 0 && (c == ',' || c == '{' || c == ':' && endsWord(text[i+1:]) || c == '[' && i > from &&
			endsWord(text[i-1:i])):
			begin, i = i+1, from
		}
	}
	depth = 0
	for i := off; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'' || c == '\n' || c == '\r':
			return ""
		case c == '(' || c == '[' || c == '{':
			depth++
		case depth > 0 && (c == ')' || c == ']' || c == '}'):
			depth--
		case depth == 0 && (c == ',' || c == '}' || c == ']' ||
			c == ':' && (text[off] != '?' || i == off+1) && endsWord(text[i+1:])):
			if strings.Count(text[begin:i], "[") != strings.Count(text[begin:i], "]") ||
				strings.Count(text[begin:i], "(") != strings.Count(text[begin:i], ")") {
				return ""
			}
			return ": " + inQuotes(strings.TrimSpace(text[begin:i]))
		}
	}
	return ""
}

func closing(c byte) byte {
	if c == '[' {
		return ']'
	}
	return '}'
}
