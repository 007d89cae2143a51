package lang

import (
	"maps"
	"sync"

	"github.com/expr-lang/expr/builtin"
)

// Builtins are functions that come with flowd. Many are expr's own behind a check of their arguments. Others replace those of
// expr that lose digits, panic, or depend on the order of a Go map.
type Builtins []struct {
	Usage, Doc, Example string // see Func; the usage line names a role or a kind for each parameter

	// Run is the code. It gets arguments of the kinds in the usage line, and must not keep the slice. Nil: package lang
	// compiles calls of the function itself.
	Run func(f *Frame, s *Site, args []any) any
}

// Declare declares functions, which docs list under a group. Pure functions give equal results for equal arguments.
func (bs Builtins) Declare(group string, pure bool) {
	for _, b := range bs {
		name := nameOf(b.Usage)
		functions[name] = &Function{
			Func: Func{Name: name, Group: group, Doc: b.Doc, Usage: b.Usage, Example: b.Example},
			Pure: pure,
			run:  b.Run,
		}
	}
}

// families are the functions that declare the functions that come with flowd.
var families []func()

// Declare adds families of functions. They are declared before the first compilation, so that commands that compile nothing
// do not wait for it.
func Declare(declare ...func()) { families = append(families, declare...) }

// declared declares all functions.
var declared = sync.OnceFunc(func() {
	for _, declare := range families {
		declare()
	}
	maps.Copy(functions, plugins)
	for _, f := range functions {
		if f.sigs == nil && f.Call == nil {
			f.sigs = []signature{parseUsage(f.Usage)}
		}
	}
})

// Lookup is a declared function. Its family sets the fields that most functions leave alone.
func Lookup(name string) *Function { return functions[name] }

// Upstream is expr's own implementation of a function.
func Upstream(name string) func(f *Frame, s *Site, args []any) any {
	f := builtin.Builtins[builtin.Index[name]]
	return func(_ *Frame, s *Site, args []any) any {
		if f.Fast != nil {
			return Normal(s, f.Fast(args[0]))
		}
		v, err := f.Func(args...)
		if err != nil {
			s.Fail("%s(): %s", name, err)
		}
		return Normal(s, v)
	}
}
