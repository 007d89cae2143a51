package bloblang

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// translator translates expressions.
type translator struct {
	o               Options
	src             *source
	notes           []Note
	maps            map[string]*namedMap
	applying        []string // maps being written inline, to detect recursion
	depth           int      // number of enclosing predicates
	scoped          int      // number of enclosing lets, whose names must not hide fields
	locals          []string // their names
	steps           int      // translated nodes, which maps can multiply
	depthOfBranches int

	vars  map[string]*variableUse
	reads reads
	call  *call // the call being translated

	edits      bool     // in a mutation, which reads metadata as changed so far
	before     bool     // the original `this` is in vars("before")
	beforeRaw  bool     // vars("before_raw") is needed for the payload
	beforeMeta bool     // metadata is in vars("before_meta")
	document   *meaning // the document of json(), if it is not the message's own
}

// reads are what an expression has read.
type reads struct {
	paths, roots [][]string
	meta         []string // names; "" for all
	newMeta      []string
	vars         []string
}

// variableUse says how to read a variable.
type variableUse struct {
	inline *inlined
	local  string // its name in a let of the expression
}

// inlined is a value that is written in place of its variable.
type inlined struct {
	value node
	env   *env
}

const (
	maxNodes = 5_000
	maxText  = 64 << 10 // flowd's limit for an expression, in bytes
)

// env says what names refer to.
type env struct {
	this  *meaning
	names []binding
	outer *env // the env outside a lambda
}

type binding struct {
	name string
	is   *meaning
}

// meaning is what `this` or a name refers to.
type meaning struct {
	what  meant
	text  string // of an expression
	kind  kind
	frame *frame // the predicate of # and its fields
	parts map[string]string
}

type meant int

const (
	theDocument meant = iota // before the mapping
	theRoot                  // the document being built
	anElement                // # of a predicate, or a part of it by name
	anExpression
	theError // of a catch, as text
)

// frame is a predicate, with the names that inner predicates use for it.
type frame struct {
	depth    int
	hint     string
	captured []capture
}

type capture struct{ what, name string }

func (e *env) with(this *meaning) *env { return &env{this: this, names: e.names, outer: e} }

func (e *env) naming(name string, is *meaning) *env {
	if name == "_" {
		return e
	}
	return &env{this: e.this, names: append(slices.Clip(e.names), binding{name, is}), outer: e.outer}
}

func (e *env) lookup(name string) *meaning {
	for _, n := range slices.Backward(e.names) {
		if n.name == name {
			return n.is
		}
	}
	return nil
}

func (t *translator) note(at int, k Kind, format string, args ...any) {
	line, column := t.src.position(at)
	n := Note{Line: line, Column: column, Kind: k, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, n)
	}
}

// untranslated returns a call that lint rejects, in place of code without a counterpart.
func (t *translator) untranslated(n node, format string, args ...any) expression {
	t.note(n.pos(), Untranslated, format, args...)
	return whole("untranslated("+quote(t.snippet(n))+")", unknown)
}

func (t *translator) differs(n node, format string, args ...any) {
	t.note(n.pos(), Differs, format, args...)
}

// snippet returns the source of a node with its receiver, up to the end of the line if the node's end is unknown.
func (t *translator) snippet(n node) string {
	from, to := n.pos(), len(t.src.text)
	if c, ok := n.(*call); ok {
		to = c.end
	} else if i := strings.IndexByte(t.src.text[from:], '\n'); i >= 0 {
		to = from + i
	}
	for {
		switch m := n.(type) {
		case *call:
			if m.of == nil {
				return shortened(t.src.text[m.pos():to])
			}
			n = m.of
		case *field:
			if m.of.pos() >= m.pos() {
				return shortened(t.src.text[m.pos():to])
			}
			n = m.of
		case *within:
			n = m.of
		default:
			return shortened(t.src.text[min(n.pos(), from):to])
		}
	}
}

// expr translates a node whose value is needed.
func (t *translator) expr(n node, e *env) expression {
	if n == nil {
		return t.untranslated(t.call, "%s() lacks an argument.", t.call.name)
	}
	if t.steps >= maxNodes {
		return t.tooLong(n)
	}
	t.steps++
	x := t.value(n, e)
	if t.steps > maxNodes || len(x.text) > maxText {
		return t.tooLong(n)
	}
	return x
}

