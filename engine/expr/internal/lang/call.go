package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// called compiles f(...), where f is not a function of the expr library.
func (c *compiler) called(n *ast.CallNode) Node {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		return c.function(n, callee.Value, n.Arguments)
	case *ast.MemberNode:
		c.method(callee)
	}
	fail(c.offset(n), "this cannot be called")
	return Node{}
}

// function compiles a call by name.
func (c *compiler) function(n ast.Node, name string, args []ast.Node) Node {
	s := &Site{Offset: c.offset(n), Name: name}
	if lazy := lazies[name]; lazy != nil && !registered[name] {
		return lazy(c, n, s, args)
	}
	f := c.find(s, name)
	nodes, known := make([]Node, len(args)), make([]value.Kinds, len(args))
	for i, a := range args {
		nodes[i] = c.node(a)
		known[i] = nodes[i].Kinds
		s.Secret[0] = s.Secret[0] || nodes[i].secret
	}
	f.accept(s.Offset, known, func(i int) string { return s.ShowNode(0, nodes[i]) })
	f.prepare(s, nodes)
	if registered[name] {
		c.record(n, f, nodes)
	}
	if f.Bind != nil {
		bound := *f
		bound.Call = f.Bind(c.origin.Decoder)
		f = &bound
	}
	c.foreign = c.foreign || f.foreign()
	s.foreign = c.foreign
	v := c.call(n, f.out(), nodes, f.Pure, func(fr *Frame, args []any) any { return f.invoke(fr, s, args) })
	if f.Shortcuts != nil && !v.Const {
		f.Shortcuts(s, &v, nodes)
	}
	return v
}

// find is the function of a name, if it can be called here.
func (c *compiler) find(s *Site, name string) *Function {
	f, ok := functions[name]
	if !ok {
		f, ok = functions[camel[name]]
	}
	if !ok {
		s.FailWith(hints.ForFunction(name, Names(c.scopes)), "there is no function %s()", name)
	}
	if f.Scope != "" && !slices.Contains(c.scopes, f.Scope) {
		where := "where there is a " + f.Scope
		if strings.IndexByte("aeiou", f.Scope[0]) >= 0 {
			where = "where there is an " + f.Scope
		}
		if f.Scope == "generate" {
			where = "in the body of a generate"
		}
		s.Fail("%s() cannot be called here, only %s", name, where)
	}
	return f
}

// invoke calls f, and charges for the values that it reads and makes.
func (f *Function) invoke(fr *Frame, s *Site, args []any) any {
	f.check(s, args)
	fr.Step(s.Offset, 1)
	for _, a := range args {
		if text, ok := a.(string); ok {
			fr.Step(s.Offset, len(text)>>4) // as much as for a function that reads characters and writes others
			continue
		}
		if !f.Shallow {
			fr.chargeWalk(s.Offset, a)
		}
	}
	if f.run == nil {
		v, err := f.Call(fr.src, args...)
		if err != nil {
			panic(&failure{err: err, offset: s.Offset, msg: fmt.Sprintf("%s(): %s", f.Name, err)})
		}
		if b, ok := v.([]byte); ok && f.out() == value.Bytes {
			fr.ChargeMade(s.Offset, b)
			return b
		}
		if !f.Values {
			v = Normal(s, v)
		}
		fr.walk(s.Offset, v, ElementSize, 0)
		return v
	}
	v := f.run(fr, s, args)
	if !f.Shallow {
		fr.ChargeMade(s.Offset, v)
	}
	return v
}

// Try is what fn gives, or the failure that ended it. Tests of functions call it, as they have no program.
func Try(fn func() any) (v any, err error) {
	defer func() {
		if failed := caught(recover()); failed != nil {
			v, err = nil, failed
		}
	}()
	return fn(), nil
}

// CallFunction calls a function by its name on values. Tests of functions call it, as they have no program.
func CallFunction(name string, args ...any) (any, error) {
	declared()
	f := NewFrame(nil, &Limits{Memory: 1 << 40, Steps: 1 << 40})
	return Try(func() any { return functions[name].invoke(f, &Site{Name: name}, args) })
}

// lazies are the functions that do not evaluate all of their arguments first.
var lazies = map[string]func(c *compiler, n ast.Node, s *Site, args []ast.Node) Node{}

func init() {
	lazies["get"], lazies["try"] = (*compiler).get, (*compiler).try
}

// given checks how many arguments there are.
func (s *Site) given(args []ast.Node, want int) {
	if len(args) != want {
		s.FailWith(functions[s.Name].Usage, "%s() takes %s, not %d", s.Name, plural(want), len(args))
	}
}

// try compiles try(x, otherwise). An exhausted budget, a timeout and a broken document are not failures of x: nothing
// can be evaluated then.
func (c *compiler) try(n ast.Node, s *Site, args []ast.Node) Node {
	s.given(args, 2)
	was := c.trying
	c.trying = true
	x := c.node(args[0])
	c.trying = was
	otherwise := c.node(args[1])
	if x.Const {
		return x
	}
	return Node{
		at: n, Kinds: x.Kinds | otherwise.Kinds, Offset: s.Offset, secret: x.secret || otherwise.secret,
		eval: func(f *Frame) any {
			if v, ok := f.attempt(x); ok {
				return v
			}
			return otherwise.eval(f)
		},
	}
}

// attempt is the value of x. ok is false if x fails.
func (f *Frame) attempt(x Node) (v any, ok bool) {
	args := len(f.args)
	defer func() {
		failed := caught(recover())
		if failed == nil {
			return
		}
		if failed.final {
			panic(failed)
		}
		clear(f.args[args:])
		f.args, v, ok = f.args[:args], nil, false
	}()
	return x.eval(f), true
}

// get compiles get(of, path). Of a field, or of this, only that path is read.
func (c *compiler) get(n ast.Node, s *Site, args []ast.Node) Node {
	s.given(args, 2)
	of, key := c.node(args[0]), c.node(args[1])
	s.Secret[0] = key.secret
	if !key.Const {
		key = c.charged(n, key, func(f *Frame, offset, size int) {
			f.Step(offset, size)
			f.Alloc(offset, size*ElementSize)
		})
	}
	if key.Kinds&(value.Text|value.Int) == 0 {
		s.Fail("get() needs a path as text, not %s", s.ShowNode(0, key))
	}
	if of.Path == nil || len(c.loops) > 0 && !key.Const { // a loop would search the document each time
		return c.binary(n, value.Any, of, key, func(v, key any) any {
			for _, k := range PathOf(s, key).Keys() {
				v = value.Member(v, k)
			}
			return v
		})
	}
	if key.Const {
		return c.read(n, s.Offset, of.Path.Append(PathOf(s, key.Value).Keys()...))
	}
	return c.unary(n, value.Any, key, func(f *Frame, v any) any {
		return f.readPath(s.Offset, of.Path.Append(PathOf(s, v).Keys()...))
	})
}

// PathOf is a path from a value that a message may have brought.
func PathOf(s *Site, v any) doc.Path {
	switch v := v.(type) {
	case int:
		return doc.MakePath(v)
	case string:
		p, err := doc.ParsePath(v)
		if err != nil {
			s.Fail("%s(): %s is not a path such as a.b[0]", s.Name, s.Show(v))
		}
		return p
	}
	s.Fail("%s() needs a path as text, not %s", s.Name, s.Show(v))
	return doc.Path{}
}
