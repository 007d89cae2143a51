package bloblang

import (
	"fmt"
	"strings"
)

// functions are Bloblang's functions, which have no receiver.
var functions map[string]method

func fillFunctions() {
	unix := func(unit string) method {
		return method{nil, func(a *asked) expression {
			if unit == "" {
				return whole("unix(now())", number)
			}
			return whole(`unix(now(), "`+unit+`")`, number)
		}}
	}
	constant := func(s string, k kind) method {
		return method{nil, func(*asked) expression { return whole(s, k) }}
	}
	functions = map[string]method{
		"content":   {nil, content},
		"json":      {params("path"), jsonFunction},
		"meta":      {params("key"), metaFunction},
		"metadata":  {params("key"), metaFunction},
		"root_meta": {params("key"), rootMeta},
		"error":     constant("error().message", unknown),
		"errored": {nil, func(*asked) expression {
			return compare(whole("error()", unknown), "!=", nilExpression())
		}},
		"error_source_label":   constant("error().step", unknown),
		"error_source_name":    {nil, errorName},
		"count":                {params("name"), func(a *asked) expression { return function("counter", number, a.arg(0)) }},
		"counter":              {params("min max set"), counter},
		"uuid_v4":              constant("uuid()", text),
		"uuid_v7":              {params("time"), uuid7},
		"ulid":                 {params("encoding random_type"), ulid},
		"ksuid":                constant("ksuid()", text),
		"nanoid":               {params("length alphabet"), nanoid},
		"snowflake_id":         {params("node_id"), snowflake},
		"now":                  constant("now()", timeKind),
		"timestamp_unix":       unix(""),
		"timestamp_unix_milli": unix("ms"),
		"timestamp_unix_micro": unix("us"),
		"timestamp_unix_nano":  unix("ns"),
		"hostname":             constant("hostname()", text),
		"pi":                   constant("pi()", number),
		"env":                  {params("name no_cache"), envFunction},
		"file":                 {params("path no_cache"), file},
		"file_rel":             {params("path no_cache"), file},
		"throw":                {params("why"), func(a *asked) expression { return function("throw", unknown, a.arg(0)) }},
		"random_int":           {params("seed min max"), randomInt},
		"range":                {params("start stop step"), rangeFunction},
		"batch_index":          {nil, func(a *asked) expression { return a.inBatch("batch_index()", "0") }},
		"batch_size":           {nil, func(a *asked) expression { return a.inBatch("batch_size()", "1") }},
		"fake":                 {params("function"), fake},
		"deleted": {nil, func(a *asked) expression {
			return a.untranslated(a.n, "deleted() can't stand here.")
		}},
		"nothing": {nil, func(a *asked) expression {
			return a.untranslated(a.n, "nothing() can't stand here.")
		}},
	}
}

func (t *translator) function(n *call, e *env) expression {
	defer func(outer *call) { t.call = outer }(t.call)
	t.call = n
	f, ok := functions[n.name]
	if !ok {
		return t.untranslated(n, "flowd has no counterpart of the function %s().", n.name)
	}
	return f.do(&asked{t, n, e, f.params})
}

func content(a *asked) expression {
	if a.document != nil {
		return a.untranslated(a.n, "The payload of another message can't be read; read its document.")
	}
	if a.o.This != "" {
		return function("string", text, a.mean(&meaning{what: theDocument}, a.n))
	}
	a.reads.paths = append(a.reads.paths, nil)
	if a.before {
		a.beforeRaw = true
		return expression{text: a.kept("_raw"), bind: bindWhole, kind: text, safe: true}
	}
	return expression{text: "raw()", bind: bindWhole, kind: text, safe: true}
}

