package hints

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
)

// Language is what [Foreign] must know of the language of expressions.
type Language struct {
	Functions []string                 // that the code may call
	Compiles  func(code string) bool   // whether code is valid
	Predicate func(name string) bool   // whether a function takes a predicate, in which .name is a field
	Canonical func(name string) string // the name under which a function is documented
}

// Found says that code is written in another language.
type Found struct {
	Offset  int    // in the code
	Problem string // what is written, and what it would be here
	Code    string // the code in the language of expressions, or ""
	Remedy  string // without Code
}

// idiom is something that another language writes in its own way. Its pattern is matched against code in which the inside of
// quotes is blank.
type idiom struct {
	pattern func() *regexp.Regexp
	problem string // "": not worth mentioning, but corrected along with others
	remedy  string // "": the idiom counts only if the corrected code is valid
	rewrite func(l *Language, code string, m []int) string
}

// with replaces the match by a text with $1 for groups.
func with(replacement string) func(*Language, string, []int) string {
	return func(_ *Language, code string, m []int) string {
		b := []byte(code[:m[0]])
		for i := 0; i < len(replacement); i++ {
			if c := replacement[i]; c == '$' && i+1 < len(replacement) && replacement[i+1] >= '1' && replacement[i+1] <= '9' {
				i++
				b = append(b, group(code, m, int(replacement[i]-'0'))...)
			} else {
				b = append(b, c)
			}
		}
		return string(b) + code[m[1]:]
	}
}

// group is the i-th group of a match, or "".
func group(code string, m []int, i int) string {
	if m[2*i] < 0 {
		return ""
	}
	return code[m[2*i]:m[2*i+1]]
}

// Problems with placeholders.
const (
	Mustache = "{{ }} belongs to Jinja, Go and Vector"
	Logstash = "%{ } belongs to Logstash"
	Template = "$( ) belongs in templates; this is an expression"
)

// The time of an event, as other systems name it.
const (
	LogstashTime = `parse_time(this["@timestamp"])`
	VectorTime   = `parse_time(timestamp)`
)

const (
	fieldsHaveNoDot = "a field of the document has no dot before it"
	wordsOfSQL      = "this is SQL"
	missingIsNil    = "a missing value is nil, and is compared with =="
)

