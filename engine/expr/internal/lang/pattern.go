package lang

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"

	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Pattern is a compiled regular expression. A match in Go takes at most time proportional to the length of the text times the
// size of the pattern, and that is charged for.
type Pattern struct {
	Re         *regexp.Regexp
	Size       int    // instructions
	MayBeEmpty bool   // it may match no characters
	Prefix     string // all matches begin with it
	twice      string // a name that two groups have, or ""

	// Behind matches any character, and then, as its first group, the pattern somewhere behind it. A search that begins in the
	// middle of a text needs the character before, because ^ and \b depend on it.
	Behind func() *regexp.Regexp
}

// CompilePattern compiles text. It ends the evaluation if the pattern has more instructions than limit, before it builds them.
func CompilePattern(s *Site, text string, limit int) *Pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		why, remedy := "", ""
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			why = ": " + bad.Code.String() // without the part of the text, which may be secret
			if bad.Code == syntax.ErrInvalidPerlOp || bad.Code == syntax.ErrInvalidEscape {
				remedy = `patterns are those of RE2: without (?=…), (?<!…) and \1`
			}
		}
		s.FailWith(remedy, "%s: %s is not a regular expression%s", s.caller(), s.Show(text), why)
	}
	n := instructions(tree)
	if n > limit {
		s.Fail("%s: the regular expression %s is too large", s.caller(), s.Show(text))
	}
	p := &Pattern{Re: regexp.MustCompile(text), Size: n, MayBeEmpty: mayBeEmpty(tree)} // it has no errors but those of Parse
	p.Prefix, _ = p.Re.LiteralPrefix()
	names := p.Re.SubexpNames()
	for i, name := range names {
		if name != "" && slices.Contains(names[:i], name) {
			p.twice = name
		}
	}
	p.Behind = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`) // not text, in which a \Q may be open
	})
	return p
}

// CheckNames refuses a pattern in which two groups have one name, which an object could not have twice.
func (p *Pattern) CheckNames(s *Site) *Pattern {
	if p.twice == "" {
		return p
	}
	shown := "a group " + p.twice
	if s.Secret[0] || s.Secret[1] {
		shown = "a group"
	}
	s.FailWith("give each group its own name", "%s: %s is there twice", s.caller(), shown)
	return nil
}

// caller is how errors about a pattern name the function or the operator.
func (s *Site) caller() string {
	if s.Name == "matches" {
		return s.Name
	}
	return s.Name + "()"
}

// instructions is about how many instructions a regular expression compiles to. Repetitions count each time.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// mayBeEmpty says whether a regular expression can match an empty text.
func mayBeEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpNoMatch, syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !mayBeEmpty(sub) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if mayBeEmpty(sub) {
				return true
			}
		}
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return mayBeEmpty(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || mayBeEmpty(re.Sub[0])
	}
	return true // optional parts, and positions such as ^
}

func (p *Pattern) match(f *Frame, s *Site, text string) bool {
	f.Step(s.Offset, len(text)*p.Size>>4)
	return p.Re.MatchString(text)
}

// test matches a text that is too short to be worth charging for. ok is false for longer ones.
func (p *Pattern) test(s Scalar) (is Scalar, ok bool) {
	if s.Kind != value.Text || len(s.Text)*p.Size > FreeMatch {
		return s, false
	}
	return boolScalar(p.Re.MatchString(s.Text)), true
}

// FreeMatch is how large a match may be without a charge: bytes of text times instructions.
const FreeMatch = 1 << 16

// matches compiles the operator of this name. A constant pattern is compiled now, another one when a message brings it.
func (c *compiler) matches(n *ast.BinaryNode) Node {
	l, r := c.node(n.Left), c.node(n.Right)
	s := &Site{Offset: c.offset(n), Name: "matches", Secret: [2]bool{l.secret, r.secret}}
	of := &Site{Offset: s.Offset, Name: s.Name, Secret: [2]bool{r.secret, r.secret}} // for errors about the pattern
	if textTypes.Result(l.Kinds, r.Kinds) == 0 {
		s.failKinds(l.Kinds, r.Kinds, s.ShowNode(0, l), s.ShowNode(1, r))
	}
	if r.Const {
		p := CompilePattern(of, r.Value.(string), MaxProgram)
		m := c.unary(n, value.Bool, l, func(f *Frame, v any) any {
			text, ok := v.(string)
			if !ok {
				return s.failMismatch(v, r.Value)
			}
			return p.match(f, s, text)
		})
		if !m.Const {
			m.Scalar = l.Scalar.Then(p.test)
		}
		return m
	}
	return c.call(n, value.Bool, []Node{l, r}, true, func(f *Frame, args []any) any {
		text, ok := args[0].(string)
		source, ok2 := args[1].(string)
		if !ok || !ok2 {
			return s.failMismatch(args[0], args[1])
		}
		return PatternOf(f, of, source).match(f, s, text)
	})
}

// patterns are patterns from messages.
var patterns = memo.Map[string, *Pattern]{Most: 256}

// PatternOf is a pattern from a message.
func PatternOf(f *Frame, s *Site, text string) *Pattern {
	if len(text) > MaxPattern {
		s.Fail("%s: a regular expression from a message may have at most %d bytes", s.caller(), MaxPattern)
	}
	if p, ok := patterns.Get(text); ok {
		return p
	}
	f.Step(s.Offset, 100+len(text)*4) // compiling takes long
	text = strings.Clone(text)
	p := CompilePattern(s, text, MaxProgram/5)
	f.Step(s.Offset, p.Size*8)
	patterns.Put(text, p)
	return p
}
