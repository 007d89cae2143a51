package expr

import (
	"bytes"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Body is an expression for what is sent or made: its text as it is, anything else as JSON.
// As a config field it refuses a template, and says what to write.
type Body struct{ Expr }

var _ schema.Unmarshaler = (*Body)(nil)

// UnmarshalConfig is that of Expr.
func (b *Body) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	*b = Body{}
	if n.Kind == schema.TextNode {
		if at := strings.Index(n.Text, "$("); at >= 0 {
			d.Report(n, schema.Problem{Code: problemCode, Caret: n.At(at),
				Message: "this is an expression, not a template", Remedy: untemplated(n.Text, scopesOf(d))})
			return
		}
		if prose(n.Text, scopesOf(d)) {
			d.Report(n, schema.Problem{Code: problemCode, Caret: n.At(0),
				Message: "this is an expression, and text in it must be in quotes",
				Remedy:  "write " + inYAML(quoted(n.Text))})
			return
		}
	}
	b.p = decode(d, n)
}

// AppendBody is that of Expr, for what the document can give: see [Expr.Fits].
func (b *Body) AppendBody(dst []byte, s Source) ([]byte, error) {
	if err := b.Fits(s); err != nil {
		return dst, err
	}
	return b.Expr.AppendBody(dst, s)
}

// untemplated is the remedy for a template: the expression that gives the same.
func untemplated(text string, scopes []string) string {
	t, errs := parseTemplate([]schema.Piece{{Text: text}}, &origin{text: text}, scopes)
	if len(errs) > 0 {
		return `write text in quotes, and fields without $( ): '"Hello " + string(name)'`
	}
	start := strings.TrimLeft(text, " \t\r\n")
	if strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		if code := strings.TrimSpace(strings.ReplaceAll(t.asJSON(), "\n", " ")); compiles(code, scopes) {
			return "write " + inYAML(code)
		}
	}
	return "write " + inYAML(t.asText())
}

// each calls literal and code for the parts of a template, as they are written.
func (t *template) each(literal, code func(text string)) {
	text, from := t.origin.text, 0
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
			terms = append(terms, quoted(text))
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

func compiles(code string, scopes []string) bool {
	_, err := Compile(code, scopes...)
	return err == nil
}

var plainWords = lazily(`^(?:<.*>|[\pL\pN][\pL\pN\s.,!?:;'’-]*)$`)

// prose says whether text is not an expression but words.
func prose(text string, scopes []string) bool {
	text = strings.TrimSpace(text)
	if compiles(text, scopes) || !plainWords().MatchString(text) {
		return false
	}
	words := strings.Fields(text)
	return (len(words) > 1 || strings.ContainsAny(text, "<!?")) &&
		!slices.ContainsFunc(words, func(w string) bool { return slices.Contains(reserved, w) })
}

// inYAML is code as a YAML value that is valid anywhere.
func inYAML(code string) string { return "'" + strings.ReplaceAll(code, "'", "''") + "'" }