// idioms are in the order in which they are looked for. The first that is found with a problem is the one that is reported.
var idioms = []idiom{
	{memo.Regexp(`\{\{-?\s*([\w.$@]+(?:\[[^\]{}]*\][\w.]*)*(?:\s*\|\s*\w+)*)\s*-?\}\}`),
		Mustache, "name the field without braces", mustache},
	{memo.Regexp(`%\{(\+?)([^{}]*)\}`), Logstash, "name the field without %{ }", sprintf},
	{memo.Regexp(`\$\(([^()]*)\)`), Template, "write the expression by itself", unwrapped},
	{memo.Regexp(`(?:!|\bnot\s+)\s*(?:exists|defined)\(\s*\.?([A-Za-z_][\w.]*)\s*\)`), missingIsNil, "", with("$1 == nil")},
	{memo.Regexp(`\b(?:exists|defined)\(\s*\.?([A-Za-z_][\w.]*)\s*\)`), missingIsNil, "", with("$1 != nil")},
	{memo.Regexp(`([-+<>=]\s*)(\d+(?:ms|s|m|h))\b`), "a duration is written duration(\"1h\")", "", with(`$1duration("$2")`)},
	{memo.Regexp(`(\b(?:now|parse_time|from_unix)\([^()]*\)\s*[-+]\s*)(\d+)\b`),
		"a time and a number can't be added: a duration has a unit", "", with(`$1duration("$2s")`)},
	{memo.Regexp(`^\s*([a-z]\w*://[^\s"'` + "`" + `]+)\s*$`), "a URL is a text, and needs quotes", "", with(`"$1"`)},
	{memo.Regexp(`\bmeta\s+([A-Za-z_]\w*)\b`), "meta is a function", "", with(`meta("$1")`)},
	{memo.Regexp(`(?:^|[(=+]\s*)([a-z]\w*) +([A-Za-z_][\w.]*)\s*$`), "the argument of a function is written in brackets", "", unbracketed},
	{memo.Regexp(`\b[fF]["']`), "f\"…\" belongs to Python", "join texts with +: \"Hello \" + name", with("f \"")},
	{memo.Regexp(`(?i)\bcase\s+when\b`), wordsOfSQL, "write condition ? a : b", with("")},
	{memo.Regexp(`\bevent\.get\(\s*["']( *)["']\s*\)`), "event.get() belongs to Logstash", "", eventGet},
	{memo.Regexp(`\b(?:Math|JSON|Object|Array|Number|String)\.([a-z])`), "there are functions, but no methods", "", with("$1")},
	{memo.Regexp(`\bnew\s+Date\(\)`), "there are no objects", "", with("now()")},
	{memo.Regexp(`^\s*return\s+`), "an expression has no return", "", with("")},
	{memo.Regexp(`\.?\b([A-Za-z_][\w.]*)\[\]\.([A-Za-z_]\w*)`), "[] belongs to jq", "", with("map($1, .$2)")},
	{memo.Regexp(`//\s*("[^"]*"|'[^']*'|[\w.]+)\s*$`), "// begins a comment: a default is written ??", "", with("?? $1")},
	{memo.Regexp(`\br'( *)'`), "r'…' belongs to VRL and Python", "write the text between backticks: `\\d+`", rawText},
	{memo.Regexp(`\b([a-z]\w*)!\(`), "a function has no ! here: if a call fails, so does its message", "write the name without !",
		with("$1(")},
	{memo.Regexp(`\(?\b([A-Za-z_]\w*)\b\)?\s*(?:->|=>)\s*`), "there are no lambdas", "a predicate calls the element #: map(items, #.qty)",
		lambda},
	{memo.Regexp(`=~\s*/((?:[^/\\\n]|\\.)*)/`), "=~ is written matches", "", pattern},
	{memo.Regexp(`=~`), "=~ is written matches", "", with("matches")},
	{memo.Regexp(`(^|[\s(!])((?:\[[A-Za-z_@][\w@.-]*\])+)(\s*(?:[=!<>]=|=~|[<>)]|matches\b|and\b|or\b|in\b|&&|\|\||$))`),
		"[ ] around a field belongs to Logstash: here it is a list", "", references},
	{memo.Regexp(`\$(?:json)?\.([A-Za-z_])`), "a path begins with the name of a field, without $", "", with("$1")},
	{memo.Regexp(`\$\[`), "a path begins with the name of a field, without $", "", with("this[")},
	{memo.Regexp(`@([A-Za-z_]\w*)`), "@ does not begin the name of a field or of metadata", "", with(`this["@$1"]`)},
	{memo.Regexp(`\b([A-Za-z_]\w*|\])\.(\d+)\b`), "an index is written in brackets", "", with("$1[$2]")},
	{memo.Regexp(`(^|[^\w\])"'` + "`" + `.?])\.([A-Za-z_])`), fieldsHaveNoDot, "", undotted},
	{memo.Regexp(`(?i)\bis\s+not\s+(?:null|none|nil)\b`), missingIsNil, "", with("!= nil")},
	{memo.Regexp(`(?i)\bis\s+(?:null|none|nil)\b`), missingIsNil, "", with("== nil")},
	{memo.Regexp(`(?i)(\bnot\s+)?\blike\s+("[^"]*"|'[^']*')`), wordsOfSQL, "", like},
	{memo.Regexp(`(?i)\bin\s*\(([^()]*)\)`), "a list is written in brackets", "", with("in [$1]")},
	{memo.Regexp(`\bAND\b`), wordsOfSQL, "", with("and")},
	{memo.Regexp(`\bOR\b`), wordsOfSQL, "", with("or")},
	{memo.Regexp(`\bNOT\b`), wordsOfSQL, "", with("not")},
	{memo.Regexp(`<>`), wordsOfSQL, "", with("!=")},
	{memo.Regexp(`!==`), "!== is written !=", "", with("!=")},
	{memo.Regexp(`===`), "=== is written ==", "", with("==")},
	{memo.Regexp(`\btypeof\s+([\w.]+)`), "typeof is a function: type(x)", "", with("type($1)")},
	{memo.Regexp(`^\s*(.+?)\s+if\s+(.+?)\s+else\s+(.+)$`), "a choice is written condition ? a : b", "", with("$2 ? $1 : $3")},
	{memo.Regexp(`\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[[^\[\]]*\])*)\.([A-Za-z_]\w*)\(([^()]*)\)`),
		"there are functions, but no methods", "", method},
	{memo.Regexp(`\b(?:null|None|undefined|NULL)\b`), "", "", with("nil")},
	{memo.Regexp(`([^=!<>~|])=([^=~>])`), "", "", with("$1==$2")},
}

