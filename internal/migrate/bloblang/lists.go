package bloblang

import (
	"slices"
	"strconv"
	"strings"
)

// predicate translates the body that a loop evaluates for each element, and passes it to render.
func (t *translator) predicate(body node, e *env, is func(*frame) *meaning,
	render func(*outcome) expression) expression {
	hint := "item"
	if l, ok := body.(*lambda); ok {
		hint = l.param
	}
	t.depth++
	f := &frame{depth: t.depth, hint: hint}
	inner := e
	x := render(t.tree(t.enter(body, is(f), &inner), inner))
	t.depth--
	if len(f.captured) > 0 {
		s := "{"
		for _, c := range f.captured {
			t.free(c.name)
			s += "let " + c.name + " = " + c.what + "; "
		}
		b := x.text
		if strings.HasPrefix(b, "{") {
			b = "(" + b + ")"
		}
		return expression{text: s + b + "}", bind: bindWhole, kind: x.kind}
	}
	if strings.HasPrefix(x.text, "{") || x.bind == bindLet {
		x.text, x.bind = "("+x.text+")", bindWhole
	}
	return x
}

func element(f *frame) *meaning { return &meaning{what: anElement, text: "#", frame: f} }

func parts(names map[string]string) func(*frame) *meaning {
	return func(f *frame) *meaning { return &meaning{what: anElement, frame: f, parts: names} }
}

var entry = parts(map[string]string{"key": "#key", "value": "#"})

// values returns the value of an outcome that always has one.
func (a *asked) values(o *outcome) expression {
	if o.special() {
		return a.unknown("%s() needs a value in every case: nothing() and deleted() can't be translated here.", a.n.name)
	}
	return o.expression()
}

// loop returns a call of a flowd function on a list, with the first argument as its predicate.
func (a *asked) loop(name string, k kind) expression {
	x := a.of()
	return function(name, k, x, a.predicate(a.node(0), a.e, element, a.values))
}

// objects reports whether a method loops over the fields of an object instead of a list.
func (a *asked) objects(x expression) bool {
	switch x.kind {
	case objectKind:
		return true
	case listKind:
		return false
	}
	l, ok := a.node(0).(*lambda)
	body, name := a.node(0), ""
	if ok {
		body, name = l.body, l.param
	}
	var keys, others int
	walk(body, func(n node) bool {
		f, ok := n.(*field)
		if !ok {
			switch n := n.(type) {
			case *named:
				if n.name == name {
					others++
				}
			case *this:
				if name == "" {
					others++
				}
			}
			return true
		}
		switch of := f.of.(type) {
		case *named:
			if of.name == name {
				if f.name == "key" || f.name == "value" {
					keys++
				} else {
					others++
				}
				return false
			}
		case *this:
			if name == "" {
				if f.name == "key" || f.name == "value" {
					keys++
				} else {
					others++
				}
				return false
			}
		}
		return true
	})
	if keys == 0 || others > 0 {
		return false
	}
	if x.text != "this" {
		a.differs(a.n,
			"What %s() goes through is taken for an object, since its keys and values are read; for a list write %s.",
			a.n.name, map[bool]string{true: "filter(list, .value …)", false: "map(list, .value …)"}[a.n.name == "filter"])
	}
	return true
}

func filter(a *asked) expression {
	x := a.of()
	if a.objects(x) {
		return function("filter_values", objectKind, x, a.predicate(a.node(0), a.e, entry, a.values))
	}
	return function("filter", listKind, x, a.predicate(a.node(0), a.e, element, a.values))
}

func mapEach(a *asked) expression {
	x := a.of()
	if a.objects(x) {
		return a.each(x, entry, "filter_values", "map_values", objectKind, "#")
	}
	return a.each(x, element, "filter", "map", listKind, "#")
}

func mapEachKey(a *asked) expression {
	key := func(f *frame) *meaning { return &meaning{what: anElement, text: "#key", kind: text, frame: f} }
	return a.each(a.of(), key, "filter_values", "map_keys", objectKind, "#key")
}

