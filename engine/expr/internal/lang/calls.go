package lang

import (
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/schema"
)

// Call is a call of a registered function in code. Whoever loads a configuration can look up names that are arguments.
type Call struct {
	Name   string
	Bound  bool     // the function has a Bind
	Scopes []string // of the field with the code
	Args   []Arg
	Place  schema.Place // of the expression or template; zero when a program compiled it
	Offset int          // in its text, in bytes: where the call begins
}

// Arg is an argument of a Call.
type Arg struct {
	Const  bool
	Value  any  // of a constant
	Secret bool // Value has that of a placeholder in it, and must not be shown
	Offset int  // in the text, in bytes
}

// Text is the i-th argument, if it is a constant text.
func (c Call) Text(i int) (text string, ok bool) {
	if i < len(c.Args) {
		text, ok = c.Args[i].Value.(string)
	}
	return text, ok
}

// Problem is p at an offset in the text of the expression, with a caret.
func (c Call) Problem(offset int, p schema.Problem) schema.Problem {
	n := c.Place.Node
	p = c.Place.Problem(p)
	if n == nil {
		return p
	}
	p.Pos = n.At(offset)
	if p.Caret = p.Pos; n.Excerpt != nil {
		p.Excerpt = n.Excerpt(p.Pos)
	}
	return p
}

// Calls are calls of registered functions. A call within an argument comes before the call around it. The calls of all
// expressions and templates that a decoder has decoded are its shared value of this type: see [schema.Shared].
type Calls []Call

// Have says whether there is a call of a function.
func (cs Calls) Have(name string) bool {
	return slices.ContainsFunc(cs, func(c Call) bool { return c.Name == name })
}

// record notes a call of a registered function.
func (c *compiler) record(n ast.Node, f *Function, args []Node) {
	offset := c.origin.At(c.offset(n))
	for _, known := range c.noted {
		if known.Name == f.Name && known.Offset == offset {
			return // x in a < x < b is compiled twice
		}
	}
	call := Call{Name: f.Name, Bound: f.Bind != nil, Scopes: c.scopes, Place: c.origin.Place, Offset: offset, Args: make([]Arg, len(args))}
	for i, a := range args {
		call.Args[i] = Arg{Const: a.Const, Value: a.Value, Secret: a.secret, Offset: c.origin.At(a.Offset)}
	}
	c.noted = append(c.noted, call)
}
