package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// called compiles f(...), where f is none of expr's own.
func (c *compiler) called(n *ast.CallNode) node {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		return c.function(n, callee.Value, n.Arguments)
	case *ast.MemberNode:
		c.method(callee)
	}
	fail(c.offset(n), "this cannot be called")
	return node{}
}

// function compiles a call by name.
func (c *compiler) function(n ast.Node, name string, args []ast.Node) node {
	s := &site{offset: c.offset(n), name: name}
	if lazy := lazies[name]; lazy != nil && !registered[name] {
		return lazy(c, n, s, args)
	}
	f := c.find(s, name)
	nodes, known := make([]node, len(args)), make([]value.Kinds, len(args))
	for i, a := range args {
		nodes[i] = c.node(a)
		known[i] = nodes[i].kinds
		s.secret[0] = s.secret[0] || nodes[i].secret
	}
	f.accept(s.offset, known, func(i int) string { return s.known(0, nodes[i]) })
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
	v := c.call(n, f.out(), nodes, f.pure, func(fr *frame, args []any) any { return f.invoke(fr, s, args) })
	if f.compiled != nil && !v.konst {
		f.compiled(s, &v, nodes)
	}
	return v
}

// find is the function of a name, if it can be called here.
func (c *compiler) find(s *site, name string) *function {
	f, ok := functions[name]
	if !ok {
		f, ok = functions[camel[name]]
	}
	if !ok {
		s.failFor(hints.ForFunction(name, names(c.scopes)), "there is no function %s()", name)
	}
	if f.Scope != "" && !slices.Contains(c.scopes, f.Scope) {
		where := "where there is a " + f.Scope
		if strings.IndexByte("aeiou", f.Scope[0]) >= 0 {
			where = "where there is an " + f.Scope
		}
		if f.Scope == "generate" {
			where = "in the body of a generate"
		}
		s.fail("%s() cannot be called here, only %s", name, where)
	}
	return f
}

// invoke calls f and charges for what it goes through and makes.
func (f *function) invoke(fr *frame, s *site, args []any) any {
	f.check(s, args)
	fr.step(s.offset, 1)
	for _, a := range args {
		if text, ok := a.(string); ok {
			fr.step(s.offset, len(text)>>4) // some go by characters, and make others of them
			continue
		}
		if !f.shallow {
			fr.weigh(s.offset, a)
		}
	}
	if f.run == nil {
		v, err := f.Call(fr.src, args...)
		if err != nil {
			panic(&failure{err: err, offset: s.offset, msg: fmt.Sprintf("%s(): %s", f.Name, err)})
		}
		if b, ok := v.([]byte); ok && f.out() == value.Bytes {
			fr.made(s.offset, b)
			return b
		}
		if !f.Values {
			v = normal(s, v)
		}
		fr.walk(s.offset, v, elementSize, 0)
		return v
	}
	v := f.run(fr, s, args)
	if !f.shallow {
		fr.made(s.offset, v)
	}
	return v
}

// lazies are the functions that do not simply evaluate their arguments first.
var lazies = map[string]func(c *compiler, n ast.Node, s *site, args []ast.Node) node{}

func init() {
	lazies["get"], lazies["try"] = (*compiler).get, (*compiler).try
}

// given checks how many arguments there are.
func (s *site) given(args []ast.Node, want int) {
	if len(args) != want {
		s.failFor(functions[s.name].Usage, "%s() takes %s, not %d", s.name, plural(want), len(args))
	}
}

// try compiles try(x, otherwise). An exhausted budget, a timeout and a broken document are not failures of x: nothing
// can be evaluated then.
func (c *compiler) try(n ast.Node, s *site, args []ast.Node) node {
	s.given(args, 2)
	was := c.trying
	c.trying = true
	x := c.node(args[0])
	c.trying = was
	otherwise := c.node(args[1])
	if x.konst {
		return x
	}
	return node{
		at: n, kinds: x.kinds | otherwise.kinds, offset: s.offset, secret: x.secret || otherwise.secret,
		eval: func(f *frame) any {
			if v, ok := f.attempt(x); ok {
				return v
			}
			return otherwise.eval(f)
		},
	}
}

// attempt is what x gives, unless it fails.
func (f *frame) attempt(x node) (v any, ok bool) {
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
func (c *compiler) get(n ast.Node, s *site, args []ast.Node) node {
	s.given(args, 2)
	of, key := c.node(args[0]), c.node(args[1])
	s.secret[0] = key.secret
	if !key.konst {
		key = c.charged(n, key, func(f *frame, offset, size int) {
			f.step(offset, size)
			f.alloc(offset, size*elementSize)
		})
	}
	if key.kinds&(value.Text|value.Int) == 0 {
		s.fail("get() needs a path as text, not %s", s.known(0, key))
	}
	if of.path == nil || len(c.loops) > 0 && !key.konst { // a loop would search the document each time
		return c.binary(n, value.Any, of, key, func(v, key any) any {
			for _, k := range pathOf(s, key).Keys() {
				v = value.Member(v, k)
			}
			return v
		})
	}
	if key.konst {
		return c.read(n, s.offset, of.path.Append(pathOf(s, key.value).Keys()...))
	}
	return c.unary(n, value.Any, key, func(f *frame, v any) any {
		return f.get(s.offset, of.path.Append(pathOf(s, v).Keys()...))
	})
}

// pathOf is a path from a value that a message may have brought.
func pathOf(s *site, v any) doc.Path {
	switch v := v.(type) {
	case int:
		return doc.MakePath(v)
	case string:
		p, err := doc.ParsePath(v)
		if err != nil {
			s.fail("%s(): %s is not a path such as a.b[0]", s.name, s.left(v))
		}
		return p
	}
	s.fail("%s() needs a path as text, not %s", s.name, s.left(v))
	return doc.Path{}
}
