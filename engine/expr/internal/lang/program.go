package lang

import (
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Program is a compiled expression. It is immutable and shared.
type Program struct {
	origin   *codetext.Origin
	kinds    value.Kinds
	site     *Site // of the whole expression
	Const    bool  // the value does not depend on the message
	path     *doc.Path
	reads    []doc.Path // the fields of the document that it reads by constant paths, as far as they are written out
	field    string     // one of them that it reads by its name, or ""
	scalar   ScalarFunc // may give the value without a frame; nil: there is none
	write    WriteFunc  // like scalar, of the encoded value
	eval     func(*Frame) any
	slots    int      // for variables
	elements int      // for loops
	shared   bool     // the value may have the same part many times
	foreign  bool     // the value may have bytes or time zones in it
	unfit    *failure // of a value that no document can contain, whatever the message; else nil
	Limits   *Limits  // of an evaluation; set before the first
	warnings []*Error
	calls    Calls
}

// program finishes the compilation.
func (c *compiler) program(root Node) *Program {
	p := &Program{
		origin: c.origin, field: named(c.reads), reads: c.reads, kinds: root.Kinds, Const: root.Const, path: root.Path, eval: root.eval,
		slots: c.declared, elements: c.elems, shared: c.shared, foreign: c.foreign, unfit: root.misplaced(),
		site: &Site{Offset: root.Offset, Name: "the expression", Secret: [2]bool{root.secret, root.secret},
			foreign: c.foreign},
		warnings: c.warnings, calls: c.noted, Limits: new(Limits),
	}
	if c.plain {
		p.path = nil
		return p
	}
	if !root.Const {
		p.scalar = root.Scalar
	}
	if root.bounded {
		p.write = root.Write
	} else if !c.shared && (root.Write != nil || root.Scalar != nil || root.Const) {
		p.write = root.writer()
	}
	return p
}

// named returns the first field that paths reach by its name, or "".
func named(paths []doc.Path) string {
	for _, p := range paths {
		if name, ok := p.Keys()[0].(string); ok {
			return name
		}
	}
	return ""
}

// run runs the program with a budget of its own. The error is what users see.
func (p *Program) run(src Source) (any, error) {
	f := NewFrame(src, p.Limits)
	v, err := p.runIn(f)
	f.release()
	return v, err
}

// runIn runs the program with what is left of a frame's budget. A value that may have the same part many times is charged for
// as text, for that is what becomes of most values.
func (p *Program) runIn(f *Frame) (v any, err error) {
	defer func() {
		if failed := caught(recover()); failed != nil {
			v, err = nil, errorOf(p.origin, failed)
		}
	}()
	f.declare(p)
	v = p.eval(f)
	if p.shared {
		f.ChargeText(p.site.Offset, v)
	}
	return v, nil
}
