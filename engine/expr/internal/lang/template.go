package lang

import (
	"bytes"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

// Template is a compiled template.
type Template struct {
	origin *codetext.Origin
	parts  []part
}

// part is literal text, or an expression.
type part struct {
	text string
	expr *Program
	from int // where the $( of an expression is in the source
	to   int // after its )
}

// The methods of a template take nil, which stands for a template that a configuration leaves out.

// Source is the template as written, with placeholders in place of their values.
func (t *Template) Source() string {
	if t == nil {
		return ""
	}
	return t.origin.Text
}

// Place is where the template is in a configuration; zero when a program compiled it.
func (t *Template) Place() schema.Place {
	if t == nil {
		return schema.Place{}
	}
	return t.origin.Place
}

// Programs are the expressions of the template, in order.
func (t *Template) Programs() (all []*Program) {
	if t == nil {
		return nil
	}
	for _, p := range t.parts {
		if p.expr != nil {
			all = append(all, p.expr)
		}
	}
	return all
}

// Const is the text of a template without expressions.
func (t *Template) Const() (string, bool) {
	if t != nil && slices.ContainsFunc(t.parts, func(p part) bool { return p.expr != nil }) {
		return "", false
	}
	return t.Prefix(), true
}

// Prefix is the literal text before the first expression.
func (t *Template) Prefix() string {
	if t == nil || len(t.parts) == 0 || t.parts[0].expr != nil {
		return ""
	}
	return t.parts[0].text
}

// Literal is the text outside of the expressions.
func (t *Template) Literal() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.text)
	}
	return b.String()
}

// Blanked is the source with blanks in place of the expressions, so that offsets stay the same.
func (t *Template) Blanked() string {
	b := []byte(t.Source())
	for _, p := range t.parts {
		if p.expr != nil {
			copy(b[p.from:p.to], bytes.Repeat([]byte(" "), p.to-p.from))
		}
	}
	return string(b)
}

// Text is the text for a message; a part that is nil is an error.
func (t *Template) Text(s Source) (string, error) {
	if text, ok := t.Const(); ok {
		return text, nil
	}
	b, err := t.Append(nil, s)
	return string(b), err
}

// Append is Text without the allocation. On an error dst is returned as it was.
func (t *Template) Append(dst []byte, s Source) ([]byte, error) {
	if t == nil {
		return dst, nil
	}
	out := dst
	var f *Frame // for all parts that need one, which share a budget
	defer func() {
		if f != nil {
			f.release()
		}
	}()
	for i := range t.parts {
		p := &t.parts[i]
		if p.expr == nil {
			out = append(out, p.text...)
			continue
		}
		var err error
		if out, err = p.expr.appendPart(out, s, &f); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// appendPart appends the text of an expression in a template.
func (p *Program) appendPart(dst []byte, s Source, frame **Frame) ([]byte, error) {
	if p.path != nil {
		if raw, ok := simple(s, *p.path); ok {
			if raw[0] == '"' {
				raw = raw[1 : len(raw)-1]
			}
			return append(dst, raw...), nil
		}
	} else if p.scalar != nil {
		if v, ok := p.scalar(s.Document()); ok && v.Kind != value.Nil {
			return v.appendText(dst), nil
		}
	}
	if *frame == nil {
		*frame = NewFrame(s, p.Limits)
	}
	v, err := p.runIn(*frame)
	(*frame).reset()
	if err != nil {
		return dst, err
	}
	if v == nil {
		return dst, errorOf(p.origin, &failure{
			offset: p.site.Offset, msg: "this part of the template is nil",
			remedy: ifMissing,
		})
	}
	return p.append(dst, v, AppendText)
}

// TemplateOf is the template $(p). Tests compare it with p.
func TemplateOf(p *Program) *Template {
	return &Template{origin: p.origin, parts: []part{{expr: p}}}
}

// ParseTemplate parses the pieces of a template. The value of a placeholder never becomes code: outside of $( ) it is text, inside
// a literal.
func ParseTemplate(pieces []schema.Piece, o *codetext.Origin, scopes []string) (*Template, []error) {
	r := &templateReader{origin: o, scopes: scopes}
	size := 0
	for _, p := range pieces {
		size += len(p.Text)
	}
	if size > MaxSource {
		r.failWith(0, "", "the template is longer than 64 KiB")
		return nil, r.errs
	}
	for _, p := range pieces {
		switch {
		case r.code == nil && p.Placeholder:
			r.text.WriteString(p.Text)
		case p.Placeholder:
			r.code.AddPlaceholder(p)
		default:
			r.read(p.Text, p.Offset)
		}
	}
	if r.code != nil {
		r.failWith(r.open, "add the closing bracket", "this $( has no )")
	}
	r.flush()
	return &Template{o, r.parts}, r.errs
}

// templateReader collects the parts of a template.
type templateReader struct {
	origin *codetext.Origin
	scopes []string
	text   strings.Builder // literal text not yet a part
	code   *codetext.Coder // of the current expression, or nil
	open   int             // where it began
	parts  []part
	errs   []error
}

// read reads literal text, at offset in the source.
func (r *templateReader) read(text string, offset int) {
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case r.code != nil && rest[0] == ')' && r.code.Scan.Depth == 0 && r.code.Scan.Plain():
			r.close(offset + i)
		case r.code != nil:
			r.code.Add(rest[:1], offset+i)
		case strings.HasPrefix(rest, "$$("):
			r.text.WriteString("$(")
			i += 2
		case strings.HasPrefix(rest, "$("):
			r.flush()
			r.code, r.open = &codetext.Coder{}, offset+i
			i++
		default:
			r.text.WriteByte(rest[0])
		}
	}
}

func (r *templateReader) flush() {
	if r.text.Len() > 0 {
		r.parts = append(r.parts, part{text: r.text.String()})
		r.text.Reset()
	}
}

// close compiles the expression that ends at the bracket at an offset.
func (r *templateReader) close(at int) {
	code := r.code
	r.code = nil
	o := &codetext.Origin{Text: r.origin.Text, Place: r.origin.Place, Decoder: r.origin.Decoder, Runs: code.Runs}
	if len(bytes.TrimSpace(code.Code)) == 0 {
		r.failWith(r.open, "write one, or $$( for this text itself", "there is no expression in $( )")
		return
	}
	p, err := Compile(string(code.Code), o, r.scopes)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	r.parts = append(r.parts, part{expr: p, from: r.open, to: at + 1})
}

func (r *templateReader) failWith(offset int, remedy, msg string) {
	r.errs = append(r.errs, ErrorAt(r.origin, offset, msg, remedy))
}
