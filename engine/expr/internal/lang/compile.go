package lang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// compiler turns one expression into a program. It walks expr's syntax tree once and resolves every name itself: a bare name is
// a field of the document unless a let declared it, and a called name is a function. A mistake ends it with a failure.
type compiler struct {
	code     string
	origin   *codetext.Origin
	offsets  []int // where each character of code begins, in bytes
	scopes   []string
	config   *conf.Config   // of expr's parser
	least    map[int]bool   // the characters at which 9223372036854775808 follows a minus
	masked   map[int]string // the names of loops that mask has replaced, by the character where they begin
	frame    *Frame         // for calls with constants
	plain    bool           // without shorter ways, for tests
	vars     []variable     // in scope, the innermost last
	declared int            // variables so far
	nodes    int            // nodes of the syntax tree so far
	loops    []around       // loops around the present node, the innermost last
	elems    int            // loops so far
	trying   bool           // within try(): constants that fail do so on a message
	shared   bool           // the value may have the same part many times
	foreign  bool           // the code so far can make bytes or time zones
	slots    map[string]int // for the paths that loops read
	warnings []*Error       // about valid code that may not mean what it says
	noted    Calls          // calls of registered functions so far
	reads    []doc.Path     // the fields of the document that the code reads by constant paths
}

// variable is a name that a let has declared.
type variable struct {
	name  string
	slot  int
	value Node
}

// Compile compiles code; the error is an *Error. Scopes are those whose functions the code may call.
func Compile(code string, o *codetext.Origin, scopes []string) (*Program, error) {
	return compileCode(code, o, scopes, false)
}

// CompilePlain is Compile without shorter ways to values. Tests compare the two.
func CompilePlain(code string, o *codetext.Origin, scopes []string) (*Program, error) {
	return compileCode(code, o, scopes, true)
}

func compileCode(code string, o *codetext.Origin, scopes []string, plain bool) (p *Program, err error) {
	declared()
	c := &compiler{code: code, origin: o, scopes: scopes, plain: plain, config: newConfig(), slots: map[string]int{}}
	c.frame = new(Frame)
	c.frame.begin(nil, new(Limits))
	defer func() {
		if f := caught(recover()); f != nil {
			err = errorOf(o, f)
		}
	}()
	root := c.node(c.parse())
	return c.program(root), nil
}

// newConfig is expr's configuration. Registered functions replace the parser's special forms of the same name.
func newConfig() *conf.Config {
	config := conf.CreateNew()
	config.Optimize = false
	for name := range registered {
		if _, special := loops[name]; special {
			config.Functions[name] = &builtin.Function{Name: name}
		}
	}
	return config
}

// node compiles a syntax node and those below it.
func (c *compiler) node(n ast.Node) Node {
	c.nodes++
	if keys, root, ok := c.path(n); ok {
		return c.field(n, root, keys)
	}
	switch n := n.(type) {
	case *ast.NilNode:
		return c.constant(n, nil)
	case *ast.BoolNode:
		return c.constant(n, n.Value)
	case *ast.IntegerNode:
		if c.least[n.Location().From] {
			c.tooLarge(c.offset(n))
		}
		return c.constant(n, n.Value)
	case *ast.FloatNode:
		if from := c.offset(n); n.Value == 0 && !doc.SpellsZero(numeral(c.code[from:])) {
			failWith(from, "write 0 if that is what is meant", "a number is too small for 64 bits, and would be 0")
		}
		return c.constant(n, n.Value)
	case *ast.StringNode:
		return c.text(n, n.Value)
	case *ast.BytesNode:
		return c.text(n, string(n.Value))
	case *ast.IdentifierNode:
		return c.variable(n)
	case *ast.PointerNode:
		return c.pointer(n, c.offset(n))
	case *ast.ChainNode:
		return c.node(n.Node)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.SliceNode:
		return c.slice(n)
	case *ast.UnaryNode:
		return c.prefix(n)
	case *ast.BinaryNode:
		return c.operator(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.CallNode:
		return c.called(n)
	case *ast.BuiltinNode:
		if l, name, ok := c.loopOf(n); ok {
			return c.loop(n, name, l)
		}
		return c.function(n, n.Name, n.Arguments)
	case *ast.ArrayNode:
		return c.list(n)
	case *ast.MapNode:
		return c.object(n)
	case *ast.VariableDeclaratorNode:
		return c.let(n)
	case *ast.SequenceNode:
		return c.sequence(n)
	}
	fail(c.offset(n), "this can't be used here")
	return Node{}
}

func (c *compiler) text(at ast.Node, text string) Node {
	if !utf8.ValidString(text) {
		fail(c.offset(at), "the escapes in this text do not form valid UTF-8")
	}
	return c.constant(at, text)
}

// offset is where a node is in the code, in bytes.
func (c *compiler) offset(n ast.Node) int { return c.byteOffset(n.Location().From) }

// numeral is the number that code begins with.
func numeral(code string) string {
	return code[:len(code)-len(strings.TrimLeft(code, "0123456789._"))]
}

// byteOffset is where the n-th character of the code begins. Counting from the start each time would make compiling
// quadratic.
func (c *compiler) byteOffset(n int) int {
	if c.offsets == nil {
		for i := range c.code {
			c.offsets = append(c.offsets, i)
		}
		c.offsets = append(c.offsets, len(c.code))
	}
	return c.offsets[min(max(n, 0), len(c.offsets)-1)]
}

// secret says whether the token of a node has the value of a placeholder in it.
func (c *compiler) secret(n ast.Node) bool {
	return c.origin.Hidden(c.offset(n), c.byteOffset(n.Location().To))
}

// path is the constant keys that lead from the document to n. ok is false if n is anything but such a path.
func (c *compiler) path(n ast.Node) (keys []any, root ast.Node, ok bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if _, declared := c.lookup(n.Value); declared {
			return nil, nil, false
		}
		if n.Value == "this" {
			return nil, n, true
		}
		return []any{n.Value}, n, true
	case *ast.ChainNode:
		return c.path(n.Node)
	case *ast.MemberNode:
		keys, root, ok = c.path(n.Node)
		if !ok || n.Method {
			return nil, nil, false
		}
		switch p := n.Property.(type) {
		case *ast.StringNode:
			return append(keys, p.Value), root, true
		case *ast.IntegerNode:
			return append(keys, p.Value), root, p.Value >= 0
		}
	}
	return nil, nil, false
}

