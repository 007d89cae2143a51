package bloblang

func length(a *asked) expression {
	x := a.of()
	switch x.kind {
	case listKind, objectKind, bytesKind:
	default:
		a.differs(a.n, "Of a text, len() counts characters rather than bytes; len(bytes(text)) counts those.")
	}
	return function("len", number, x)
}

func containsMethod(a *asked) expression {
	x, v := a.of(), a.arg(0)
	if x.kind == text {
		return compare(x, "contains", v)
	}
	return compare(v, "in", x)
}

// converted returns a conversion that may have a default for values that can't be converted.
func converted(name string, k kind) func(*asked) expression {
	return func(a *asked) expression {
		x := function(name, k, a.of())
		if a.has(0) {
			return function("try", k, x, a.arg(0))
		}
		return x
	}
}

func float32Method(a *asked) expression {
	a.differs(a.n, "The number is not rounded to 32 bits.")
	return converted("float", number)(a)
}

// ranges are the bounds of integers by method. int() checks 64 bits itself.
var ranges = map[string][2]string{
	"int32": {"-2147483648", "2147483647"}, "int16": {"-32768", "32767"}, "int8": {"-128", "127"},
	"uint64": {"0", ""}, "uint32": {"0", "4294967295"}, "uint16": {"0", "65535"}, "uint8": {"0", "255"},
}

func integer(a *asked) expression {
	x := a.of()
	if c, ok := a.n.of.(*call); ok && (c.name == "round" || c.name == "ceil" || c.name == "floor") {
		if a.n.name == "int64" {
			return x
		}
	} else if x.kind != text {
		a.differs(a.n, "int() cuts a fraction off, which %s() refuses.", a.n.name)
	}
	y := function("int", number, x)
	if a.has(0) {
		return function("try", number, a.ranged(y), a.arg(0))
	}
	if a.n.name != "int64" {
		a.differs(a.n, "int() does not refuse numbers that are out of the range of %s().", a.n.name)
	}
	return y
}

// ranged fails for an integer outside the range of the method.
func (a *asked) ranged(x expression) expression {
	r, ok := ranges[a.n.name]
	if !ok {
		return x
	}
	test := "n >= " + r[0]
	if r[1] != "" {
		test += " and n <= " + r[1]
	}
	return expression{text: "let n = " + x.text + "; " + test + ` ? n : throw("out of range")`, bind: bindLet,
		kind: number}
}

func array(a *asked) expression {
	x := a.of()
	if x.kind == listKind {
		return x
	}
	return a.named(x, func(x string) expression {
		return expression{text: "type(" + x + ") == \"array\" ? " + x + " : [" + x + "]", bind: bindTernary, kind: listKind}
	})
}

func notNull(a *asked) expression {
	return coalesce(a.of(), whole(`throw("the value is null")`, unknown))
}

func stringMethod(a *asked) expression {
	if c, ok := a.n.of.(*call); ok {
		switch c.name {
		case "decode", "content", "format_json", "encode", "quote", "hash":
			x := a.of()
			if x.kind == text || x.kind == unknown {
				x.kind = text
				return x
			}
		}
	}
	x := a.of()
	if x.kind == text {
		return x
	}
	return function("string", text, x)
}

// typeNames maps Bloblang's names of types to flowd's.
var typeNames = map[string]string{
	"string": "string", "bytes": "bytes", "bool": "bool", "array": "array", "object": "map", "null": "nil",
	"timestamp": "time",
}

func typeMethod(a *asked) expression {
	if c, ok := a.n.of.(*call); ok && c.of == nil && c.name == "content" {
		return literalText("bytes")
	}
	if name := knownTypes[a.of().kind]; name != "" {
		return literalText(name)
	}
	return a.named(a.of(), func(x string) expression {
		return coalesce(whole(`{int: "number", float: "number", map: "object", nil: "null"}[type(`+x+`)]`, text),
			whole("type("+x+")", text))
	})
}

// knownTypes maps kinds to Bloblang's names of types.
var knownTypes = map[kind]string{
	boolean: "bool", number: "number", text: "string", bytesKind: "bytes", listKind: "array", objectKind: "object",
	timeKind: "timestamp",
}

// typeTest translates x.type() == "object" and the like.
func (t *translator) typeTest(n *binary, _ expression, e *env) (expression, bool) {
	c, ok := n.left.(*call)
	l, isLit := n.right.(*literal)
	if !ok || !isLit || c.name != "type" || c.of == nil {
		return expression{}, false
	}
	name, ok := l.value.(string)
	if !ok {
		return expression{}, false
	}
	x := t.expr(c.of, e)
	var y expression
	switch {
	case name == "null":
		y = compare(x, "==", nilExpression())
	case name == "number":
		y = compare(function("type", text, x), "in", whole(`["int", "float"]`, listKind))
	case typeNames[name] != "":
		y = compare(function("type", text, x), "==", literalText(typeNames[name]))
	default:
		return expression{}, false
	}
	if n.op == "!=" {
		y = y.negated()
	}
	return y, true
}
