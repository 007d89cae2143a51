package doc

import (
	"bytes"
	"math"
)

// Messages that are used in several places.
const (
	msgEmpty = "the payload is empty"
	msgEnd   = "unexpected end of document"
)

// scanner checks a text. Its methods take the offset where something begins. They return the offset after it or, if
// the text is wrong, the complement of the offset of the mistake, and set msg.
type scanner struct {
	data    []byte
	msg     string
	escaped bool // a string had a backslash
}

func (s *scanner) fail(at int, msg string) int {
	s.msg = msg
	return ^at
}

// scan checks data and records its fields.
func (x *index) scan(data []byte) (err *SyntaxError) {
	x.data = data
	x.start, x.end, err = check(data, x)
	x.own = len(x.fields)
	return err
}

// check checks data, and returns where its value is. If x is not nil, it records the fields of an object in x.
func check(data []byte, x *index) (start, end int, err *SyntaxError) {
	if len(data) == 0 {
		return 0, 0, &SyntaxError{0, msgEmpty}
	}
	if uint64(len(data)) > math.MaxUint32 {
		return 0, 0, &SyntaxError{len(data) - 1, "the payload is larger than 4 GiB"}
	}
	s := scanner{data: data}
	start = space(data, 0)
	end = s.root(start, x)
	if end < 0 {
		return 0, 0, &SyntaxError{^end, s.msg}
	}
	if i := space(data, end); i < len(data) {
		return 0, 0, &SyntaxError{i, "text after the document"}
	}
	return start, end, nil
}

func (s *scanner) root(i int, x *index) int {
	if i < len(s.data) && s.data[i] == '{' {
		return s.object(i+1, 1, x)
	}
	if bytes.HasPrefix(s.data, []byte("\ufeff")) {
		return s.fail(0, "there is a byte order mark before the document")
	}
	return s.value(i, 0)
}

// space skips white space.
func space(data []byte, i int) int {
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value checks a value inside depth containers.
func (s *scanner) value(i, depth int) int {
	data := s.data
	if i >= len(data) {
		return s.fail(i, msgEnd)
	}
	switch c := data[i]; c {
	case '"':
		return s.text(i + 1)
	case '{':
		return s.object(i+1, depth+1, nil)
	case '[':
		return s.array(i+1, depth+1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number(i)
		}
		return s.fail(i, wrongValue(c))
	}
}

// wrongValue explains values in the style of other languages.
func wrongValue(c byte) string {
	switch c {
	case '\'':
		return "a string needs double quotes"
	case '+', '.':
		return "a number must begin with a digit or '-'"
	case '/', '#':
		return "comments are not allowed"
	case 'N', 'I':
		return "NaN and Infinity are not values"
	}
	return "expected a value"
}

// object checks an object from after its brace, and records its fields in x if x is not nil.
func (s *scanner) object(i, depth int, x *index) int {
	data := s.data
	if depth > MaxDepth {
		return s.tooDeep(i - 1)
	}
	i = space(data, i)
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(data) || data[i] != '"' {
			return s.noKey(i)
		}
		key := i + 1
		s.escaped = false
		// Most keys end within one word, so checking that here saves a call.
		if w, found := special8(data, key); byteAt(w, found) == '"' {
			i = key + first(found) + 1
		} else if i = s.text(key); i < 0 {
			return i
		}
		keyEnd := i - 1
		if x != nil && s.escaped {
			x.odd = true
		}

		if i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}
		if i >= len(data) || data[i] != ':' {
			return s.missing(i, "expected ':' after a key")
		}
		if i++; i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}

		val := i
		if i < len(data) && data[i] == '"' {
			if w, found := special8(data, i+1); byteAt(w, found) == '"' {
				i += first(found) + 2
			} else {
				i = s.text(i + 1)
			}
		} else {
			i = s.value(i, depth)
		}
		if i < 0 {
			return i
		}
		if x != nil {
			// Fields are set one by one: copying a struct that was made elsewhere would stall on its parts, which are
			// not in memory yet.
			f := x.add()
			f.key, f.keyEnd, f.val, f.valEnd, f.edit = uint32(key), uint32(keyEnd), uint32(val), uint32(i), 0
		}

		if i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}
		if i >= len(data) || data[i] != ',' {
			if i < len(data) && data[i] == '}' {
				return i + 1
			}
			return s.missing(i, "expected ',' or '}' after a value")
		}
		if i++; i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}
	}
}

// noKey returns what is wrong in place of a key.
func (s *scanner) noKey(i int) int {
	if i < len(s.data) && s.data[i] == '}' {
		return s.fail(i, "there is a comma before '}'")
	}
	return s.missing(i, "expected a key in double quotes")
}

// array checks an array from after its bracket.
func (s *scanner) array(i, depth int) int {
	data := s.data
	if depth > MaxDepth {
		return s.tooDeep(i - 1)
	}
	i = space(data, i)
	if i < len(data) && data[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return i
		}
		if i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}
		if i >= len(data) || data[i] != ',' {
			if i < len(data) && data[i] == ']' {
				return i + 1
			}
			return s.missing(i, "expected ',' or ']' after a value")
		}
		if i++; i < len(data) && data[i] <= ' ' {
			i = space(data, i)
		}
		if i < len(data) && data[i] == ']' {
			return s.fail(i, "there is a comma before ']'")
		}
	}
}

func (s *scanner) tooDeep(at int) int { return s.fail(at, "nested deeper than 512") }

// missing fails because something is missing: what msg says, or any text at all.
func (s *scanner) missing(at int, msg string) int {
	if at >= len(s.data) {
		msg = msgEnd
	}
	return s.fail(at, msg)
}

func (s *scanner) literal(i int, want string) int {
	for n := range len(want) {
		if i+n >= len(s.data) {
			return s.fail(i+n, msgEnd)
		}
		if s.data[i+n] != want[n] {
			return s.fail(i, "expected "+want)
		}
	}
	return i + len(want)
}

func (s *scanner) number(i int) int {
	data := s.data
	if i+8 <= len(data) {
		w := word(data, i)
		end := notDigit(w)
		if n := first(end); n == 1 || n > 1 && byte(w) != '0' && end != 0 {
			if c := byteAt(w, end); c != '.' && c|0x20 != 'e' {
				return i + n
			}
		}
	}
	if data[i] == '-' {
		i++
	}
	whole := i
	if i = digits(data, i); i == whole {
		return s.missing(i, "expected a digit after '-'")
	}
	if data[whole] == '0' && i > whole+1 {
		return s.fail(whole, "a number has a leading zero")
	}
	if i < len(data) && data[i] == '.' {
		frac := i + 1
		if i = digits(data, frac); i == frac {
			return s.missing(i, "expected a digit after '.'")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		exp := i
		if i = digits(data, exp); i == exp {
			return s.missing(i, "expected a digit in the exponent")
		}
	}
	return i
}

// digits skips digits.
func digits(data []byte, i int) int {
	for i+8 <= len(data) {
		if end := notDigit(word(data, i)); end != 0 {
			return i + first(end)
		}
		i += 8
	}
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i
}