// each replaces elements, and removes those that become deleted().
func (a *asked) each(x expression, is func(*frame) *meaning, filterName, mapName string, k kind,
	same string) expression {
	body := a.node(0)
	if body == nil {
		return a.unknown("%s() lacks an argument.", a.n.name)
	}
	var deletes, identity bool
	a.predicate(body, a.e, is, func(o *outcome) expression {
		deletes = o.has(aDeletion)
		identity = o.all(func(o *outcome) bool { return o.gone() || o.what == aValue && o.value.text == same })
		return nilExpression()
	})
	if deletes {
		x = function(filterName, k, x, a.predicate(body, a.e, is, func(o *outcome) expression {
			return o.condition(func(o *outcome) bool { return o.what != aDeletion })
		}))
		if identity {
			return x
		}
	}
	return function(mapName, k, x, a.predicate(body, a.e, is, func(o *outcome) expression {
		keep(o, whole(same, unknown))
		return o.only(func(o *outcome) bool { return o.what != aDeletion })
	}))
}

// keep replaces nothing() by the unchanged value.
func keep(o *outcome, same expression) {
	switch o.what {
	case aNothing:
		o.what, o.value = aValue, same
	case aChoice:
		keep(o.yes, same)
		keep(o.no, same)
	}
}

func fold(a *asked) expression {
	x := a.of()
	tally := parts(map[string]string{"tally": "#acc", "value": "#"})
	return function("reduce", unknown, x, a.predicate(a.node(1), a.e, tally, a.values), a.arg(0))
}

func unique(a *asked) expression {
	if a.has(0) {
		return a.loop("uniq_by", listKind)
	}
	return function("uniq", listKind, a.of())
}

// sortMethod sorts by a comparison if that compares the same value of both sides.
func sortMethod(a *asked) expression {
	if !a.has(0) {
		return function("sort", listKind, a.of())
	}
	x := a.of()
	l, ok := a.node(0).(*lambda)
	if ok {
		if b, isBinary := l.body.(*binary); isBinary && (b.op == "<" || b.op == ">") {
			side := func(n node, name string) expression {
				return a.predicate(&lambda{l.place, l.param, n}, a.e, parts(map[string]string{name: "#"}), a.values)
			}
			left, right := side(b.left, "left"), side(b.right, "right")
			descending := b.op == ">"
			if other := side(b.left, "right"); left.text == "nil" || strings.HasPrefix(left.text, "nil[") {
				left, right, descending = other, side(b.right, "left"), !descending
			}
			if left.text == right.text && left.text != "nil" {
				args := []expression{x}
				if left.text != "#" {
					args = append(args, left)
				}
				if descending {
					args = append(args, literalText("desc"))
				}
				if left.text == "#" {
					return function("sort", listKind, args...)
				}
				return function("sort_by", listKind, args...)
			}
		}
	}
	return a.unknown("A comparison of your own can't be translated; write sort_by(list, .field).")
}

// inside translates an argument that is used in a predicate, but is not about the element.
func (a *asked) inside(n node) expression {
	if n == nil {
		return nilExpression()
	}
	a.depth++
	defer func() { a.depth-- }()
	return a.expr(n, a.e)
}

func find(a *asked) expression {
	return coalesce(function("find_index", number, a.of(), compare(whole("#", unknown), "==", a.inside(a.node(0)))),
		literalInt(-1))
}

func findBy(a *asked) expression {
	return coalesce(a.loop("find_index", number), literalInt(-1))
}

func findAll(a *asked) expression {
	f := function("filter", listKind, function("enumerate", listKind, a.of()), compare(whole(".value", unknown), "==",
		a.inside(a.node(0))))
	return function("map", listKind, f, whole(".index", unknown))
}