// Foreign finds idioms of other languages in code that is not valid. ok is false if it finds none.
func Foreign(code string, l *Language) (found Found, ok bool) {
	found.Code = code
	for _, in := range idioms {
		at := -1
		for range 20 { // bounded, as what a rewrite leaves may match again
			m := in.pattern().FindStringSubmatchIndex(blanked(found.Code))
			if m == nil {
				break
			}
			next := in.rewrite(l, found.Code, m)
			if next == found.Code {
				break
			}
			if at < 0 {
				at = m[0]
			}
			found.Code = next
		}
		if at >= 0 && in.problem != "" && !ok {
			found.Problem, found.Remedy, found.Offset, ok = in.problem, in.remedy, min(at, len(code)), true
		}
	}
	if !ok {
		hyphens := hyphen().ReplaceAllString(code, `${1}this["$2"]`)
		if hyphens != code && l.Compiles(hyphens) {
			return Found{hyphen().FindStringSubmatchIndex(code)[4], "- subtracts, and is not a part of a name", hyphens, ""}, true
		}
	}
	if found.Code = renamed(found.Code, l); !l.Compiles(found.Code) {
		found.Code = ""
		ok = ok && found.Remedy != ""
	}
	return found, ok
}

// hyphen matches a name with hyphens, which is a subtraction.
var hyphen = memo.Regexp(`(^|[^\w."'])([A-Za-z_]\w*(?:-[A-Za-z_]\w*)+)\b`)

// blanked is code with blanks in place of what is in quotes. Offsets stay the same.
func blanked(code string) string {
	b := []byte(code)
	var s codetext.Scanner
	for i := range b {
		before := s
		if s.Next(b[i]); before.Quote != 0 && s.Quote != 0 {
			b[i] = ' '
		}
	}
	return string(b)
}

// mustache takes {{ name | filter }}.
func mustache(_ *Language, code string, m []int) string {
	inside := strings.Split(group(code, m, 1), "|")
	for i, part := range inside {
		if inside[i] = strings.TrimSpace(part); i > 0 {
			inside[i] += "()"
		}
	}
	return code[:m[0]] + strings.Join(inside, " | ") + code[m[1]:]
}

// unbracketed takes len items.
func unbracketed(l *Language, code string, m []int) string {
	if name := called(group(code, m, 1), l); slices.Contains(l.Functions, l.Canonical(name)) {
		return code[:m[2]] + name + "(" + group(code, m, 2) + ")" + code[m[1]:]
	}
	return code
}

// unwrapped takes $(code).
func unwrapped(_ *Language, code string, m []int) string {
	inside := strings.TrimSpace(group(code, m, 1))
	if strings.Contains(inside, " ") {
		inside = "(" + inside + ")"
	}
	return code[:m[0]] + inside + code[m[1]:]
}

// sprintf takes Logstash's %{[a][b]} and %{+YYYY.MM.dd}.
func sprintf(_ *Language, code string, m []int) string {
	if group(code, m, 1) == "+" {
		return code[:m[0]] + formatted(group(code, m, 2)) + code[m[1]:]
	}
	return code[:m[0]] + reference(group(code, m, 2)) + code[m[1]:]
}

var jodaLetters = strings.NewReplacer("yyyy", "%Y", "YYYY", "%Y", "xxxx", "%G", "MM", "%m", "dd", "%d", "HH", "%H", "mm", "%M",
	"ss", "%S", "ww", "%V", "DDD", "%j")

// formatted is the time of the event in a layout of Logstash.
func formatted(layout string) string {
	return `format_time(` + LogstashTime + `, "` + jodaLetters.Replace(layout) + `")`
}

var simpleName = memo.Regexp(`^[A-Za-z_]\w*$`)

// reference is the path for Logstash's [a][b].
func reference(text string) string {
	names := strings.Split(strings.Trim(strings.ReplaceAll(text, "][", "\x00"), "[]"), "\x00")
	if len(names) == 2 && names[0] == "@metadata" {
		return "meta(" + codetext.Quote(names[1]) + ")"
	}
	path := ""
	for i, name := range names {
		switch {
		case i == 0 && strings.Contains(text, ".") && !strings.Contains(text, "["): // a.b
			return text
		case !simpleName().MatchString(name):
			path = cmp.Or(path, "this") + "[" + codetext.Quote(name) + "]"
		case i == 0:
			path = name
		default:
			path += "." + name
		}
	}
	return path
}

func references(_ *Language, code string, m []int) string {
	return code[:m[0]] + group(code, m, 1) + reference(group(code, m, 2)) + group(code, m, 3) + code[m[1]:]
}

