package expr

import (
	"errors"
	"math"
	"strings"

	vmcompiler "github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/flowd-io/flowd/engine/doc"
)

// program is a compiled expression. It is immutable and shared.
type program struct {
	origin   *origin
	code     string
	kinds    kinds
	site     *site // of the whole expression
	konst    bool
	path     *doc.Path
	scalar   scalarFunc // may give the value without a frame; nil: there is none
	write    writeFunc  // like scalar, of the encoded value
	eval     func(*frame) any
	vm       *vm.Program // when eval is nil
	limits   *Limits
	warnings []*Error
}

// program finishes the compilation.
func (c *compiler) program(root node) *program {
	p := &program{
		origin: c.origin, code: c.code,
		kinds: root.kinds, konst: root.konst, path: root.path,
		eval:     root.eval,
		site:     &site{offset: root.offset, name: "the expression", secret: [2]bool{root.secret, root.secret}},
		warnings: c.warnings, limits: new(Limits),
	}
	if !root.konst {
		p.scalar = root.scalar
	}
	if root.write != nil || root.scalar != nil || root.konst {
		p.write = root.writer()
	}
	if p.eval != nil && !c.vmOnly {
		return p
	}
	p.eval, p.scalar, p.write = nil, nil, nil
	tree := &parser.Tree{Node: root.ast, Source: file.NewSource(c.code)}
	vmProgram, err := vmcompiler.Compile(tree, c.config)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fail(root.offset, "cannot compile the expression: %s", line)
	}
	p.vm = vmProgram
	return p
}

// run evaluates the program; the error is what users see.
func (p *program) run(src Source) (any, error) {
	f := newFrame(src, p.limits)
	v, err := p.runIn(f)
	f.release()
	return v, err
}

// runIn is run within what is left of a frame's budget. What a loop made is charged for
// as text, which is what becomes of most values: it may have the same part many times.
func (p *program) runIn(f *frame) (v any, err error) {
	defer func() {
		if failed := caught(recover()); failed != nil {
			v, err = nil, p.origin.errorOf(failed)
		}
	}()
	if p.vm == nil {
		return p.eval(f), nil
	}
	f.vm.MemoryBudget = math.MaxUint // frames have a better one
	if v, err = f.vm.Run(p.vm, f); err != nil {
		return nil, p.origin.errorOf(p.vmFailure(err))
	}
	f.encode(p.site.offset, v)
	return v, nil
}

// vmFailure is what expr's VM made of a failure, or its own limit.
func (p *program) vmFailure(err error) *failure {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed
	}
	e, ok := errors.AsType[*file.Error](err)
	if !ok {
		return &failure{offset: p.site.offset, msg: err.Error()}
	}
	f := &failure{offset: byteOffset(p.code, e.From), msg: "cannot evaluate this: " + e.Message}
	if strings.HasPrefix(e.Message, "reduce of empty") {
		f.msg, f.remedy = "reduce() of an empty list has no value", "give it a third argument to start with"
	}
	return f
}
