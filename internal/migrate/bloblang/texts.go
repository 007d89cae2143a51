package bloblang

import (
	"slices"
	"strconv"
	"strings"
)

func quoteMethod(a *asked) expression {
	x := a.of()
	if x.kind != text {
		a.differs(a.n, "What is not a text is written as JSON rather than refused.")
	}
	return function("to_json", text, x)
}

func all(a *asked) expression {
	a.differs(a.n, "all() of an empty list is true.")
	return a.loop("all", boolean)
}

func escapeQuery(a *asked) expression {
	return function("replace", text, function("url_encode", text, a.of()), literalText("%20"), literalText("+"))
}

func unescapeQuery(a *asked) expression {
	return function("url_decode", text, function("replace", text, a.of(), literalText("+"), literalText(" ")))
}

func escapePath(a *asked) expression {
	a.differs(a.n, "url_encode() also encodes & + = : @ and $, which escape_url_path() leaves; both decode to the same.")
	return function("url_encode", text, a.of())
}

func replaceMany(a *asked) expression {
	l, ok := a.node(0).(*list)
	if !ok || len(l.items)%2 != 0 {
		return a.unknown("%s() can be translated only with a list of texts; write replace(text, old, new) for each.",
			a.n.name)
	}
	x := a.of()
	var news []string
	for i := 0; i < len(l.items); i += 2 {
		old, okOld := a.literalOf(l.items[i])
		put, okNew := a.literalOf(l.items[i+1])
		o, isOld := old.(string)
		p, isNew := put.(string)
		if !okOld || !okNew || !isOld || !isNew ||
			slices.ContainsFunc(news, func(n string) bool { return o == "" || strings.Contains(n, o) }) {
			a.differs(a.n, "The texts are replaced one after the other, so that one may be found in what another has put in.")
		}
		news = append(news, p)
		x = function("replace", text, x, a.expr(l.items[i], a.e), a.expr(l.items[i+1], a.e))
	}
	return x
}

func slice(a *asked) expression {
	x := a.of()
	low, high := "", ""
	if a.has(0) {
		low = a.arg(0).in(bindAdd)
	}
	if a.has(1) {
		high = a.arg(1).in(bindAdd)
	}
	if low == "0" && high != "" {
		low = ""
	}
	return expression{text: x.in(bindWhole) + "[" + low + ":" + high + "]", bind: bindWhole, kind: x.kind}
}

func slug(a *asked) expression {
	a.differs(a.n, "slug() leaves & and the like out, and knows no languages to name them in.")
	return function("slug", text, a.of())
}

func split(a *asked) expression {
	x := function("split", listKind, a.of(), a.arg(0))
	if a.truth(1, false) {
		return whole(`map(`+x.text+`, # == "" ? nil : #)`, listKind)
	}
	return x
}

func stripHTML(a *asked) expression {
	if a.has(0) {
		return a.unknown("strip_html() keeps no tags in flowd.")
	}
	return function("strip_html", text, a.of())
}

var verbs = pattern(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z%]`)

func format(a *asked) expression {
	x := a.of()
	if s, ok := a.literalOf(a.n.of); ok {
		if s, ok := s.(string); ok {
			for _, v := range verbs().FindAllString(s, -1) {
				if !strings.Contains("svqdbocxXfegt%", v[len(v)-1:]) {
					return a.unknown("printf() has no verb %s.", v)
				}
			}
		}
	}
	return function("printf", text, append([]expression{x}, a.rest()...)...)
}

func pathSplit(a *asked) expression {
	return a.named(a.of(), func(p string) expression {
		return whole("["+p+"[:last_index_of("+p+", \"/\") + 1], "+p+"[last_index_of("+p+", \"/\") + 1:]]", listKind)
	})
}

func pathJoin(a *asked) expression {
	a.differs(a.n, "Parts such as .. are not resolved.")
	return function("re_replace", text, function("join", text, a.of(), literalText("/")), literalText("/+"),
		literalText("/"))
}

// named gives a name to a value, unless it is short, for an expression that uses it more than once.
func (a *asked) named(x expression, body func(name string) expression) expression {
	if x.path || x.isLit || x.bind == bindWhole && len(x.text) <= 12 {
		return body(x.in(bindWhole))
	}
	b := body("it")
	return expression{text: "let it = " + x.in(bindTernary) + "; " + b.text, bind: bindLet, kind: b.kind}
}

// groups names the groups of a pattern as re_find_object does: "0" is the whole match, and groups without a name are
// numbered.
func groups(pattern string) string {
	var b strings.Builder
	group, class := 0, false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		b.WriteByte(c)
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case c == '[' && !class:
			class = true
			if strings.HasPrefix(pattern[i+1:], "]") || strings.HasPrefix(pattern[i+1:], "^]") {
				end := i + 1 + strings.IndexByte(pattern[i+1:], ']')
				b.WriteString(pattern[i+1 : end+1])
				i = end
			}
		case c == ']':
			class = false
		case c == '(' && !class:
			if !strings.HasPrefix(pattern[i+1:], "?") {
				group++
				b.WriteString("?P<" + strconv.Itoa(group) + ">")
			} else if strings.HasPrefix(pattern[i+1:], "?P<") || strings.HasPrefix(pattern[i+1:], "?<") {
				group++
			}
		}
	}
	return "(?P<0>" + b.String() + ")"
}

func findObject(a *asked) expression {
	p, ok := a.text(0)
	if !ok {
		return a.unknown("re_find_object() needs a pattern that is written here; write re_groups(text, pattern).")
	}
	return coalesce(function("re_groups", objectKind, a.of(), literalText(groups(p))), whole("{}", objectKind))
}

func findAllObject(a *asked) expression {
	p, ok := a.text(0)
	if !ok {
		return a.unknown("re_find_all_object() needs a pattern that is written here; write re_groups_all(text, pattern).")
	}
	return function("re_groups_all", listKind, a.of(), literalText(groups(p)))
}

func submatches(a *asked) expression {
	p, ok := a.text(0)
	if !ok || strings.Contains(p, "(?P<") || strings.Contains(p, "(?<") {
		return a.unknown("re_find_all_submatch() needs a pattern that is written here and names no groups.")
	}
	if strings.Contains(p, ")?") || strings.Contains(p, ")*") || strings.Contains(p, "|") {
		a.differs(a.n, "A group that takes no part in a match is nil rather than an empty text.")
	}
	return function("re_groups_all", listKind, a.of(), a.arg(0))
}
