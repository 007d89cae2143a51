package pgoutput

import "bytes"

// mostDimensions is how many an array can have.
const mostDimensions = 6

// appendList appends an array, {1,2,NULL} or {{1},{2}}, as a list of lists; ok is false where it is not one. Lower
// bounds other than 1, as in [0:1]={1,2}, are left out.
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
	return dst, !l.wrong && l.at == len(l.text)
}

type list struct {
	text  []byte
	at    int
	shape Shape
	plain []byte // an element without its quotes
	wrong bool
}

func (l *list) peek() byte {
	if l.at < len(l.text) {
		return l.text[l.at]
	}
	l.wrong = true
	return 0
}

// level appends what stands between braces.
func (l *list) level(dst []byte, depth int) []byte {
	if l.peek() != '{' || depth > mostDimensions {
		l.wrong = true
		return dst
	}
	l.at++
	dst = append(dst, '[')
	if l.peek() == '}' {
		l.at++
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
			l.at++
			return append(dst, ']')
		case c == l.shape.delims:
			l.at++
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
		l.at++
	}
	for {
		switch c := l.peek(); {
		case l.wrong:
			return dst
		case quoted && c == '"':
			l.at++
			return l.shape.of.Append(dst, l.plain)
		case !quoted && (c == l.shape.delims || c == '}'):
			if string(l.plain) == "NULL" {
				return append(dst, "null"...)
			}
			return l.shape.of.Append(dst, l.plain)
		case c == '\\':
			l.at++
			c = l.peek()
			fallthrough
		default:
			l.plain = append(l.plain, c)
			l.at++
		}
	}
}