func jsonFunction(a *asked) expression {
	doc := &meaning{what: theDocument}
	if a.document != nil {
		doc = a.document
	}
	if !a.has(0) {
		return a.mean(doc, a.n)
	}
	p, ok := a.text(0)
	if !ok {
		return function("get", unknown, a.mean(doc, a.n), a.arg(0))
	}
	if p == "." || p == "" {
		return a.mean(doc, a.n)
	}
	return a.fieldOf(doc, names(p), a.n)
}

func metaFunction(a *asked) expression {
	if a.document != nil {
		return a.untranslated(a.n, "The metadata of another message can't be read.")
	}
	if !a.has(0) {
		return a.meta(a.n, "", true)
	}
	name, ok := a.text(0)
	if !ok {
		a.reads.meta = append(a.reads.meta, "")
		return expression{text: "meta(" + a.arg(0).text + ")", bind: bindWhole}
	}
	return a.meta(a.n, name, false)
}

func rootMeta(a *asked) expression {
	name, ok := a.text(0)
	if !ok {
		a.reads.newMeta = append(a.reads.newMeta, "")
		return whole("meta("+strings.TrimPrefix(strings.Join(texts(a.rest()), ", "), "")+")", unknown)
	}
	a.reads.newMeta = append(a.reads.newMeta, name)
	return expression{text: "meta(" + quote(name) + ")", bind: bindWhole, safe: true}
}

func texts(all []expression) []string {
	s := make([]string, len(all))
	for i, x := range all {
		s[i] = x.arg()
	}
	return s
}

func errorName(a *asked) expression {
	a.differs(a.n, "error().step is the name of the step, not its type.")
	return whole("error().step", unknown)
}

func counter(a *asked) expression {
	if a.has(2) {
		return a.untranslated(a.n, "counter() of flowd is never set; a step `state` can do more.")
	}
	line, _ := a.src.position(a.n.pos())
	x := whole(fmt.Sprintf(`counter("line %d")`, line), number)
	if !a.has(0) && !a.has(1) {
		return x
	}
	low := literalInt(1)
	if a.has(0) {
		low = a.arg(0)
	}
	x = infix(x, "-", bindAdd, literalInt(1), number)
	if a.has(1) {
		size := infix(infix(a.arg(1), "-", bindAdd, low, number), "+", bindAdd, literalInt(1), number)
		from, okFrom := low.lit.(int64)
		if to, okTo := a.arg(1).lit.(int64); okFrom && okTo {
			size = literalInt(to - from + 1)
		}
		x = infix(x, "%", bindMultiply, size, number)
	}
	return infix(low, "+", bindAdd, x, number)
}

func uuid7(a *asked) expression {
	if a.has(0) {
		return a.untranslated(a.n, "uuid_v7() of flowd takes no time.")
	}
	return whole("uuid_v7()", text)
}

func ulid(a *asked) expression {
	if len(a.n.args) > 0 {
		return a.untranslated(a.n, "ulid() of flowd has one spelling.")
	}
	return whole("ulid()", text)
}

func nanoid(a *asked) expression {
	if a.has(1) {
		return a.untranslated(a.n, "flowd makes no IDs of an alphabet that is given; ksuid() has letters and digits.")
	}
	a.differs(a.n, "ksuid() makes IDs of 27 letters and digits, which begin with the time.")
	return whole("ksuid()", text)
}

func snowflake(a *asked) expression {
	if a.has(0) {
		return function("snowflake", number, a.arg(0))
	}
	return whole("snowflake(1)", number)
}

func envFunction(a *asked) expression {
	name, ok := a.text(0)
	if !ok {
		return a.untranslated(a.n, "env() can be translated only with a name that is written here, which engine.env lists.")
	}
	return expression{text: "env(" + quote(name) + ")", bind: bindWhole, safe: true}
}

