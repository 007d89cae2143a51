package expr

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/expr-lang/expr/ast"
)

// pattern is a compiled regular expression. Go's take time linear in the text,
// times the pattern's size at worst, which is what a match is charged with.
type pattern struct {
	re   *regexp.Regexp
	size int // instructions
}

// compilePattern compiles text; limit bounds its size before anything of that
// size is built.
func compilePattern(s *site, text string, limit int) *pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		why := ""
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			why = ": " + bad.Code.String() // without the part of the text, which may be secret
		}
		fail(s.offset, "matches: %s is not a regular expression%s", s.right(text), why)
	}
	n := instructions(tree)
	if n > limit {
		fail(s.offset, "matches: the regular expression %s is too large", s.right(text))
	}
	return &pattern{regexp.MustCompile(text), n} // whose only errors are those of Parse
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

func (p *pattern) match(f *frame, s *site, text string) bool {
	f.step(s.offset, len(text)*p.size>>4)
	return p.re.MatchString(text)
}

// test decides about a text that is too short to be worth charging for.
func (p *pattern) test(s scalar) (is scalar, ok bool) {
	if s.kind != kText || len(s.text)*p.size > freeMatch {
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
	if result(textTypes, l.kinds, r.kinds) == 0 {
		s.clash(l.kinds, r.kinds, s.known(0, l), s.known(1, r))
	}
	if r.konst {
		p := compilePattern(s, r.value.(string), maxProgram)
		m := c.unary(n, kBool, l, func(f *frame, v any) any {
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
	return c.call(n, kBool, []node{l, r}, true, func(f *frame, args []any) any {
		text, ok := args[0].(string)
		source, ok2 := args[1].(string)
		if !ok || !ok2 {
			return s.mismatch(args[0], args[1])
		}
		if len(source) > maxPattern {
			fail(s.offset, "matches: a regular expression from a message may have at most %d bytes", maxPattern)
		}
		return patterns.get(f, s, source).match(f, s, text)
	})
}

// patterns keeps those from messages. When it is full it starts over: no message can make
// it large, and patterns in use return at once.
var patterns = patternCache{byText: map[string]*pattern{}}

const maxPatterns = 256

type patternCache struct {
	mu     sync.RWMutex
	byText map[string]*pattern
}

func (c *patternCache) get(f *frame, s *site, text string) *pattern {
	c.mu.RLock()
	p, ok := c.byText[text]
	c.mu.RUnlock()
	if ok {
		return p
	}
	f.step(s.offset, 100+len(text)*4) // compiling takes long
	p = compilePattern(s, text, maxProgram/5)
	f.step(s.offset, p.size*8)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byText) >= maxPatterns {
		clear(c.byText)
	}
	c.byText[text] = p
	return p
}
