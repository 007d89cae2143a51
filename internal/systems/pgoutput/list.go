package pgoutput

import "bytes"

// mostDimensions is PostgreSQL's limit for the dimensions of an array.
const mostDimensions = 6

// appendList appends an array, such as {1,2,NULL} or {{1},{2}}, as JSON arrays. ok is false if text is not a valid array. Bounds,
// as in [0:1]={1,2}, are left out.
func appendList(dst, text []byte, s Shape) (all []byte, ok bool) {
	if len(text) > 0 && text[0] == '[' {
		_, rest, found := bytes.Cut(text, []byte("]={"))
		if !found {
			return nil, false
		}
		text = text[len(text)-len(rest)-1:]
	}
	l := list{text: text, shape: s}
	dst = l.level(dst, 1)
	return dst, !l.wrong && l.pos == len(l.text)
}

// list converts an array.
type list struct {
	text  []byte
	pos   int
	shape Shape
	plain []byte // an element without quotes and escapes
	wrong bool   // text is not a valid array
}

func (l *list) peek() byte {
	if l.pos < len(l.text) {
		return l.text[l.pos]
	}
	l.wrong = true
	return 0
}

// level appends the array that begins at the current position. Its elements may be arrays, too.
func (l *list) level(dst []byte, depth int) []byte {
	if l.peek() != '{' || depth > mostDimensions {
		l.wrong = true
		return dst
	}
	l.pos++
	dst = append(dst, '[')
	if l.peek() == '}' {
		l.pos++
		return append(dst, ']')
	}
	for !l.wrong {
		if l.peek() == '{' {
			dst = l.level(dst, depth+1)
		} else {
			dst = l.element(dst)
		}
		switch c := l.peek(); {
		case l.wrong:
		case c == '}':
			l.pos++
			return append(dst, ']')
		case c == l.shape.delimiter:
			l.pos++
			dst = append(dst, ',')
		default:
			l.wrong = true
		}
	}
	return dst
}

func (l *list) element(dst []byte) []byte {
	l.plain = l.plain[:0]
	quoted := l.peek() == '"'
	if quoted {
		l.pos++
	}
	for {
		switch c := l.peek(); {
		case l.wrong:
			return dst
		case quoted && c == '"':
			l.pos++
			return l.shape.element.Append(dst, l.plain)
		case !quoted && (c == l.shape.delimiter || c == '}'):
			if string(l.plain) == "NULL" {
				return append(dst, "null"...)
			}
			return l.shape.element.Append(dst, l.plain)
		case c == '\\':
			l.pos++
			c = l.peek()
			fallthrough
		default:
			l.plain = append(l.plain, c)
			l.pos++
		}
	}
}