func file(a *asked) expression {
	name, ok := a.text(0)
	if !ok {
		return a.untranslated(a.n, "A file whose name is computed can't be read; a table of resources.tables may do.")
	}
	if a.n.name == "file_rel" {
		a.differs(a.n, "The path is relative to where flowd runs.")
	}
	if strings.ContainsAny(name, "}\"\\") {
		return a.untranslated(a.n, "flowd can't read a file of this name.")
	}
	return expression{text: `"` + string(Dollar) + "{file:" + name + `}"`, bind: bindWhole, kind: text}
}

func randomInt(a *asked) expression {
	low, high := literalInt(0), literalInt(9223372036854775806)
	if a.has(1) {
		low = a.arg(1)
	}
	if a.has(2) {
		high = a.arg(2)
	}
	if v, ok := a.literalOf(a.node(0)); ok && v != nil {
		a.differs(a.n, "The seed is left out, so that the numbers differ from run to run.")
	}
	return function("random_int", number, low, high)
}

func rangeFunction(a *asked) expression {
	start, stop := a.arg(0), a.arg(1)
	var step int64 = 1
	if a.has(2) {
		v, ok := a.literalOf(a.node(2))
		i, isInt := v.(int64)
		if !ok || !isInt || i == 0 {
			return a.untranslated(a.n,
				"range() can be translated only with a step that is written here; write map(0..n, # * step).")
		}
		step = i
	}
	from, okFrom := start.lit.(int64)
	to, okTo := stop.lit.(int64)
	last := expression{text: stop.in(bindAdd) + " - 1", bind: bindAdd, kind: number}
	if okTo {
		last = literalInt(to - 1)
	}
	if step == 1 {
		return expression{text: start.in(bindAdd) + ".." + last.in(bindAdd), bind: bindCompare, kind: listKind}
	}
	// Bloblang rounds the number of elements down, so the last one may be missing.
	var count expression
	if okFrom && okTo {
		count = literalInt(max((to-from)/step, 0) - 1)
	} else {
		distance := stop
		if !okFrom || from != 0 {
			distance = infix(stop, "-", bindAdd, start, number)
		}
		n := function("int", number, infix(distance, "/", bindMultiply, literalInt(step), number))
		count = infix(n, "-", bindAdd, literalInt(1), number)
	}
	each := infix(whole("#", number), "*", bindMultiply, literalInt(step), number)
	if !okFrom || from != 0 {
		each = infix(start, "+", bindAdd, each, number)
		if !okFrom {
			each = infix(a.inside(a.node(0)), "+", bindAdd, infix(whole("#", number), "*", bindMultiply, literalInt(step),
				number), number)
		}
	}
	return function("map", listKind, expression{text: "0.." + count.in(bindAdd), bind: bindCompare}, each)
}

func (a *asked) inBatch(in, alone string) expression {
	if a.o.Batch {
		return whole(in, number)
	}
	a.differs(a.n, "Here messages are alone, so that this is always %s; in the processors of a batcher write %s.",
		alone, in)
	return whole(alone, number)
}

// fakes maps Bloblang's kinds of made-up values to flowd's, where they differ.
var fakes = map[string]string{
	"uuid_hyphenated": "uuid", "username": "username", "phone_number": "phone", "latitude": "latitude",
	"domain_name": "domain",
}

func fake(a *asked) expression {
	name, ok := a.text(0)
	if !ok {
		return a.untranslated(a.n, "fake() needs a kind of value that is written here.")
	}
	if name == "uuid_hyphenated" {
		return whole("uuid()", text)
	}
	if other := fakes[name]; other != "" {
		name = other
	}
	return function("fake", unknown, literalText(name))
}

// encoders maps schemes to flowd's functions.
var encoders = map[string]string{"base64": "to_base64", "base64rawurl": "to_base64url", "hex": "to_hex"}
var decoders = map[string]string{"base64": "from_base64", "base64url": "from_base64url",
	"base64rawurl": "from_base64url", "hex": "from_hex"}