// tooLong replaces a whole expression, since its operators would copy it again and again.
func (t *translator) tooLong(n node) expression {
	if t.steps <= maxNodes { // only once
		t.steps = maxNodes + 1
		t.note(n.pos(), Untranslated, "This mapping, or its maps, make too long an expression; write it as steps.")
	}
	return whole("untranslated("+quote(t.snippet(n))+")", unknown)
}

func (t *translator) value(n node, e *env) expression {
	switch n := n.(type) {
	case *literal:
		return t.literal(n)
	case *placeholder:
		return expression{text: n.text, bind: bindWhole, safe: true}
	case *list:
		return t.list(n, e)
	case *object:
		return t.object(n, e)
	case *this:
		return t.mean(e.this, n)
	case *root:
		return t.mean(&meaning{what: theRoot}, n)
	case *named:
		if m := e.lookup(n.name); m != nil {
			return t.mean(m, n)
		}
		return t.untranslated(n, "%q is not the name of a value here.", n.name)
	case *variable:
		return t.variable(n)
	case *metaRef:
		if t.document != nil {
			return t.untranslated(n, "The metadata of another message can't be read.")
		}
		return t.newMeta(n.name, n.all)
	case *field:
		return t.field(n, e)
	case *call:
		if n.of == nil {
			return t.function(n, e)
		}
		return t.method(n, e)
	case *within:
		return t.within(n.of, n.body, e)
	case *lambda:
		return t.untranslated(n, "A lambda can stand only where a method calls it.")
	case *unary:
		return t.unary(n, e)
	case *binary:
		return t.binary(n, e)
	case *ifElse, *match:
		if m, ok := n.(*match); ok && len(m.cases) > maxCases {
			return t.untranslated(n, "A match with so many cases can't be one expression; a table of resources.tables may do.")
		}
		if i, ok := n.(*ifElse); ok && len(i.whens) > maxCases {
			return t.untranslated(n, "An if with so many branches can't be one expression.")
		}
		tree := t.tree(n, e)
		if tree.special() {
			return t.untranslated(n, "This has no value in every case: nothing() and deleted() can't stand here.")
		}
		return tree.expression()
	}
	return t.untranslated(n, "This can't be translated.")
}

func (t *translator) literal(n *literal) expression {
	switch v := n.value.(type) {
	case nil:
		return nilExpression()
	case bool:
		return expression{text: strconv.FormatBool(v), bind: bindWhole, kind: boolean, safe: true, lit: v, isLit: true,
			not: strconv.FormatBool(!v), notAs: bindWhole}
	case int64:
		return literalInt(v)
	case float64:
		e := expression{text: strconv.FormatFloat(v, 'g', -1, 64), bind: bindWhole, kind: number, safe: true, lit: v,
			isLit: true}
		if !strings.ContainsAny(e.text, ".e") {
			e.text += ".0"
		}
		if v < 0 {
			e.bind = bindUnary
		}
		return e
	case string:
		return literalText(v)
	}
	return t.untranslated(n, "This literal can't be translated.")
}

func (t *translator) list(n *list, e *env) expression {
	var parts, items []string // parts are lists
	safe := true
	flush := func() {
		if items != nil {
			parts = append(parts, "["+strings.Join(items, ", ")+"]")
			items = nil
		}
	}
	for _, item := range n.items {
		tree := t.tree(item, e)
		if tree.gone() {
			continue
		}
		if !tree.special() {
			x := tree.expression()
			safe = safe && x.safe
			items = append(items, x.arg())
			continue
		}
		flush()
		safe = false
		there, value := tree.present()
		parts = append(parts, there.in(bindOr)+" ? ["+value.arg()+"] : []")
	}
	flush()
	switch {
	case len(parts) == 0:
		return expression{text: "[]", bind: bindWhole, kind: listKind, safe: true}
	case len(parts) == 1 && parts[0][0] == '[':
		return expression{text: parts[0], bind: bindWhole, kind: listKind, safe: safe}
	case len(parts) == 1:
		return expression{text: parts[0], bind: bindTernary, kind: listKind}
	}
	return whole("concat("+strings.Join(parts, ", ")+")", listKind)
}

