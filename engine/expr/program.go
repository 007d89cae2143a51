package expr

import (
	"errors"
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
	test     func(*doc.Doc) verdict // may decide without a frame; nil: there is none
	scalar   scalarFunc             // like test, of any value
	write    writeFunc              // like test, of the encoded value
	eval     func(*frame) any
	vm       *vm.Program // when eval is nil
	warnings []*Error
}

// program finishes the compilation.
func (c *compiler) program(root node) *program {
	p := &program{
		origin: c.origin, code: c.code,
		kinds: root.kinds, konst: root.konst, path: root.path,
		test: root.test, eval: root.eval,
		site:     &site{offset: root.offset, name: "the expression", secret: [2]bool{root.secret, root.secret}},
		warnings: c.warnings,
	}
	if root.scalar != nil && root.test == nil && !root.konst {
		p.test = truthTest(root.scalar)
	}
	if !root.konst && root.path == nil {
		p.scalar = root.scalar
	}
	if root.write != nil || root.scalar != nil || root.konst {
		p.write = root.writer()
	}
	if p.eval != nil && !c.vmOnly {
		return p
	}
	p.eval, p.test, p.scalar, p.write = nil, nil, nil, nil
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
func (p *program) run(src Source) (v any, err error) {
	f := newFrame(src)
	if p.vm != nil {
		v, err = f.vm.Run(p.vm, f)
		f.release()
		if err != nil {
			return nil, p.origin.errorOf(p.vmFailure(err))
		}
		return v, nil
	}
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*failure)
			if !ok {
				panic(r)
			}
			v, err = nil, p.origin.errorOf(failed)
		}
		f.release()
	}()
	return p.eval(f), nil
}

// vmFailure is what expr's VM made of a failure, or a limit of its own.
func (p *program) vmFailure(err error) *failure {
	var failed *failure
	if errors.As(err, &failed) {
		return failed
	}
	var e *file.Error
	if !errors.As(err, &e) {
		return &failure{offset: p.site.offset, msg: err.Error()}
	}
	f := &failure{offset: byteOffset(p.code, e.From), msg: "cannot evaluate this: " + e.Message}
	switch {
	case strings.HasPrefix(e.Message, "reduce of empty"):
		f.msg, f.remedy = "reduce() of an empty list has no value", "give it a third argument to begin with"
	case strings.Contains(e.Message, "memory budget"):
		f.msg = "the expression makes lists of more than 1000000 elements on this message"
	}
	return f
}
