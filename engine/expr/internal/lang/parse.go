package lang

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/hints"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// parse turns code into expr's syntax tree. It checks length and nesting first: expr's parser recurses, and nothing catches an
// overflow of the stack.
func (c *compiler) parse() ast.Node {
	code := c.code
	if len(code) > MaxSource {
		fail(0, "the expression is longer than %d KiB", MaxSource>>10)
	}
	if strings.TrimSpace(code) == "" {
		fail(0, "there is no expression here")
	}
	if i := invalidUTF8(code); i >= 0 {
		fail(i, "the expression is not UTF-8 here")
	}
	tree, err := parseTree(c.mask(c.bound()), c.config)
	if err == nil && tree.Node == nil {
		err = errors.New("there is no expression here")
	}
	if err != nil {
		c.reject(err)
	}
	return tree.Node
}

func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// bound is the tokens of the code. It refuses code with too many of them, or with brackets nested too deeply.
func (c *compiler) bound() []lexer.Token {
	code := c.code
	tokens, err := lexer.Lex(file.NewSource(code))
	if err != nil {
		c.reject(err)
	}
	if len(tokens) > maxTokens {
		fail(byteOffset(code, tokens[maxTokens].From), "the expression has more than %d words and signs", maxTokens)
	}
	depth := 0
	for _, t := range tokens {
		if t.Kind != lexer.Bracket {
			continue
		}
		switch t.Value {
		case "(", "[", "{":
			if depth++; depth > maxBrackets {
				fail(byteOffset(code, t.From), "brackets are nested more than %d deep", maxBrackets)
			}
		default:
			depth--
		}
	}
	return tokens
}

// mask is the code as expr's parser understands it. The parser knows only the loops of expr, so mask replaces the name of
// another loop with that of one whose arguments have the same form. Offsets stay the same.
func (c *compiler) mask(tokens []lexer.Token) string {
	code := []byte(c.code)
	for i, t := range tokens[:max(len(tokens)-1, 0)] {
		if t.Kind == lexer.Number && i > 0 && tokens[i-1].Is(lexer.Operator, "-") &&
			strings.ReplaceAll(t.Value, "_", "") == "9223372036854775808" {
			if c.least == nil {
				c.least = map[int]bool{}
			}
			c.least[t.From] = true
			code[c.byteOffset(t.To)-1] = '7' // the parser reads the number without its sign
			continue
		}
		l := loops[Canonical(t.Value)]
		if t.Kind != lexer.Identifier || l == nil || l.form == "" || registered[t.Value] ||
			!tokens[i+1].Is(lexer.Bracket, "(") ||
			i > 0 && (tokens[i-1].Is(lexer.Operator, ".") || tokens[i-1].Is(lexer.Operator, "?.")) {
			continue
		}
		if c.masked == nil {
			c.masked = map[int]string{}
		}
		c.masked[t.From] = t.Value
		at := c.byteOffset(t.From)
		copy(code[at:], l.form+strings.Repeat(" ", len(t.Value)-len(l.form)))
	}
	return string(code)
}

// parseTree calls expr's parser. A panic in it becomes an error.
func parseTree(code string, config *conf.Config) (tree *parser.Tree, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the expression can't be read")
		}
	}()
	return parser.ParseWithConfig(code, config)
}

// Regular expressions for errors of the parser, compiled with the first error.
var (
	// unexpected matches most errors of expr's parser.
	unexpected = memo.Regexp(`(?s)^(.*)\bunexpected token (\w+)(?:\("(.*)"\))?`)
	badLiteral = memo.Regexp(`^(?:invalid \w+ literal: .*parsing|bad number syntax:) ("[^"]*")`)
	span       = memo.Regexp(`^"\d+(?:\.\d+)?(?:ms|[smh])"$`)
	badInteger = memo.Regexp(`^invalid integer literal: .*parsing "(\d+)"`)
)