// field compiles a path of the document.
func (c *compiler) field(n, root ast.Node, keys []any) Node {
	name := root.(*ast.IdentifierNode).Value
	if bare, ok := strings.CutPrefix(name, "$"); ok {
		failWith(c.offset(root), fmt.Sprintf("write %s for a field, or this[%q] where the $ is part of its name",
			cmp.Or(bare, "name"), name),
			"there are no variables, so %s means nothing", name)
	}
	if len(c.loops) > 0 && name != "this" {
		c.warn(root, fmt.Sprintf("write .%s for the element's field, this.%s for the document's", name, name),
			"%s in a predicate is the document's field", name)
	}
	if remedy := hints.OtherLiterals[name]; remedy != "" {
		c.warn(root, remedy, "%s is read as a field of the document", name)
	}
	if meant := hints.Switches[strings.ToLower(name)]; meant != "" && n == root {
		c.warn(root, fmt.Sprintf("write %s, or this.%s for a field of this name", meant, name),
			"%s is read as a field of the document", name)
	}
	path := doc.MakePath(keys...)
	if len(keys) > 0 && !slices.ContainsFunc(c.reads, path.Equal) {
		c.reads = append(c.reads, path)
	}
	return c.read(n, c.offset(root), path)
}

func (c *compiler) warn(at ast.Node, remedy, format string, args ...any) {
	f := &failure{offset: c.offset(at), msg: fmt.Sprintf(format, args...), remedy: remedy}
	e, ok := errorOf(c.origin, f).(*Error)
	again := func(w *Error) bool { return w.Offset == e.Offset }
	if ok && !slices.ContainsFunc(c.warnings, again) { // in a < x < b, x is compiled twice
		c.warnings = append(c.warnings, e)
	}
}

func (c *compiler) lookup(name string) (variable, bool) {
	for _, v := range slices.Backward(c.vars) {
		if v.name == name {
			return v, true
		}
	}
	return variable{}, false
}

// variable compiles a name that a let has declared. All other names are paths.
func (c *compiler) variable(n *ast.IdentifierNode) Node {
	v, _ := c.lookup(n.Value)
	if v.value.Const {
		return c.folded(n, v.value.Value, v.value)
	}
	return Node{
		at: n, Kinds: v.value.Kinds, secret: v.value.secret, Offset: c.offset(n),
		eval: func(f *Frame) any { return f.vars[v.slot] },
	}
}

func (c *compiler) let(n *ast.VariableDeclaratorNode) Node {
	value := c.node(n.Value)
	slot := c.slot()
	c.vars = append(c.vars, variable{name: n.Name, slot: slot, value: value})
	body := c.node(n.Expr)
	c.vars = c.vars[:len(c.vars)-1]
	if body.Const || value.Const {
		return body
	}
	of := body.eval
	c.shared = true
	return Node{
		at: n, Kinds: body.Kinds, Offset: body.Offset, secret: body.secret, unfit: body.unfit,
		eval: func(f *Frame) any {
			f.vars[slot] = value.eval(f)
			return of(f)
		},
	}
}

// slot is a new place in frames for the value of a variable.
func (c *compiler) slot() int {
	c.declared++
	return c.declared - 1
}

