package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// problemCode is the stable code of every problem with an expression or template.
const problemCode = "expression"

func init() {
	schema.AddCode(problemCode, "An expression or template does not compile, or YAML changed it before it was read.")
}

// UnmarshalConfig compiles the expression of a configuration. The tag scope:"a,b" of the field names the scopes whose functions
// it may call.
func (e *Expr) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if e.p = decode(d, n); e.p == nil {
		return
	}
	if err := e.p.CheckValue(); err != nil {
		report(d, n, err, false)
		e.p = nil
	}
}

// UnmarshalConfig is that of Expr, but the value may also be bytes.
func (v *Value) UnmarshalConfig(d *schema.Decoder, n *schema.Node) { v.p = decode(d, n) }

// UnmarshalConfig is that of Expr, for a condition.
func (c *Cond) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if c.p = decode(d, n); c.p == nil {
		return
	}
	if err := c.p.CheckCondition(); err != nil {
		report(d, c.p.Place().Node, err, false)
		c.p = nil
	}
}

// decode compiles the text of a node. It is nil if the text is wrong, which it reports.
func decode(d *schema.Decoder, n *schema.Node) *lang.Program {
	if t := trapOf(n); t != nil {
		at := n.At(0)
		if strings.HasPrefix(n.Tag, "!") && n.Tag != "!!timestamp" {
			at = n.Pos
		}
		d.Report(n, schema.Problem{Code: problemCode, Message: t.problem, Remedy: t.remedy, Caret: at})
		return nil
	}
	if interpolated(d, n, false) {
		return nil
	}
	shown, pieces, resolved := codeOf(d, n, false)
	if !resolved {
		return nil // which has been reported: compiling the text would only bring more errors
	}
	coder := &codetext.Coder{}
	for _, p := range pieces {
		if p.Placeholder {
			coder.AddPlaceholder(p)
		} else {
			coder.Add(p.Text, p.Offset)
		}
	}
	o := originOf(d, n, shown, coder.Runs)
	p, err := lang.Compile(string(coder.Code), o, scopesOf(d))
	if err == nil {
		p.Limits = schema.Shared[Limits](d)
		err = swallowed(shown, string(coder.Code), o)
	}
	if err != nil {
		report(d, shown, tailed(n, foreign(d, shown, err)), false)
		return nil
	}
	for _, w := range p.Warnings() {
		report(d, shown, w, true)
	}
	warnConstant(d, shown, p)
	warnTail(d, n)
	noteCalls(d, p)
	return p
}

// UnmarshalConfig compiles the template of a configuration. The tag scope:"a,b" of the field names the scopes whose functions its
// expressions may call.
func (t *Template) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	*t = Template{}
	switch n.Kind {
	case schema.ListNode:
		d.Report(n, schema.Problem{Code: problemCode, Message: "expected text, got a list", Remedy: "put it in quotes"})
		return
	case schema.MapNode:
		d.Report(n, schema.Problem{Code: problemCode, Message: "expected text, got a mapping",
			Remedy: "write the text itself, without { }, or in quotes"})
		return
	case schema.NullNode:
		d.Report(n, schema.Problem{Code: problemCode, Message: "there is no text here",
			Remedy: `write "" for an empty one`})
		return
	}
	if interpolated(d, n, true) {
		return
	}
	shown, pieces, resolved := codeOf(d, n, true)
	if !resolved {
		return
	}
	o := originOf(d, n, shown, nil)
	compiled, errs := lang.ParseTemplate(pieces, o, scopesOf(d))
	for _, err := range errs {
		report(d, shown, tailed(n, err), false)
	}
	if len(errs) > 0 || !checkLiteral(d, shown, compiled) {
		return
	}
	warnTail(d, n)
	for _, p := range compiled.Programs() {
		p.Limits = schema.Shared[Limits](d)
		noteCalls(d, p)
		for _, w := range p.Warnings() {
			report(d, shown, w, true)
		}
	}
	t.t = compiled
}

// noteCalls adds the calls in a program to the shared Calls of a decoder.
func noteCalls(d *schema.Decoder, p *lang.Program) {
	all := schema.Shared[Calls](d)
	*all = append(*all, p.Calls()...)
}

func scopesOf(d *schema.Decoder) []string {
	tag := d.Tag("scope")
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// report reports an error, with a caret at its place in the file.
func report(d *schema.Decoder, n *schema.Node, err error, warning bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Msg: err.Error()}
	}
	at := n.At(e.Offset)
	d.Report(n, schema.Problem{Pos: at, Code: problemCode, Message: e.Msg, Remedy: e.Remedy, Warning: warning,
		Caret: at})
}

// DescribeConfig is the type of the field in docs and JSON Schema: any scalar, since YAML takes some expressions for numbers.
func (Expr) DescribeConfig() *schema.Type { return schema.AnyOf("expression", "", 0.0, false) }

// DescribeConfig is like that of Expr.
func (Cond) DescribeConfig() *schema.Type { return schema.AnyOf("condition", "", false) }

// DescribeConfig is like that of Expr.
func (Template) DescribeConfig() *schema.Type { return schema.AnyOf("template", "", 0.0, false) }

var (
	_ schema.Unmarshaler = (*Expr)(nil)
	_ schema.Unmarshaler = (*Cond)(nil)
	_ schema.Unmarshaler = (*Template)(nil)
	_ schema.Describer   = (*Expr)(nil)
	_ fmt.Stringer       = Expr{}
)