// reject ends the compilation with an error of expr's parser in plain words.
func (c *compiler) reject(err error) {
	code := c.code
	offset, msg, remedy := len(code), err.Error(), ""
	meant := ""
	if e, ok := errors.AsType[*file.Error](err); ok {
		offset, msg = byteOffset(code, e.From), e.Message
		meant = c.masked[e.From]
	}
	if m := badInteger().FindStringSubmatch(msg); m != nil { // the parser is one token further
		offset = max(strings.LastIndex(code[:min(offset+1, len(code))], m[1]), 0)
	}
	if m := unexpected().FindStringSubmatch(msg); m != nil {
		kind, token := m[2], cmp.Or(meant, m[3])
		if token == "." || token == "#" {
			c.calls(code[:offset])
		}
		msg, remedy = fmt.Sprintf("unexpected %s", token), hints.ForToken(code, kind, token, offset)
		switch {
		case kind == "EOF":
			code = strings.TrimRight(code, " \t\r\n")
			msg, offset, remedy = "the expression ends too early", len(code), hints.ForEarlyEnd(code, Names(c.scopes))
		case strings.HasPrefix(m[1], "a map key"):
			msg, remedy = fmt.Sprintf("this must be a key, not %s", token),
				`a key is a name, a text in quotes, or an expression in brackets: {name: 1, "odd name": 2, (field): 3}`
		case kind == "String":
			msg = "unexpected text " + fmt.Sprintf("%q", token)
		}
	}
	switch {
	case strings.HasPrefix(msg, "literal not terminated"):
		msg, remedy = "a text has no closing quote", `close it; a quote inside is written \"`
	case strings.HasPrefix(msg, "invalid integer literal"):
		c.tooLarge(offset)
	case badLiteral().MatchString(msg) && !strings.Contains(msg, "out of range"):
		literal := badLiteral().FindStringSubmatch(msg)[1]
		if msg = literal + " is not a number"; span().MatchString(literal) {
			remedy = "write duration(" + literal + ")"
		}
	case badLiteral().MatchString(msg), msg == "integer literal is too large", msg == "float literal is too large":
		msg = "a number is too large"
	case msg == "unclosed comment":
		msg, remedy = "a comment is not closed", "close it with */"
	case msg == "too large string":
		msg = "a text is too long"
	case msg == "unexpected end of expression":
		msg, remedy = "the expression ends too early", hints.ForEarlyEnd(code, Names(c.scopes))
	case strings.HasPrefix(msg, "expected at least"):
		c.tooFew(offset)
	case strings.HasPrefix(msg, "wrap predicate"):
		msg, remedy = "a predicate is not in brackets", "put brackets around it: filter(items, (# > 1))"
	case strings.HasPrefix(msg, "invalid char escape"), strings.HasPrefix(msg, "unable to unescape"):
		msg, remedy = "a backslash in a text begins an escape that does not exist",
			`write \\ for a backslash, or the text between backticks`
	case strings.HasPrefix(msg, "unrecognized character"):
		msg = strings.Replace(msg, "unrecognized character:", "cannot read the character", 1)
		if strings.HasSuffix(msg, "'~'") && strings.HasSuffix(code[:offset], "=") {
			remedy = `write text matches "…"`
		}
	case strings.Contains(msg, "cannot be mixed"):
		msg, remedy = "?? beside another operator is ambiguous", "put brackets around it: (a ?? 0) + 1"
	case msg == "expected name":
		msg, remedy = "the name of a field belongs here", `write any other key in brackets: this["odd name"]`
	case strings.Contains(msg, "exceeds maximum allowed nodes"):
		msg = fmt.Sprintf("the expression has more than %d parts", conf.DefaultMaxNodes)
	}
	failWith(offset, remedy, "%s", msg)
}

// tooFew ends the compilation when a loop lacks arguments, at the bracket that closes its call.
func (c *compiler) tooFew(closing int) {
	name, offset := codetext.CallBefore(c.code[:closing])
	l := loops[Canonical(name)]
	if l == nil {
		return
	}
	params, _, _ := strings.Cut(l.usage[len(nameOf(l.usage)):], ")")
	all := strings.Split(params, ",")
	sig := signature{in: make([]value.Kinds, len(all)), required: len(all) - strings.Count(params, "[")}
	given := 0
	if codetext.EndsWithPipe(c.code[:offset+len(name)], name) {
		given++
	}
	if strings.TrimSpace(c.code[offset+len(name)+1:closing]) != "" {
		given++
	}
	failWith(offset, l.usage, "%s() takes %s, not %d", name, sig.count(), given)
}

// tooLarge ends the compilation at an integer.
func (c *compiler) tooLarge(offset int) {
	failWith(offset, `write int("…") to compare with a larger one`, "a whole number is beyond 64 bits")
}

// byteOffset is where the n-th character of code begins.
func byteOffset(code string, n int) int {
	for i := range code {
		if n == 0 {
			return i
		}
		n--
	}
	return len(code)
}

// calls ends the compilation if code ends within a call of a function that does not exist: its predicate is not a second
// mistake.
func (c *compiler) calls(code string) {
	name, offset := codetext.CallBefore(code)
	if loops[Canonical(name)] == nil && name != "" {
		c.find(&Site{Offset: offset, Name: name}, name)
	}
}
