package fields

import (
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Lines is a config field with `{path: expression}` pairs, in the order written.
type Lines []Line

// Line assigns the value of an expression to a path.
type Line struct {
	to   doc.Path
	expr expr.Expr
	from doc.Path // of an expression that is just a path
	bare bool     // the expression is such a path, so source text is copied
}

// Source is what a line reads, such as a message.
type Source = expr.Source

// Object puts all values of src into d, a new object. If a document of src can't have fields and a line names one, it
// fails: see [expr.Expr.Fits].
func (l Lines) Object(src Source, d *doc.Doc) error {
	for i := range l {
		if err := l[i].expr.Fits(src); err != nil {
			return err
		}
		if err := l[i].Apply(src, d); err != nil {
			return err
		}
	}
	return nil
}

// Apply evaluates the line on src and puts the value into d, which may be src's own document. The value of a bare
// path keeps its source text. A missing value becomes null.
func (l *Line) Apply(src Source, d *doc.Doc) error {
	if !l.bare {
		return l.expr.Encode(src, func(v any) error { return d.Set(l.to, v) })
	}
	raw, ok, err := src.Document().Raw(l.from)
	if err != nil {
		return err
	}
	if !ok {
		return d.Set(l.to, nil)
	}
	return d.SetRaw(l.to, raw)
}

// Calls returns the function calls in all expressions.
func (l Lines) Calls() (all expr.Calls) {
	for i := range l {
		all = append(all, l[i].expr.Calls()...)
	}
	return all
}

// UnmarshalConfig decodes a mapping of paths to expressions.
func (l *Lines) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	var m schema.Map[expr.Expr]
	d.Decode(n, &m)
	needsLine(d, n, "path: expression")
	*l = make(Lines, 0, m.Len())
	for _, e := range m.Entries() {
		line := Line{to: parse(d, key(n, e.Key), e.Key), expr: e.Value}
		line.from, line.bare = e.Value.Path()
		*l = append(*l, line)
	}
}

// DescribeConfig describes a mapping of expressions.
func (l *Lines) DescribeConfig() *schema.Type { return schema.Of(schema.Map[expr.Expr]{}) }
