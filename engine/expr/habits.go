package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flowd-io/flowd/schema"
)

// What to write instead, for what people used to other languages write, and for slips that
// expr's parser sees only as an unexpected token.

// habits are remedies by the token that did not fit.
var habits = map[string]string{
	"=": "write == to compare", "===": "write ==", "AND": "write and", "OR": "write or", "NOT": "write not",
	"IN": "write in", "&": "write and, or bitand(a, b)", "is": "write ==", "like": "write matches or contains",
	"LIKE": "write matches or contains", "then": "write condition ? a : b",
	"#": "# is the element inside a predicate: filter(items, # > 1)",
	".": ".name is the element's field inside a predicate; a field of the document needs no dot",
	":": "an object inside a predicate goes into brackets: map(items, ({name: .name}))",
}

// reserved are the words that are not fields unless they follow `this.`.
var reserved = []string{"and", "contains", "else", "endsWith", "if", "in", "let", "matches", "not", "or", "startsWith"}

// literals are names that other languages give to true, false and nil.
var literals = map[string]string{
	"null": "write nil for no value", "None": "write nil for no value", "undefined": "write nil for no value",
	"NULL": "write nil for no value", "Null": "write nil for no value",
	"True": "write true", "TRUE": "write true", "False": "write false", "FALSE": "write false",
}

// switches are the words that some YAML readers take for true and false.
var switches = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

// infix are the words that go between two values where other languages have functions.
var infix = []string{"contains", "endsWith", "in", "matches", "startsWith"}

// foreign are functions of other languages, in small letters without _.
var foreign = map[string]string{
	"length": "write len(x)", "lenght": "write len(x)", "strlen": "write len(x)",
	"tolower": "write lower(x)", "lowercase": "write lower(x)", "downcase": "write lower(x)",
	"toupper": "write upper(x)", "uppercase": "write upper(x)", "upcase": "write upper(x)",
	"substr": "write text[0:5]", "substring": "write text[0:5]", "slice": "write x[0:5]",
	"str": "write string(x)", "tostring": "write string(x)", "toint": "write int(x)", "parseint": "write int(x)",
	"number": "write int(x) or float(x)", "tofloat": "write float(x)", "parsefloat": "write float(x)",
	"parsejson": "write fromJSON(x)", "json": "write fromJSON(x)", "stringify": "write toJSON(x)",
	"exists": "write x != nil", "defined": "write x != nil", "isnull": "write x == nil", "isnil": "write x == nil",
	"coalesce": "write a ?? b", "default": "write a ?? b", "ifnull": "write a ?? b",
	"env": "write ${NAME}", "pow": "write a ** b", "timestamp": "write now()", "sha256": "write hash(x)",
	"md5":   "write hash(x)",
	"throw": "write a step, `- fail: why`, with `when`", "raise": "write a step, `- fail: why`, with `when`",
	"deleted": "write a step: `unset: [field]` for a field, `filter: condition` for messages",
	"del":     "write a step: `unset: [field]`",
	"content": "write raw()", "strftime": `write format(time, "2006-01-02 15:04:05")`,
	"formattime": `write format(time, "2006-01-02 15:04:05")`,
	"file":       "write ${file:/path}, which is read once, at the start",
	"readfile":   "write ${file:/path}, which is read once, at the start",
	"hostname":   "write ${HOSTNAME}, from the environment", "merge": "write fromPairs(concat(toPairs(a), toPairs(b)))",
	"assign": "write fromPairs(concat(toPairs(a), toPairs(b)))",
	"range":  "write 1..n", "sqrt": "write x ** 0.5",
	"regexreplace": `there is no replacement by pattern; write replace(text, "old", "new") for plain text`,
	"resub":        `there is no replacement by pattern; write replace(text, "old", "new") for plain text`,
	"urldecode":    "there is only url_encode(x); a step such as `exec` can decode",
	"match":        "write text matches \"…\"", "regex": "write text matches \"…\"",
	"includes": "write value in list, or text contains \"…\"",
}

