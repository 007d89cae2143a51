package expr

import (
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// program is a compiled expression. It is immutable and shared.
type program struct {
	origin   *codetext.Origin
	kinds    value.Kinds
	site     *site // of the whole expression
	konst    bool
	path     *doc.Path
	field    string     // one of the document's that it reads; "": it reads none by a name
	scalar   scalarFunc // may give the value without a frame; nil: there is none
	write    writeFunc  // like scalar, of the encoded value
	eval     func(*frame) any
	slots    int      // of variables
	elements int      // of loops
	shared   bool     // the value may have the same part many times
	foreign  bool     // the value may have what a document can't contain in it
	unfit    *failure // of a value that no document can contain, whatever the message
	limits   *Limits
	warnings []*Error
	calls    Calls
}

// program finishes the compilation.
func (c *compiler) program(root node) *program {
	p := &program{
		origin: c.origin, field: c.named, kinds: root.kinds, konst: root.konst, path: root.path, eval: root.eval,
		slots: c.declared, elements: c.elems, shared: c.shared, foreign: c.foreign, unfit: root.misplaced(),
		site: &site{offset: root.offset, name: "the expression", secret: [2]bool{root.secret, root.secret},
			foreign: c.foreign},
		warnings: c.warnings, calls: c.noted, limits: new(Limits),
	}
	if c.plain {
		p.path = nil
		return p
	}
	if !root.konst {
		p.scalar = root.scalar
	}
	if root.bounded {
		p.write = root.write
	} else if !c.shared && (root.write != nil || root.scalar != nil || root.konst) {
		p.write = root.writer()
	}
	return p
}

// run is run within a budget of its own; the error is what users see.
func (p *program) run(src Source) (any, error) {
	f := newFrame(src, p.limits)
	v, err := p.runIn(f)
	f.release()
	return v, err
}

// runIn runs the program within what is left of a frame's budget. What a loop or a variable may have put into a value
// many times is charged for as text, which is what becomes of most values.
func (p *program) runIn(f *frame) (v any, err error) {
	defer func() {
		if failed := caught(recover()); failed != nil {
			v, err = nil, errorOf(p.origin, failed)
		}
	}()
	f.declare(p)
	v = p.eval(f)
	if p.shared {
		f.encode(p.site.offset, v)
	}
	return v, nil
}
