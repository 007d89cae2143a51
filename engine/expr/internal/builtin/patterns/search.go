package patterns

import (
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// freeSearch is how large a search for all matches in one go may be: bytes of text times instructions.
const freeSearch = 1 << 21

// firstMatch is the first part of text that the pattern matches; ok is false when there is none.
func firstMatch(p *lang.Pattern, text string) (part string, ok bool) {
	if p.MayBeEmpty && !p.Re.MatchString(text) {
		return "", false
	}
	part = p.Re.FindString(text)
	return part, p.MayBeEmpty || part != ""
}

// matchShort is firstMatch in a text that is too short to be worth charging for. ok is false for longer ones.
func matchShort(p *lang.Pattern, s lang.Scalar) (part lang.Scalar, ok bool) {
	if s.Kind != value.Text || len(s.Text)*p.Size > lang.FreeMatch {
		return s, false
	}
	text, ok := firstMatch(p, s.Text)
	if !ok {
		return lang.Scalar{Kind: value.Nil}, true
	}
	return lang.TextScalar(text), true
}

// firstGroups is where the first match and its groups are, or nil.
func firstGroups(p *lang.Pattern, f *lang.Frame, s *lang.Site, text string) []int {
	f.Step(s.Offset, len(text)*p.Size>>4)
	return p.Re.FindStringSubmatchIndex(text)
}

// allMatches is where up to n matches and their groups are, from left to right and without overlaps; n below 0: all.
//
// To find one match, package regexp may read on to the end of the text, as for `a.*b|a`. All matches then take quadratic time. As
// long as even that is cheap, it is charged for, and package regexp finds them in one go. After that, furtherMatches looks for one
// match after the other, and charges for what the search has read.
func allMatches(p *lang.Pattern, f *lang.Frame, s *lang.Site, text string, n int) [][]int {
	if n < 0 {
		n = math.MaxInt
	}
	cost := len(text) * p.Size
	f.Step(s.Offset, cost>>4)
	limit := min(n, max(1, freeSearch/(cost+1)), f.MemoryLeft()/matchSize(p)+1)
	found := p.Re.FindAllStringSubmatchIndex(text, limit)
	f.Step(s.Offset, len(found)*(1+cost>>4))
	f.Alloc(s.Offset, len(found)*matchSize(p))
	if len(found) < limit || limit == n {
		return found
	}
	return furtherMatches(p, f, s, text, n, found)
}

// furtherMatches is found with the matches behind these, up to n in all.
func furtherMatches(p *lang.Pattern, f *lang.Frame, s *lang.Site, text string, n int, found [][]int) [][]int {
	pos, end := 0, -1 // of the present search, and of the last match
	if len(found) > 0 {
		end = found[len(found)-1][1]
		pos = end
	}
	r := &runes{f: f, s: s, whole: text, cost: max(p.Size, 16)}
	for len(found) < n && pos <= len(text) {
		at := nextMatch(p, r, pos)
		if at == nil {
			break
		}
		empty := at[1] == pos
		if !empty || at[0] != end { // no empty match follows another match directly
			f.Alloc(s.Offset, matchSize(p))
			found = append(found, at)
		}
		end, pos = at[1], at[1]
		if empty {
			_, width := utf8.DecodeRuneInString(text[pos:])
			pos += max(width, 1)
		}
	}
	return found
}

// matchSize is how many bytes the positions of a match take.
func matchSize(p *lang.Pattern) int { return 2*24 + 16*(1+p.Re.NumSubexp()) }

// nextMatch is the first match that begins at pos or later, or nil.
func nextMatch(p *lang.Pattern, r *runes, pos int) []int {
	r.f.Step(r.s.Offset, 10)
	if p.Prefix != "" {
		i := strings.Index(r.whole[pos:], p.Prefix)
		if i < 0 {
			r.f.Step(r.s.Offset, (len(r.whole)-pos)>>7)
			return nil
		}
		r.f.Step(r.s.Offset, i>>7)
		pos += i
	}
	if pos == 0 {
		r.at = 0
		return p.Re.FindReaderSubmatchIndex(r)
	}
	_, width := utf8.DecodeLastRuneInString(r.whole[:pos])
	from := pos - width
	r.at = from
	at := p.Behind().FindReaderSubmatchIndex(r)
	if at == nil {
		return nil
	}
	for i := range at {
		if at[i] >= 0 {
			at[i] += from
		}
	}
	return at[2:]
}

// runes gives a search the characters of a text, and charges for them.
type runes struct {
	f     *lang.Frame
	s     *lang.Site
	whole string
	at    int
	cost  int // of a byte, in sixteenths of a step
	due   int
}

// ReadRune is called by package regexp. It panics at the end of the budget, which costs package regexp no more than one entry of a
// pool.
func (r *runes) ReadRune() (c rune, width int, err error) {
	if r.at >= len(r.whole) {
		return 0, 0, io.EOF
	}
	c, width = utf8.DecodeRuneInString(r.whole[r.at:])
	r.at += width
	if r.due += width * r.cost; r.due >= 1<<12 {
		r.f.Step(r.s.Offset, r.due>>4)
		r.due = 0
	}
	return c, width, nil
}
