package engine

import (
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/flowd-io/flowd/schema"
)

// failures groups failed messages for the log and the report.
type failures struct {
	log     *slog.Logger
	secrets *schema.Secrets

	mu     sync.Mutex // guards the fields below
	groups []*FailureGroup
	index  map[failureKey]*FailureGroup
}

type failureKey struct {
	class Class
	place string
	fate  Fate
	late  bool // unfinished
}

// set takes over the failures of the plan before.
func (f *failures) set(all []FailureGroup) {
	f.index = map[failureKey]*FailureGroup{}
	for _, g := range all {
		f.groups = append(f.groups, &g)
		f.index[failureKey{g.First.Class, g.First.Place, g.Fate, g.First.Unfinished}] = &g
	}
}

// add takes down a failed message. The 1st, 10th, 100th … of a group is logged.
func (f *failures) add(m *Message, fate Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := failureKey{m.in.Err.Class, m.in.Err.Place(), fate, m.in.Err.Unfinished()}
	g := f.index[key]
	if g == nil {
		g = &FailureGroup{Fate: fate, First: f.describe(m)}
		if f.index == nil {
			f.index = map[failureKey]*FailureGroup{}
		}
		f.index[key] = g
		f.groups = append(f.groups, g)
	}
	if g.Count++; powerOfTen(g.Count) {
		d := f.describe(m)
		line, _, _ := strings.Cut(d.Message, "\n")
		log := f.log
		if d.Place != "" {
			log = log.With("place", d.Place)
		}
		what := "message failed: "
		if d.Unfinished {
			what = "message lost: "
		}
		log.Warn(what+line, "class", d.Class, "from", d.From, "fate", fate.String(), "so_far", g.Count, "sample", d.Sample)
	}
}

// count adds the failures by class.
func (f *failures) count(by map[Class]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		by[g.First.Class] += g.Count
	}
}

func (f *failures) all() []FailureGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]FailureGroup, len(f.groups))
	for i, g := range f.groups {
		all[i] = *g
	}
	return all
}

func (f *failures) describe(m *Message) Failure {
	body := m.in.Orig
	if body == nil {
		body = m.Bytes()
	}
	from := f.secrets.Mask(position(m.Input(), m.Meta, m.in.Part))
	return Failure{m.in.Err.Class, m.in.Err.Place(), m.in.Err.Error(), from, sample(f.secrets, body), m.in.Err.Unfinished()}
}

const (
	sampleSize = 80      // bytes of a payload that a report shows
	looked     = 4 << 10 // that are looked through for secrets, so that none is cut
)

// sample is the beginning of a payload, printable and without secrets.
func sample(secrets *schema.Secrets, body []byte) string {
	text, cut := secrets.Mask(string(body[:min(len(body), looked)])), ""
	if len(text) > sampleSize {
		text, cut = text[:sampleSize], "…"
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
	}
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return clean + cut
}
