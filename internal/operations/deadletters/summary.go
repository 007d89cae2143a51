package deadletters

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
)

// Group is the letters with one cause: class, place and reason.
type Group struct {
	ID      string // of the cause: the same in every source and at any time
	Class   string
	Step    string
	Output  string
	Reason  string // the parts that differ between letters are …; the whole text if it does not differ
	Letters int64
	First   time.Time // when the first of them failed for the first time; zero: unknown
	Last    time.Time
	Times   Histogram
	Example Letter // the first that was read
}

// ID returns the id of the group that a cause belongs to.
func (c *Cause) ID() string {
	h := fnv.New32a()
	for _, part := range []string{c.Class, c.Place(), cause.Template(c.Reason())} {
		_, _ = h.Write([]byte(part + "\x00"))
	}
	return fmt.Sprintf("%06x", h.Sum32()&0xffffff)
}

// mostGroups bounds the groups of a summary.
const mostGroups = 1000

// Summary groups letters by cause. The zero value is empty.
type Summary struct {
	Letters int64
	Broken  int64  // records that are not messages; they are in no group
	Other   int64  // letters beyond the number of groups that a summary keeps
	Missing string // the place of the first broken record

	groups map[string]*Group
}

// Add counts a letter.
func (s *Summary) Add(l Letter) {
	if l.Broken != nil {
		if s.Broken++; s.Missing == "" {
			s.Missing = l.Where
		}
		return
	}
	s.Letters++
	id := l.Cause.ID()
	g := s.groups[id]
	switch {
	case g != nil:
		if l.Cause.Reason() != g.Reason {
			g.Reason = cause.Template(l.Cause.Reason())
		}
	case len(s.groups) >= mostGroups:
		s.Other++
		return
	default:
		g = &Group{ID: id, Class: l.Cause.Class, Step: l.Cause.Step, Output: l.Cause.Output, Reason: l.Cause.Reason(),
			Example: l}
		if s.groups == nil {
			s.groups = map[string]*Group{}
		}
		s.groups[id] = g
	}
	g.Letters++
	if t := l.Cause.FirstFailed; !t.IsZero() {
		if g.First.IsZero() || t.Before(g.First) {
			g.First = t
		}
		if t.After(g.Last) {
			g.Last = t
		}
		g.Times.Add(t)
	}
}

// Groups returns the groups, the largest first.
func (s *Summary) Groups() []*Group {
	all := make([]*Group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int { return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Place is "output NAME" or "step NAME", or "".
func (g *Group) Place() string {
	c := Cause{Step: g.Step, Output: g.Output}
	return c.Place()
}

// Histogram counts events in spans of time. The zero value is empty.
type Histogram struct {
	width int // index in widths
	at    map[int64]int64
}

// widths are the possible lengths of a histogram's spans.
var widths = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
	12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour}

// mostSpans bounds the spans that a histogram keeps.
const mostSpans = 2000

// Add counts an event.
func (h *Histogram) Add(t time.Time) {
	if h.at == nil {
		h.at = map[int64]int64{}
	}
	h.at[t.Truncate(widths[h.width]).Unix()]++
	if len(h.at) > mostSpans && h.width < len(widths)-1 {
		h.width++
		h.at = h.in(widths[h.width])
	}
}

// in returns the counts in spans of another width.
func (h *Histogram) in(width time.Duration) map[int64]int64 {
	at := map[int64]int64{}
	for t, n := range h.at {
		at[time.Unix(t, 0).Truncate(width).Unix()] += n
	}
	return at
}

// Bars returns the counts of at most most successive spans of equal width, from the first event to the last.
func (h *Histogram) Bars(most int) (begin time.Time, width time.Duration, counts []int64) {
	if len(h.at) == 0 {
		return time.Time{}, 0, nil
	}
	for i, width := range widths {
		if i < h.width {
			continue
		}
		at := h.in(width)
		first, last := int64(1<<62), int64(-1<<62)
		for t := range at {
			first, last = min(first, t), max(last, t)
		}
		n := (last-first)/int64(width/time.Second) + 1
		if n > int64(most) && i < len(widths)-1 {
			continue
		}
		counts = make([]int64, min(n, int64(most)))
		for t, k := range at {
			counts[min((t-first)/int64(width/time.Second), int64(most)-1)] += k
		}
		return time.Unix(first, 0).UTC(), width, counts
	}
	return time.Time{}, 0, nil
}
