package expr

import (
	"bytes"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
)

// each calls literal and code for the parts of a template, as they are written.
func (t *template) each(literal, code func(text string)) {
	text, from := t.origin.Text, 0
	for _, p := range t.parts {
		if p.expr != nil {
			literal(strings.ReplaceAll(text[from:p.from], "$$(", "$("))
			code(strings.TrimSpace(text[p.from+len("$(") : p.to-1]))
			from = p.to
		}
	}
	literal(strings.ReplaceAll(text[from:], "$$(", "$("))
}

// asText adds up a template's parts.
func (t *template) asText() string {
	var terms []string
	t.each(func(text string) {
		if text != "" {
			terms = append(terms, codetext.Quote(text))
		}
	}, func(code string) { terms = append(terms, "string("+code+")") })
	if only, ok := strings.CutPrefix(terms[0], "string("); ok && len(terms) == 1 {
		return strings.TrimSuffix(only, ")") // a body of one value needs no text of it
	}
	return strings.Join(terms, " + ")
}

// asJSON is a template of JSON as an expression: what stood in its texts is added to
// them, and what stood beside them is a value.
func (t *template) asJSON() string {
	var b []byte
	inText, escaped, closed := false, false, false // closed: a quote is still to be opened again
	t.each(func(text string) {
		for _, c := range []byte(text) {
			ends := c == '"' && !escaped
			if closed {
				closed = false
				if ends { // nothing follows the value
					inText = false
					continue
				}
				b = append(b, ` + "`...)
			}
			if ends {
				inText = !inText
			}
			escaped = inText && c == '\\' && !escaped
			b = append(b, c)
		}
	}, func(code string) {
		switch {
		case !inText:
			b = append(b, code...)
			return
		case closed:
			b = append(b, " + "...)
		case b[len(b)-1] == '"' && opens(b): // nothing precedes it
			b = b[:len(b)-1]
		default:
			b = append(b, `" + `...)
		}
		b = append(b, "string("+code+")"...)
		closed = true
	})
	return string(b)
}

// opens says whether the quote at the end of code is not escaped.
func opens(code []byte) bool {
	front := bytes.TrimRight(code[:len(code)-1], `\`)
	return (len(code)-1-len(front))%2 == 0
}