func findAllBy(a *asked) expression {
	is := func(f *frame) *meaning { return &meaning{what: anElement, text: "#.value", frame: f} }
	f := function("filter", listKind, function("enumerate", listKind, a.of()), a.predicate(a.node(0), a.e, is, a.values))
	return function("map", listKind, f, whole(".index", unknown))
}

func flatten(a *asked) expression {
	return function("reduce", listKind, a.of(), whole(`concat(#acc, type(#) == "array" ? # : [#])`, listKind),
		whole("[]", listKind))
}

func appendMethod(a *asked) expression {
	texts := make([]string, len(a.n.args))
	for i, x := range a.rest() {
		texts[i] = x.arg()
	}
	return function("concat", listKind, a.of(), whole("["+strings.Join(texts, ", ")+"]", listKind))
}

func merge(a *asked) expression {
	x, y := a.of(), a.arg(0)
	if x.kind == listKind || y.kind == listKind {
		return function("concat", listKind, x, y)
	}
	a.differs(a.n,
		"Where both have a value that is no object, the second's counts; merge() of Bloblang makes a list of both.")
	return function("merge", objectKind, x, y, literalText("append"))
}

func collapse(a *asked) expression {
	x := function("flatten_keys", objectKind, a.of())
	if a.truth(0, false) {
		return x
	}
	return function("filter_values", objectKind, x, whole(`type(#) not in ["array", "map"]`, boolean))
}

// names splits a path written with dots.
func names(path string) []string {
	all := strings.Split(path, ".")
	for i := range all {
		all[i] = strings.ReplaceAll(strings.ReplaceAll(all[i], "~1", "."), "~0", "~")
	}
	return all
}

func exists(a *asked) expression {
	p, ok := a.text(0)
	if !ok {
		a.differs(a.n, "A field that is null does not count as there.")
		return compare(function("get", unknown, a.of(), a.arg(0)), "!=", nilExpression())
	}
	all := names(p)
	last := all[len(all)-1]
	x := a.reach(all[:len(all)-1])
	if _, err := strconv.Atoi(last); err == nil {
		return compare(fields(x, []string{last}), "!=", nilExpression())
	}
	y := compare(literalText(last), "in", x)
	y.safe = true
	return y
}

// reach reads fields of the receiver.
func (a *asked) reach(names []string) expression {
	if len(names) == 0 {
		return a.of()
	}
	if m := a.meaningOf(a.n.of, a.e); m != nil {
		return a.fieldOf(m, names, a.n.of)
	}
	n := a.n.of
	for _, name := range names {
		n = &field{place(a.n.pos()), n, name}
	}
	return a.expr(n, a.e)
}

func get(a *asked) expression {
	if p, ok := a.text(0); ok {
		return a.reach(names(p))
	}
	return function("get", unknown, a.of(), a.arg(0))
}

func index(a *asked) expression {
	if c, ok := a.n.of.(*call); ok && c.name == "bytes" && c.of != nil {
		return a.unknown("flowd does not read single bytes.")
	}
	x := a.of()
	return expression{text: x.in(bindWhole) + "[" + a.arg(0).text + "]", bind: bindWhole, safe: x.safe}
}

func jsonPath(a *asked) expression {
	p, ok := a.text(0)
	if ok && !strings.ContainsAny(p, "*?:,") && !strings.Contains(p, "..") {
		a.differs(a.n, "This path finds one value, which json_path() gives as a list of one; take its first element.")
	}
	if strings.Contains(p, "..") {
		a.differs(a.n, "What .. finds may come in another order.")
	}
	return function("json_path", listKind, a.of(), a.arg(0))
}

func keyValues(a *asked) expression {
	return function("map", listKind, function("to_pairs", listKind, a.of()), whole("({key: #[0], value: #[1]})",
		objectKind))
}

func squash(a *asked) expression {
	a.differs(a.n, "Where several objects have a value that is neither an object nor a list, the last one counts.")
	return function("reduce", objectKind, a.of(), whole(`merge(#acc, #, "append")`, objectKind), whole("{}", objectKind))
}