// misplaced is the remedy for a token that does not fit at offset, or "".
func misplaced(code, kind, token string, offset int) string {
	before, after := code[:offset], code[offset+min(len(token), len(code)-offset):]
	call := strings.HasPrefix(strings.TrimLeft(after, " "), "(")
	switch {
	case token == ">" && strings.HasSuffix(before, "<"):
		return "write !="
	case slices.Contains(infix, token) && call && operandMissing(before):
		return fmt.Sprintf("%s goes between its operands: a %s b", token, token)
	case slices.Contains(reserved, token):
		return fmt.Sprintf("a field of this name is written this.%s", token)
	case habits[token] != "":
		return habits[token]
	case strings.Contains(")]}", token) && openAt(before) < 0:
		return "it closes nothing: remove it, or open it before"
	case kind == "Identifier" || kind == "Number" || kind == "String":
		return "an operator is missing before it"
	}
	return ""
}

// operandMissing says whether there is no value at the end of code.
func operandMissing(code string) bool {
	code = strings.TrimRight(code, " \t\r\n")
	return code == "" || strings.HasSuffix(code, "(") || strings.HasSuffix(code, ",")
}

// lastWord is the identifier with which code ends, or "".
func lastWord(code string) string {
	front := strings.TrimRightFunc(code, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' || r == '$'
	})
	return strings.TrimLeftFunc(code[len(front):], unicode.IsNumber)
}

// piped says whether code ends with | and word.
func piped(code, word string) bool {
	return word != "" && strings.HasSuffix(strings.TrimRight(strings.TrimSuffix(code, word), " \t\n\f\r"), "|")
}

// tooEarly is the remedy for code that lacks its end, or "".
func tooEarly(code string, scopes []string) string {
	open, word := openAt(code), lastWord(code)
	switch pipe := piped(code, word); {
	case pipe && slices.Contains(names(scopes), word):
		return fmt.Sprintf("write | %s()", word)
	case pipe:
		return "write or, or bitor(a, b); | hands a value to a function"
	case word == code && slices.Contains(reserved, word):
		return fmt.Sprintf("a field of this name is written this.%s", word)
	case strings.HasPrefix(code, "let ") && open < 0 && !strings.Contains(code, ";"):
		return "write what to do with it: let x = a; x + 1"
	case open >= 0:
		return fmt.Sprintf("the %c before it is not closed", code[open])
	}
	return ""
}

// openAt is where the innermost bracket that code leaves open is, or -1.
func openAt(code string) int {
	open := []int{-1}
	var s scanner
	for i := range len(code) {
		b := code[i]
		s.next(b)
		switch {
		case !s.plain():
		case b == '(' || b == '[' || b == '{':
			open = append(open, i)
		case (b == ')' || b == ']' || b == '}') && len(open) > 1:
			open = open[:len(open)-1]
		}
	}
	return open[len(open)-1]
}

// callBefore is the function in whose brackets the end of code is, and where its name
// begins; "" when there is none.
func callBefore(code string) (name string, offset int) {
	for at := openAt(code); at >= 0; at = openAt(code[:at]) {
		if name = lastWord(code[:at]); code[at] == '(' && name != "" {
			return name, at - len(name)
		}
	}
	return "", 0
}

// meantFunction is the remedy for a function that is not there, or "".
func meantFunction(name string, scopes []string) string {
	if remedy := foreign[strings.ReplaceAll(strings.ToLower(name), "_", "")]; remedy != "" {
		return remedy
	}
	near := schema.Nearest(name, append(names(scopes), infix...))
	switch {
	case near == "":
		return ""
	case slices.Contains(infix, near):
		return fmt.Sprintf("did you mean a %s b?", near)
	}
	return fmt.Sprintf("did you mean %s()?", near)
}
