package bloblang

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what is known about an expression's value before it runs.
type kind int

const (
	unknown kind = iota
	null
	boolean
	number
	text
	bytesKind
	listKind
	objectKind
	timeKind
)

// flowd's operators, by precedence.
const (
	bindLet = iota
	bindTernary
	bindOr
	bindAnd
	bindCompare
	bindAdd
	bindMultiply
	bindUnary
	bindCoalesce
	bindWhole // brackets, calls, literals, paths
)

// expression is a piece of flowd's language.
type expression struct {
	text  string
	bind  int
	kind  kind
	safe  bool   // it can't fail
	path  bool   // only fields of the document
	not   string // its negation, if shorter than `not (…)`
	notAs int    // precedence of not
	lit   any    // value of a literal
	isLit bool
	chain []string // cases of a ?: with several, each without its colon
}

func whole(text string, k kind) expression { return expression{text: text, bind: bindWhole, kind: k} }

// in returns the text for a place that requires a precedence, in brackets if needed.
func (e expression) in(bind int) string {
	if e.bind < bind {
		return "(" + e.text + ")"
	}
	return e.text
}

// arg returns the text for an argument, an element or a branch of ?:.
func (e expression) arg() string { return e.in(bindTernary) }

func (e expression) negated() expression {
	if e.not != "" {
		return expression{text: e.not, bind: e.notAs, kind: boolean, not: e.text, notAs: e.bind}
	}
	return expression{text: "not " + e.in(bindUnary), bind: bindUnary, kind: boolean, not: e.text, notAs: e.bind}
}

func function(name string, k kind, args ...expression) expression {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.arg()
	}
	return whole(name+"("+strings.Join(texts, ", ")+")", k)
}

var opposites = map[string]string{
	"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "in": "not in",
}

func compare(left expression, op string, right expression) expression {
	l, r := left.in(bindAdd), right.in(bindAdd)
	e := expression{text: l + " " + op + " " + r, bind: bindCompare, kind: boolean}
	if o := opposites[op]; o != "" {
		e.not, e.notAs = l+" "+o+" "+r, bindCompare
	} else {
		e.not, e.notAs = "not ("+e.text+")", bindUnary
	}
	e.safe = left.safe && right.safe && (op == "==" || op == "!=") && (left.kind == null || right.kind == null)
	return e
}

func infix(left expression, op string, bind int, right expression, k kind) expression {
	return expression{text: left.in(bind) + " " + op + " " + right.in(bind+1), bind: bind, kind: k}
}

func and(a, b expression) expression {
	return infix(a, "and", bindAnd, b, boolean)
}

func or(a, b expression) expression {
	return infix(a, "or", bindOr, b, boolean)
}

// coalesce returns a ?? b. It needs brackets next to another operator.
func coalesce(a, b expression) expression {
	k := b.kind
	if a.kind != unknown && a.kind != null {
		k = a.kind
	} else if b.kind == unknown || b.kind == null {
		k = a.kind
	}
	side := func(x expression) string {
		if x.notAs == coalesced {
			return x.text
		}
		return x.in(bindUnary)
	}
	return expression{text: side(a) + " ?? " + side(b), bind: bindTernary, kind: k, safe: b.safe, notAs: coalesced}
}

// coalesced marks the result of coalesce.
const coalesced = -1

func ternary(when, then, otherwise expression) expression {
	k := then.kind
	if k != otherwise.kind {
		k = unknown
	}
	t := then.in(bindTernary)
	if then.bind == bindTernary {
		t = "(" + then.text + ")"
	}
	w := when.text
	if when.bind <= bindTernary {
		w = "(" + when.text + ")"
	}
	e := expression{text: w + " ? " + t + " : " + otherwise.arg(), bind: bindTernary, kind: k,
		safe: when.safe && then.safe && otherwise.safe, chain: []string{w + " ? " + t}}
	if otherwise.chain != nil {
		e.chain = append(e.chain, otherwise.chain...)
	} else {
		e.chain = append(e.chain, otherwise.arg())
	}
	return e
}

func nilExpression() expression {
	return expression{text: "nil", bind: bindWhole, kind: null, safe: true, isLit: true}
}

func literalText(s string) expression {
	if !utf8.ValidString(s) {
		return whole("from_hex("+doubleQuoted(hex.EncodeToString([]byte(s)))+")", bytesKind)
	}
	return expression{text: quote(s), bind: bindWhole, kind: text, safe: true, lit: s, isLit: true}
}

func literalInt(i int64) expression {
	e := expression{text: strconv.FormatInt(i, 10), bind: bindWhole, kind: number, safe: true, lit: i, isLit: true}
	if i < 0 {
		e.bind = bindUnary
	}
	return e
}

// quote writes a text as a literal: in backticks if it contains backslashes, as in regular expressions.
func quote(s string) string {
	if strings.ContainsAny(s, "\\\"") && !strings.ContainsAny(s, "`") && printable(s) {
		return "`" + s + "`"
	}
	return doubleQuoted(s)
}

func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !strconv.IsPrint(r) && r < 0x10000:
			b.WriteString(`\u` + hex4(r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hex4(r rune) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", 4-len(s)) + s
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) && r < firstRune })
}

// reserved are words that are not fields if they are alone.
var reserved = []string{
	"and", "contains", "else", "endsWith", "if", "in", "let", "matches", "not", "or", "startsWith", "nil", "true",
	"false", "this", "null", "None", "undefined", "yes", "no", "on", "off", "is", "like", "then",
	"NULL", "Null", "True", "TRUE", "False", "FALSE", "AND", "OR", "NOT", "IN", "LIKE",
}

var plainName = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// segment writes a further name of a path.
func segment(name string) string {
	if plainName().MatchString(name) {
		return "." + name
	}
	return "[" + doubleQuoted(name) + "]"
}

// member writes the access to a field, or to an element if the name is a number.
func member(name string) string {
	if _, err := strconv.ParseUint(name, 10, 31); err == nil {
		return "[" + name + "]"
	}
	return segment(name)
}

// path writes a path in the document.
func path(names []string) string {
	if len(names) == 0 {
		return "this"
	}
	var b strings.Builder
	for i, name := range names {
		switch {
		case i > 0:
			b.WriteString(member(name))
		case plainName().MatchString(name) && !slices.Contains(reserved, name):
			b.WriteString(name)
		default:
			b.WriteString("this" + segment(name))
		}
	}
	return b.String()
}
