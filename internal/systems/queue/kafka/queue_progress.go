package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// progress is the offsets of a partition that are done with: all before at, and the spans after it. Spans are sorted
// and do not touch.
type progress struct {
	at    int64
	spans []span
}

// span is the offsets of a half-open interval.
type span struct{ from, to int64 }

// add notes that the offsets of a half-open interval are done with.
func (p *progress) add(from, to int64) {
	if from = max(from, p.at); from >= to {
		return
	}
	i := p.behind(from)
	j := i
	for ; j < len(p.spans) && p.spans[j].from <= to; j++ {
		from, to = min(from, p.spans[j].from), max(to, p.spans[j].to)
	}
	if from == p.at {
		p.at = to
		p.spans = slices.Delete(p.spans, 0, j)
		return
	}
	p.spans = slices.Replace(p.spans, i, j, span{from, to})
}

// behind is the index of the first span that ends at an offset or after it.
func (p *progress) behind(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.spans, offset, func(s span, offset int64) int { return cmp.Compare(s.to, offset) })
	return i
}

// has reports whether an offset is done with.
func (p *progress) has(offset int64) bool {
	if offset < p.at {
		return true
	}
	i := p.behind(offset + 1)
	return i < len(p.spans) && p.spans[i].from <= offset
}

// left is how many offsets before an end are not done with.
func (p *progress) left(end int64) int64 {
	n := max(end-p.at, 0)
	for _, s := range p.spans {
		n -= max(min(s.to, end)-s.from, 0)
	}
	return n
}

// last is where the last offset that is done with ends.
func (p *progress) last() int64 {
	if len(p.spans) > 0 {
		return p.spans[len(p.spans)-1].to
	}
	return p.at
}

const (
	noteForm = "flowd" // begins a note
	longest  = 4096    // bytes that brokers keep with a position (offset.metadata.max.bytes)
)

// note is the spans as what is kept with the position of a group: how many offsets are left out, how many are done
// with, and so on. Spans for which there is no room are left out, and whole is false.
func (p *progress) note() (text string, whole bool) {
	if len(p.spans) == 0 {
		return "", true
	}
	b, at := []byte(noteForm), p.at
	for _, s := range p.spans {
		n := len(b)
		b = strconv.AppendInt(append(b, ' '), s.from-at, 36)
		b = strconv.AppendInt(append(b, ' '), s.to-s.from, 36)
		if len(b) > longest {
			return string(b[:n]), false
		}
		at = s.to
	}
	return string(b), true
}

// noted is the progress that a group has committed. The note of another program is ignored.
func noted(at int64, text string) progress {
	p := progress{at: at}
	words := strings.Fields(text)
	if len(words)%2 == 0 || words[0] != noteForm || len(text) > longest {
		return p
	}
	for i := 1; i < len(words); i += 2 {
		out, err := count(words[i], at)
		if err == nil {
			at += out
			var done int64
			if done, err = count(words[i+1], at); err == nil {
				p.add(at, at+done)
				at += done
			}
		}
		if err != nil {
			return progress{at: p.at}
		}
	}
	return p
}

// count is a number of offsets after an offset.
func count(text string, behind int64) (int64, error) {
	n, err := strconv.ParseInt(text, 36, 64)
	if err == nil && (n < 1 || n > mostOffset-behind) {
		err = fmt.Errorf("%d is not a number of offsets", n)
	}
	return n, err
}