func (c *compiler) sequence(n *ast.SequenceNode) Node {
	all := make([]Node, len(n.Nodes))
	for i, s := range n.Nodes {
		all[i] = c.node(s)
	}
	last := all[len(all)-1]
	return Node{
		at: n, Kinds: last.Kinds, Offset: last.Offset, secret: last.secret,
		eval: func(f *Frame) (v any) {
			for _, s := range all {
				v = s.eval(f)
			}
			return v
		},
	}
}

// member compiles x[key] whose key is not constant, or whose x is not a path.
func (c *compiler) member(n *ast.MemberNode) Node {
	if n.Method {
		c.method(n)
	}
	of, key := c.node(n.Node), c.node(n.Property)
	s := &Site{Offset: c.offset(n), Name: "[]", Secret: [2]bool{key.secret}}
	if key.Kinds&(value.Text|value.Int|value.Float|value.Nil) == 0 {
		s.Fail("a key is text and an index a whole number, not %s", key.Kinds)
	}
	if name, ok := key.Value.(string); ok && of.Kinds == value.Time && calendar.Part(time.Time{}, name) == nil {
		s.FailWith("flowd docs time_parts lists its parts", "%s is not a part of a time", s.Show(name))
	}
	if of.Kinds&value.Text != 0 && key.Kinds&(value.Int|value.Float) != 0 {
		of = c.charged(n, of, (*Frame).chargeCharacters)
	}
	return c.binary(n, value.Any, of, key, func(v, key any) any {
		switch k := key.(type) {
		case nil, string, int:
			return value.Member(v, key)
		case float64:
			if i := int(k); float64(i) == k {
				return value.Member(v, i)
			}
		}
		s.Fail("a key is text and an index a whole number, not %s", s.Show(key))
		return nil
	})
}

// method refuses x.f(), as there are no methods.
func (c *compiler) method(n *ast.MemberNode) {
	name := "this"
	if p, ok := n.Property.(*ast.StringNode); ok {
		name = p.Value
	}
	remedy := hints.ForFunction(name, Names(c.scopes))
	if slices.Contains(Names(c.scopes), name) {
		remedy = fmt.Sprintf("write %s(%s)", name, n.Node)
	}
	failWith(c.offset(n), remedy, "%s cannot be called on a value: there are functions, but no methods", name)
}

func (c *compiler) slice(n *ast.SliceNode) Node {
	var none ast.Node = &ast.NilNode{}
	none.SetLocation(n.Location())
	args := []Node{c.node(n.Node), c.node(cmp.Or(n.From, none)), c.node(cmp.Or(n.To, none))}
	s := &Site{Offset: c.offset(n), Name: "[:]"}
	if args[0].Kinds&(value.Text|value.List|value.Bytes) == 0 {
		s.Fail("cannot take a part of %s", args[0].Kinds)
	}
	return c.call(n, args[0].Kinds&(value.Text|value.List|value.Bytes), args, true, func(f *Frame, args []any) any {
		if text, ok := args[0].(string); ok {
			f.chargeCharacters(s.Offset, len(text))
		}
		v := Slice(s, args[0], args[1], args[2])
		f.ChargeMade(s.Offset, v)
		return v
	})
}

func (c *compiler) list(n *ast.ArrayNode) Node {
	elems := make([]Node, len(n.Nodes))
	for i, e := range n.Nodes {
		elems[i] = c.node(e)
	}
	offset := c.offset(n)
	list := c.literal(n, value.List, elems, func(f *Frame, args []any) any {
		v := append(make([]any, 0, len(args)), args...)
		f.ChargeMade(offset, v)
		return v
	})
	if !list.Const {
		list.Write, list.unfit = listWrite(offset, elems), unfitIn(elems)
	}
	return list
}

func (c *compiler) object(n *ast.MapNode) Node {
	var args []Node
	seen := map[any]bool{}
	s := &Site{Offset: c.offset(n), Name: "{}"}
	for _, p := range n.Pairs {
		pair := p.(*ast.PairNode)
		key := c.node(pair.Key)
		if key.Kinds&value.Text == 0 {
			fail(key.Offset, "a key is text, not %s", key.Kinds)
		}
		if key.Const {
			if seen[key.Value] {
				fail(key.Offset, "the key %q is given twice", key.Value)
			}
			seen[key.Value] = true
		}
		args = append(args, key, c.node(pair.Value))
	}
	object := c.literal(n, value.Object, args, func(f *Frame, args []any) any {
		m := make(map[string]any, len(args)/2)
		for i := 0; i < len(args); i += 2 {
			key, ok := args[i].(string)
			if !ok {
				s.Fail("a key is text, not %s", s.Show(args[i]))
			}
			m[key] = args[i+1]
		}
		f.ChargeMade(s.Offset, m)
		return m
	})
	if !object.Const {
		object.Write, object.unfit = objectWrite(s.Offset, args), unfitIn(args)
	}
	return object
}
