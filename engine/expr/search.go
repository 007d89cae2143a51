package expr

import (
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// freeSearch is what a search for all matches may cost, in bytes times instructions, before each is looked for alone.
const freeSearch = 1 << 21

// first is the first part of text that the pattern matches; ok is false when there is none.
func (p *pattern) first(text string) (part string, ok bool) {
	if p.empty && !p.re.MatchString(text) {
		return "", false
	}
	part = p.re.FindString(text)
	return part, p.empty || part != ""
}

// found is first of a text that is too short to be worth charging for.
func (p *pattern) found(s scalar) (part scalar, ok bool) {
	if s.kind != value.Text || len(s.text)*p.size > freeMatch {
		return s, false
	}
	text, ok := p.first(s.text)
	if !ok {
		return scalar{kind: value.Nil}, true
	}
	return textScalar(text), true
}

// groups is where the first match and its groups are, or nil.
func (p *pattern) groups(f *frame, s *site, text string) []int {
	f.step(s.offset, len(text)*p.size>>4)
	return p.re.FindStringSubmatchIndex(text)
}

// all is where up to n matches and their groups are, from left to right and without overlaps; n below 0: all.
//
// Each match may have been found only after reading on to the end of the text, as with `a.*b|a`, which makes the time
// quadratic. As long as even that is cheap, it is what is charged, and package regexp finds all of them in one go.
// Behind that each match is found alone, and charged by how far the search has read.
func (p *pattern) all(f *frame, s *site, text string, n int) [][]int {
	if n < 0 {
		n = math.MaxInt
	}
	cost := len(text) * p.size
	f.step(s.offset, cost>>4)
	limit := min(n, max(1, freeSearch/(cost+1)), f.memoryLeft()/p.matchSize()+1)
	found := p.re.FindAllStringSubmatchIndex(text, limit)
	f.step(s.offset, len(found)*(1+cost>>4))
	f.alloc(s.offset, len(found)*p.matchSize())
	if len(found) < limit || limit == n {
		return found
	}
	return p.others(f, s, text, n, found)
}

// others is what all finds behind what has been found.
func (p *pattern) others(f *frame, s *site, text string, n int, found [][]int) [][]int {
	pos, end := 0, -1 // of the present search, and of the last match
	if len(found) > 0 {
		end = found[len(found)-1][1]
		pos = end
	}
	r := &runes{f: f, s: s, whole: text, cost: max(p.size, 16)}
	for len(found) < n && pos <= len(text) {
		at := p.next(r, pos)
		if at == nil {
			break
		}
		empty := at[1] == pos
		if !empty || at[0] != end { // right behind a match there is no empty one
			f.alloc(s.offset, p.matchSize())
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

// matchSize is how many bytes of memory it takes to know where a match is.
func (p *pattern) matchSize() int { return 2*24 + 16*(1+p.re.NumSubexp()) }

// next is the first match that begins at pos or behind it.
func (p *pattern) next(r *runes, pos int) []int {
	r.f.step(r.s.offset, 10)
	if p.prefix != "" {
		i := strings.Index(r.whole[pos:], p.prefix)
		if i < 0 {
			r.f.step(r.s.offset, (len(r.whole)-pos)>>7)
			return nil
		}
		r.f.step(r.s.offset, i>>7)
		pos += i
	}
	if pos == 0 {
		r.at = 0
		return p.re.FindReaderSubmatchIndex(r)
	}
	_, width := utf8.DecodeLastRuneInString(r.whole[:pos])
	from := pos - width
	r.at = from
	at := p.behind().FindReaderSubmatchIndex(r)
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

// runes gives a search a text by its characters, and charges for each.
type runes struct {
	f     *frame
	s     *site
	whole string
	at    int
	cost  int // of a byte, in sixteenths of a step
	due   int
}

// ReadRune is what package regexp calls. The end of the budget passes through it as a panic, which leaves nothing behind
// there but a machine that its pool lacks.
func (r *runes) ReadRune() (c rune, width int, err error) {
	if r.at >= len(r.whole) {
		return 0, 0, io.EOF
	}
	c, width = utf8.DecodeRuneInString(r.whole[r.at:])
	r.at += width
	if r.due += width * r.cost; r.due >= 1<<12 {
		r.f.step(r.s.offset, r.due>>4)
		r.due = 0
	}
	return c, width, nil
}
