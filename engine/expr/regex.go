package expr

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

// pattern is a compiled regular expression. Go's take time linear in the text,
// times the pattern's size at worst, which is what a match is charged with.
type pattern struct {
	re     *regexp.Regexp
	size   int    // instructions
	empty  bool   // it may match no characters
	prefix string // with which all that it matches begins
	twice  string // the name of two groups, or ""

	// behind is the same from the second character of a text on, as its first group: a search that begins in the middle
	// of a text has to see the character before, on which ^ and \b depend.
	behind func() *regexp.Regexp
}

// compilePattern compiles text; limit bounds its size before anything of that
// size is built.
func compilePattern(s *site, text string, limit int) *pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		why, remedy := "", ""
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			why = ": " + bad.Code.String() // without the part of the text, which may be secret
			if bad.Code == syntax.ErrInvalidPerlOp || bad.Code == syntax.ErrInvalidEscape {
				remedy = `patterns are those of RE2: without (?=…), (?<!…) and \1`
			}
		}
		s.failFor(remedy, "%s: %s is not a regular expression%s", s.caller(), s.left(text), why)
	}
	n := instructions(tree)
	if n > limit {
		s.fail("%s: the regular expression %s is too large", s.caller(), s.left(text))
	}
	p := &pattern{re: regexp.MustCompile(text), size: n, empty: mayBeEmpty(tree)} // whose only errors are those of Parse
	p.prefix, _ = p.re.LiteralPrefix()
	names := p.re.SubexpNames()
	for i, name := range names {
		if name != "" && slices.Contains(names[:i], name) {
			p.twice = name
		}
	}
	p.behind = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`) // text may leave a \Q open
	})
	return p
}

// ofNames refuses a pattern with a name that an object can't have twice.
func (p *pattern) ofNames(s *site) *pattern {
	if p.twice == "" {
		return p
	}
	shown := "a group " + p.twice
	if s.secret[0] || s.secret[1] {
		shown = "a group"
	}
	s.failFor("give each group its own name", "%s: %s is there twice", s.caller(), shown)
	return nil
}

// caller is how errors about a pattern name the function or the operator.
func (s *site) caller() string {
	if s.name == "matches" {
		return s.name
	}
	return s.name + "()"
}

// instructions is about how many instructions a regular expression compiles to:
// what is repeated counts each time.
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

// mayBeEmpty says whether a regular expression can match no characters somewhere.
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
	return true // what may be left out, and places such as ^
}

func (p *pattern) match(f *frame, s *site, text string) bool {
	f.step(s.offset, len(text)*p.size>>4)
	return p.re.MatchString(text)
}

// test decides about a text that is too short to be worth charging for.
func (p *pattern) test(s scalar) (is scalar, ok bool) {
	if s.kind != value.Text || len(s.text)*p.size > freeMatch {
		return s, false
	}
	return boolScalar(p.re.MatchString(s.text)), true
}

// freeMatch is what a match may cost, in bytes times instructions, without a charge.
const freeMatch = 1 << 16

// matches compiles a pattern that is known at load once; others when a message
// brings them.
func (c *compiler) matches(n *ast.BinaryNode) node {
	l, r := c.node(n.Left), c.node(n.Right)
	s := &site{offset: c.offset(n), name: "matches", secret: [2]bool{l.secret, r.secret}}
	of := &site{offset: s.offset, name: s.name, secret: [2]bool{r.secret, r.secret}} // complaints about the pattern
	if textTypes.Result(l.kinds, r.kinds) == 0 {
		s.clash(l.kinds, r.kinds, s.known(0, l), s.known(1, r))
	}
	if r.konst {
		p := compilePattern(of, r.value.(string), maxProgram)
		m := c.unary(n, value.Bool, l, func(f *frame, v any) any {
			text, ok := v.(string)
			if !ok {
				return s.mismatch(v, r.value)
			}
			return p.match(f, s, text)
		})
		if !m.konst {
			m.scalar = l.scalar.then(p.test)
		}
		return m
	}
	return c.call(n, value.Bool, []node{l, r}, true, func(f *frame, args []any) any {
		text, ok := args[0].(string)
		source, ok2 := args[1].(string)
		if !ok || !ok2 {
			return s.mismatch(args[0], args[1])
		}
		return patternOf(f, of, source).match(f, s, text)
	})
}

// patterns are those from messages.
var patterns = memo.Map[string, *pattern]{Most: 256}

// patternOf is the pattern of a text that a message brings.
func patternOf(f *frame, s *site, text string) *pattern {
	if len(text) > maxPattern {
		s.fail("%s: a regular expression from a message may have at most %d bytes", s.caller(), maxPattern)
	}
	if p, ok := patterns.Get(text); ok {
		return p
	}
	f.step(s.offset, 100+len(text)*4) // compiling takes long
	text = strings.Clone(text)
	p := compilePattern(s, text, maxProgram/5)
	f.step(s.offset, p.size*8)
	patterns.Put(text, p)
	return p
}