func (t *translator) object(n *object, e *env) expression {
	var fields, maybe []string
	safe := true
	for i, key := range n.keys {
		name := ""
		if l, ok := key.(*literal); ok {
			name = objectKey(l.value.(string))
		} else {
			name = "(" + t.expr(key, e).text + ")"
			safe = false
		}
		tree := t.tree(n.values[i], e)
		if tree.gone() {
			continue
		}
		if !tree.special() {
			x := tree.expression()
			safe = safe && x.safe
			fields = append(fields, name+": "+x.arg())
			continue
		}
		there, value := tree.present()
		safe = false
		maybe = append(maybe, there.in(bindOr)+" ? {"+name+": "+value.arg()+"} : {}")
	}
	all := "{" + strings.Join(fields, ", ") + "}"
	for _, m := range maybe {
		all = "merge(" + all + ", " + m + ")"
	}
	return expression{text: all, bind: bindWhole, kind: objectKind, safe: safe}
}

func objectKey(name string) string {
	if plainName().MatchString(name) && !slices.Contains(reserved, name) {
		return name
	}
	return doubleQuoted(name)
}

func (t *translator) unary(n *unary, e *env) expression {
	x := t.expr(n.of, e)
	if n.op == "!" {
		return x.negated()
	}
	return expression{text: "-" + x.in(bindUnary+1), bind: bindUnary, kind: number}
}

func (t *translator) binary(n *binary, e *env) expression {
	if n.op == "|" {
		return t.otherwise(n.left, n.right, e)
	}
	left := t.expr(n.left, e)
	if n.op == "==" || n.op == "!=" {
		if x, ok := t.typeTest(n, left, e); ok {
			return x
		}
	}
	right := t.expr(n.right, e)
	switch n.op {
	case "&&":
		return and(left, right)
	case "||":
		return or(left, right)
	case "+":
		k := left.kind
		if k == unknown {
			k = right.kind
		}
		return infix(left, "+", bindAdd, right, k)
	case "-":
		return infix(left, "-", bindAdd, right, number)
	case "*", "/", "%":
		return infix(left, n.op, bindMultiply, right, number)
	}
	return compare(left, n.op, right)
}

// otherwise translates a.or(b) and a | b: a, unless it fails or is null.
func (t *translator) otherwise(a, b node, e *env) expression {
	right := t.expr(b, e)
	return coalesce(t.attempt(a, e), right)
}

// attempt returns a value, or nil if it fails.
func (t *translator) attempt(a node, e *env) expression {
	x := t.parsed(a, e)
	if x.safe {
		return x
	}
	y := function("try", x.kind, x, nilExpression())
	y.safe = true
	return y
}

// parsed returns a value that may fail because the payload is not a document, which try() does not catch.
func (t *translator) parsed(n node, e *env) expression {
	_, isThis := n.(*this)
	if c, ok := n.(*call); isThis && e.this.what == theDocument || ok && c.of == nil && c.name == "json" &&
		len(c.args) == 0 {
		if t.o.This == "" && !t.before && t.document == nil {
			t.reads.paths = append(t.reads.paths, nil)
			return whole("from_json(raw())", unknown)
		}
	}
	return t.expr(n, e)
}

// walk visits the nodes of an expression, parents first. It goes deeper where visit returns true.
func walk(n node, visit func(node) bool) {
	if n == nil || !visit(n) {
		return
	}
	for _, c := range children(n) {
		walk(c, visit)
	}
}

func children(n node) []node {
	switch n := n.(type) {
	case *list:
		return n.items
	case *object:
		return append(slices.Clone(n.keys), n.values...)
	case *field:
		return []node{n.of}
	case *call:
		var all []node
		if n.of != nil {
			all = append(all, n.of)
		}
		for _, a := range n.args {
			all = append(all, a.value)
		}
		return all
	case *within:
		return []node{n.of, n.body}
	case *lambda:
		return []node{n.body}
	case *unary:
		return []node{n.of}
	case *binary:
		return []node{n.left, n.right}
	case *ifElse:
		return append(slices.Clone(n.whens), n.values...)
	case *match:
		var all []node
		if n.subject != nil {
			all = append(all, n.subject)
		}
		for _, c := range n.cases {
			if c.when != nil {
				all = append(all, c.when)
			}
			all = append(all, c.value)
		}
		return all
	}
	return nil
}
