package lang

import (
	"bytes"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
)

// each calls literal and code for the parts of a template as they are written.
func (t *Template) each(literal, code func(text string)) {
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

// AsText is the expression that gives the text of the template.
func (t *Template) AsText() string {
	var terms []string
	t.each(func(text string) {
		if text != "" {
			terms = append(terms, codetext.Quote(text))
		}
	}, func(code string) { terms = append(terms, "string("+code+")") })
	if only, ok := strings.CutPrefix(terms[0], "string("); ok && len(terms) == 1 {
		return strings.TrimSuffix(only, ")") // one value needs no string() around it
	}
	return strings.Join(terms, " + ")
}

// AsCode is the source with the bare code of its expressions.
func (t *Template) AsCode() string {
	var b strings.Builder
	write := func(text string) { b.WriteString(text) }
	t.each(write, write)
	return b.String()
}

// AsJSON is the expression that gives the JSON which the template writes. Expressions within texts are added to these; others are
// values.
func (t *Template) AsJSON() string {
	var b []byte
	inText, escaped, closed := false, false, false // closed: the text has been closed for an expression, and may go on
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