func explode(a *asked) expression {
	p, ok := a.text(0)
	if !ok || strings.Contains(p, ".") {
		return a.unknown("explode() can be translated only with the name of a field.")
	}
	x := a.reach([]string{p})
	doc := a.inside(a.n.of)
	each := function("merge", objectKind, function("without", objectKind, doc, literalText(p)),
		whole("{"+objectKey(p)+": #}", objectKind))
	return expression{text: "type(" + x.text + ") == \"map\" ? map_values(" + x.text + ", " + each.text + ") : map(" +
		x.text + ", " + each.text + ")",
		bind: bindTernary}
}

// setMethod returns x.set("a.b", value), which only Bento has.
func setMethod(a *asked) expression {
	p, ok := a.text(0)
	all := names(p)
	if !ok || slices.ContainsFunc(all, func(n string) bool { return !plainName().MatchString(n) }) {
		return a.unknown("set() can be translated only with a path of names that is written here.")
	}
	x := a.of()
	if isDeleted(a.node(1)) {
		return function("without", objectKind, x, literalText(p))
	}
	v := a.arg(1)
	one := newFields()
	one.set(all, v, nil)
	if v.kind != text && v.kind != number && v.kind != boolean { // merge() would merge an object into the existing one
		x = function("without", objectKind, x, literalText(p))
	}
	return function("merge", objectKind, x, one.expression())
}

// paths returns arguments that are paths with dots.
func (a *asked) paths() []expression {
	var all []expression
	for _, arg := range a.n.args {
		v, ok := a.literalOf(arg.value)
		s, isText := v.(string)
		if !ok || !isText {
			all = append(all, a.expr(arg.value, a.e))
			continue
		}
		if slices.ContainsFunc(names(s), func(n string) bool { return !plainName().MatchString(n) }) {
			s = path(names(s))
		}
		all = append(all, literalText(s))
	}
	return all
}

func from(a *asked) expression {
	if !a.o.Batch {
		return a.unknown("from() reads another message of a batch: put the step into a batcher, where messages() has them.")
	}
	return a.elsewhere(&meaning{what: anExpression, text: "messages()[" + a.arg(0).text + "]"}, a.n.of)
}

// elsewhere translates a node about another message.
func (a *asked) elsewhere(m *meaning, n node) expression {
	saved := a.document
	a.document = m
	defer func() { a.document = saved }()
	return a.expr(n, a.e.with(m))
}

func fromAll(a *asked) expression {
	if !a.o.Batch {
		return a.unknown("from_all() reads a batch: put the step into a batcher, where messages() has its documents.")
	}
	a.depth++
	f := &frame{depth: a.depth, hint: "message"}
	x := a.elsewhere(element(f), a.n.of)
	a.depth--
	if x.text == "#" {
		return whole("messages()", listKind)
	}
	return function("map", listKind, whole("messages()", listKind), x)
}

func catch(a *asked) expression {
	n, inner := a.node(0), a.e
	if n == nil {
		return a.unknown("catch() lacks what it gives instead.")
	}
	n = a.enter(n, &meaning{what: theError}, &inner)
	if c, ok := a.n.of.(*call); ok && c.of != nil && ranges[c.name] != [2]string{} && len(c.args) == 0 {
		limited := &asked{a.translator, c, a.e, methods[c.name].params}
		return function("try", number, limited.ranged(function("int", number, limited.of())), a.expr(n, inner))
	}
	x := a.parsed(a.n.of, a.e)
	y := a.expr(n, inner)
	if c, ok := a.n.of.(*call); ok && c.name == "index" {
		return coalesce(x, y)
	}
	if x.safe {
		return x
	}
	k := x.kind
	if y.kind != k {
		k = unknown
	}
	z := function("try", k, x, y)
	z.safe = y.safe
	return z
}