func encode(a *asked) expression {
	scheme, ok := a.text(0)
	if !ok {
		return a.unknown("encode() can be translated only with a scheme that is written here.")
	}
	x := a.of()
	if c, ok := a.n.of.(*call); ok && c.name == "hash" && x.kind == number { // a CRC
		if scheme == "hex" {
			return function("printf", text, literalText("%08x"), x)
		}
		return a.unknown("A CRC is a number in flowd; only its hexadecimal spelling can be translated.")
	}
	if f := encoders[scheme]; f != "" {
		return function(f, text, x)
	}
	if scheme == "base64url" {
		b := function("to_base64", text, x)
		return function("replace", text, function("replace", text, b, literalText("+"), literalText("-")),
			literalText("/"), literalText("_"))
	}
	return a.unknown("flowd has no encoding %q.", scheme)
}

func decode(a *asked) expression {
	scheme, _ := a.text(0)
	if f := decoders[scheme]; f != "" {
		return function(f, unknown, a.of())
	}
	return a.unknown("flowd has no decoding %q.", scheme)
}

func hash(a *asked) expression {
	algorithm, ok := a.text(0)
	if !ok {
		return a.unknown("hash() can be translated only with an algorithm that is written here.")
	}
	x := a.of()
	switch algorithm {
	case "md5", "sha1", "sha256", "sha384", "sha512":
		return function(algorithm, bytesKind, x)
	case "hmac_sha1", "hmac_sha256", "hmac_sha384", "hmac_sha512", "hmac-sha1", "hmac-sha256", "hmac-sha512":
		if !a.has(1) {
			return a.unknown("This hash lacks its key.")
		}
		return function("hmac", bytesKind, literalText(algorithm[5:]), a.arg(1), x)
	case "crc32":
		polynomial, _ := a.text(2)
		switch polynomial {
		case "", "IEEE":
			return function("crc32", number, x)
		case "Castagnoli":
			return function("crc32c", number, x)
		}
	}
	return a.unknown("flowd has no hash %s.", strings.TrimSpace(algorithm))
}

func uuid5(a *asked) expression {
	ns := literalText("00000000-0000-0000-0000-000000000000")
	if a.has(0) {
		ns = a.arg(0)
	}
	return function("uuid_v5", text, ns, a.of())
}

// urlParts maps Bloblang's parts of a URL to flowd's.
var urlParts = map[string]string{"scheme": "scheme", "path": "path", "user.name": "user", "user.password": "password"}

// partOf reads a part of a method's result that has other parts in flowd.
func (t *translator) partOf(c *call, names []string, e *env) (expression, bool) {
	if c.name != "parse_url" || c.of == nil {
		return expression{}, false
	}
	x := function("parse_url", objectKind, t.expr(c.of, e))
	name := strings.Join(names, ".")
	if part := urlParts[name]; part != "" {
		return expression{text: x.text + "." + part, bind: bindWhole}, true
	}
	switch name {
	case "fragment":
		return coalesce(whole(x.text+".fragment", unknown), literalText("")), true
	case "host":
		return expression{text: "let url = " + x.text +
			"; url.port == nil ? url.host : url.host + \":\" + string(url.port)", bind: bindLet, kind: text}, true
	case "raw_query":
		return coalesce(whole(`re_groups(`+t.expr(c.of, e).arg()+", `\\?([^#]*)`)[1]", unknown), literalText("")), true
	}
	return expression{}, false
}

func formatJSON(a *asked) expression {
	if !a.truth(1, false) {
		a.differs(a.n, "to_json() writes one line.")
	}
	return function("to_json", text, a.of())
}

// Dollar stands for the dollar sign of a flowd placeholder, such as ${file:/x}, until the expression is written, to
// distinguish it from dollar signs in text. [Options.Unescaped] leaves it to the caller.
const Dollar = '\U00100400'

// written escapes text that looks like a placeholder, and writes real placeholders.
func (o Options) written(s string) string {
	if o.Unescaped {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "${", "$${"), string(Dollar), "$")
}
