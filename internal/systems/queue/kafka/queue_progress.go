package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// progress has the offsets of a partition that are done: all before at, and those in spans. Spans are sorted, and there is a gap
// before each of them.
type progress struct {
	at    int64
	spans []span
}

// span has the offsets from from up to, but not including, to.
type span struct{ from, to int64 }

// add records that the offsets from from up to, but not including, to are done.
func (p *progress) add(from, to int64) {
	if from = max(from, p.at); from >= to {
		return
	}
	i := p.firstEndingFrom(from)
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

// firstEndingFrom returns the index of the first span that ends at an offset or after it.
func (p *progress) firstEndingFrom(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.spans, offset, func(s span, offset int64) int { return cmp.Compare(s.to, offset) })
	return i
}

// isDone reports whether an offset is done.
func (p *progress) isDone(offset int64) bool {
	if offset < p.at {
		return true
	}
	i := p.firstEndingFrom(offset + 1)
	return i < len(p.spans) && p.spans[i].from <= offset
}

// left returns how many offsets before end are not done.
func (p *progress) left(end int64) int64 {
	n := max(end-p.at, 0)
	for _, s := range p.spans {
		n -= max(min(s.to, end)-s.from, 0)
	}
	return n
}

// last returns the offset after the last one that is done.
func (p *progress) last() int64 {
	if len(p.spans) > 0 {
		return p.spans[len(p.spans)-1].to
	}
	return p.at
}

const (
	encodedPrefix  = "flowd"
	longestEncoded = 4096 // bytes of metadata that brokers store with an offset (offset.metadata.max.bytes)
)

// encode returns the spans as metadata of a committed offset: alternately how many offsets are not done and how many are done.
// Spans for which there is no room are left out, and complete is false.
func (p *progress) encode() (text string, complete bool) {
	if len(p.spans) == 0 {
		return "", true
	}
	b, at := []byte(encodedPrefix), p.at
	for _, s := range p.spans {
		n := len(b)
		b = strconv.AppendInt(append(b, ' '), s.from-at, 36)
		b = strconv.AppendInt(append(b, ' '), s.to-s.from, 36)
		if len(b) > longestEncoded {
			return string(b[:n]), false
		}
		at = s.to
	}
	return string(b), true
}

// decodeProgress returns the progress that a group has committed. It ignores the metadata of other programs.
func decodeProgress(at int64, text string) progress {
	p := progress{at: at}
	words := strings.Fields(text)
	if len(words)%2 == 0 || words[0] != encodedPrefix || len(text) > longestEncoded {
		return p
	}
	for i := 1; i < len(words); i += 2 {
		skipped, err := count(words[i], at)
		if err == nil {
			at += skipped
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

// count parses a number of offsets that follow the offset after.
func count(text string, after int64) (int64, error) {
	n, err := strconv.ParseInt(text, 36, 64)
	if err == nil && (n < 1 || n > mostOffset-after) {
		err = fmt.Errorf("%d is not a valid number of offsets", n)
	}
	return n, err
}