// eventGet takes Logstash's event.get("[a][b]").
func eventGet(_ *Language, code string, m []int) string {
	return code[:m[0]] + reference(group(code, m, 1)) + code[m[1]:]
}

func rawText(_ *Language, code string, m []int) string {
	return code[:m[0]] + literal(group(code, m, 1)) + code[m[1]:]
}

// pattern takes =~ /…/.
func pattern(_ *Language, code string, m []int) string {
	return code[:m[0]] + "matches " + literal(strings.ReplaceAll(group(code, m, 1), `\/`, "/")) + code[m[1]:]
}

// literal is a text in quotes: in backticks where it has backslashes.
func literal(text string) string {
	if strings.Contains(text, `\`) && !strings.Contains(text, "`") {
		return "`" + text + "`"
	}
	return codetext.Quote(text)
}

// undotted takes .name outside of predicates.
func undotted(l *Language, code string, m []int) string {
	at := m[4] - 1
	for open := code[:at]; ; {
		name, offset := codetext.CallBefore(open)
		if name == "" {
			break
		}
		if l.Predicate(name) {
			return code
		}
		open = code[:offset]
	}
	return code[:at] + code[at+1:]
}

// lambda takes x -> body: the element is #.
func lambda(_ *Language, code string, m []int) string {
	name := group(code, m, 1)
	end, depth := len(code), 0
	for i, c := range blanked(code[m[1]:]) {
		if strings.ContainsRune("([{", c) {
			depth++
		} else if strings.ContainsRune(")]}", c) {
			if depth--; depth < 0 {
				end = m[1] + i
				break
			}
		}
	}
	body := code[m[1]:end]
	for _, use := range slices.Backward(regexp.MustCompile(`\b`+name+`\b`).FindAllStringIndex(blanked(body), -1)) {
		if use[0] == 0 || body[use[0]-1] != '.' {
			body = body[:use[0]] + "#" + body[use[1]:]
		}
	}
	return code[:m[0]] + strings.ReplaceAll(body, "#.", ".") + code[end:]
}

// like takes LIKE 'a%'.
func like(_ *Language, code string, m []int) string {
	text := group(code, m, 2)
	text = text[1 : len(text)-1]
	inner, operator := strings.Trim(text, "%"), "=="
	switch before, after := strings.HasPrefix(text, "%"), strings.HasSuffix(text, "%"); {
	case before && after:
		operator = "contains"
	case before:
		operator = "endsWith"
	case after:
		operator = "startsWith"
	}
	if strings.ContainsAny(inner, "%_") {
		return code
	}
	if group(code, m, 1) != "" {
		operator = "not " + operator
	}
	return code[:m[0]] + operator + " " + codetext.Quote(inner) + code[m[1]:]
}

// operators are methods of other languages that are operators here.
var operators = map[string]string{
	"contains": "contains", "includes": "contains", "has_prefix": "startsWith", "startswith": "startsWith", "starts_with": "startsWith",
	"has_suffix": "endsWith", "endswith": "endsWith", "ends_with": "endsWith", "re_match": "matches", "matches": "matches",
	"or": "??", "get": "",
}

// method takes x.f(y): f(x, y), or x f y.
func method(l *Language, code string, m []int) string {
	of, name, args := group(code, m, 1), group(code, m, 2), group(code, m, 3)
	call := ""
	switch operator, ok := operators[strings.ToLower(name)]; {
	case ok && operator != "" && args != "":
		call = "(" + of + " " + operator + " " + args + ")"
		if m[0] == 0 && m[1] == len(code) {
			call = call[1 : len(call)-1]
		}
	case args == "":
		call = called(name, l) + "(" + of + ")"
	default:
		call = called(name, l) + "(" + of + ", " + args + ")"
	}
	return code[:m[0]] + call + code[m[1]:]
}

var (
	calls   = memo.Regexp(`\b([A-Za-z_]\w*)\(`)
	oneCall = memo.Regexp(`^write (\w+)\(\w+\)$`)
)

// called is the name here of a function of another language that takes one value, or name itself.
func called(name string, l *Language) string {
	if slices.Contains(l.Functions, l.Canonical(name)) {
		return name
	}
	if m := oneCall().FindStringSubmatch(otherNames()[plainName(name)]); m != nil {
		return m[1]
	}
	return name
}

// renamed gives functions of other languages their names here.
func renamed(code string, l *Language) string {
	for _, m := range slices.Backward(calls().FindAllStringSubmatchIndex(blanked(code), -1)) {
		code = code[:m[2]] + called(code[m[2]:m[3]], l) + code[m[3]:]
	}
	return code
}

func plainName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "") }
