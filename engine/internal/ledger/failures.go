package ledger

import (
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/schema"
)

// failures counts failed messages by group, for the log and the report. It is safe for concurrent use.
type failures struct {
	Log     *slog.Logger
	Secrets *schema.Secrets

	mu      sync.Mutex // guards the fields below
	groups  []*FailureGroup
	index   map[failureKey]*FailureGroup
	reasons map[failureKind]int // groups
}

// maxReasons bounds the groups of a class, place and fate: further reasons share one more group.
const maxReasons = 20

type failureKey struct {
	failureKind
	reason uint64 // by [cause.Reason]; 0: the reasons beyond maxReasons
}

type failureKind struct {
	class engine.Class
	place string
	fate  engine.Fate
	late  bool // unfinished
}

func (g *FailureGroup) kind() failureKind {
	return failureKind{g.First.Class, g.First.Place, g.Fate, g.First.Unfinished}
}

// Set takes over the failures of the plan that this one replaces.
func (f *failures) Set(all []FailureGroup) {
	for _, g := range all {
		f.put(&g)
	}
}

// put adds a group. f.mu is held.
func (f *failures) put(g *FailureGroup) {
	if f.index == nil {
		f.index, f.reasons = map[failureKey]*FailureGroup{}, map[failureKind]int{}
	}
	f.groups = append(f.groups, g)
	f.index[failureKey{g.kind(), g.reason}] = g
	f.reasons[g.kind()]++
}

// group finds or makes the group of a failed message. f.mu is held.
func (f *failures) group(m *engine.Message, fate engine.Fate) *FailureGroup {
	e := msg(m).Err
	key := failureKey{failureKind: failureKind{e.Class, e.Place(), fate, e.Unfinished()}}
	if e.Err != nil {
		key.reason = cause.Reason(e.Err.Error())
	}
	if g := f.index[key]; g != nil {
		return g
	}
	if f.reasons[key.failureKind] >= maxReasons {
		if key.reason = 0; f.index[key] != nil {
			return f.index[key]
		}
	}
	f.put(&FailureGroup{Fate: fate, First: f.describe(m), reason: key.reason, Others: f.reasons[key.failureKind] >= maxReasons})
	return f.index[key]
}

// Add counts a failed message. It logs the 1st, 10th, 100th … message of a group.
func (f *failures) Add(m *engine.Message, fate engine.Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.group(m, fate)
	if g.Count++; guard.PowerOfTen(g.Count) {
		d := f.describe(m)
		line, _, _ := strings.Cut(d.Message, "\n")
		log := f.Log
		if d.Place != "" {
			log = log.With("place", d.Place)
		}
		what := "message failed: "
		switch {
		case d.Unfinished && fate == engine.DeadLettered:
			what = "unfinished message dead-lettered: "
		case d.Unfinished:
			what = "message lost: "
		}
		log.Warn(what+line, "class", d.Class, "from", d.From, "fate", fate.String(), "so_far", g.Count, "sample",
			d.Sample)
	}
}

// Count adds the failures by class.
func (f *failures) Count(by map[engine.Class]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		by[g.First.Class] += g.Count
	}
}

func (f *failures) All() []FailureGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]FailureGroup, len(f.groups))
	for i, g := range f.groups {
		all[i] = *g
	}
	return all
}

func (f *failures) describe(m *engine.Message) Failure {
	body := msg(m).Orig
	if body == nil {
		body = m.Bytes()
	}
	from := f.Secrets.Mask(Position(m.Input(), m.Meta, msg(m).Part))
	e := m.Err()
	return Failure{
		Class: e.Class, Place: e.Place(), Message: e.Error(), From: from,
		Sample: sample(f.Secrets, body), Unfinished: e.Unfinished(),
	}
}

const (
	sampleSize = 80      // bytes of a payload that a report shows
	looked     = 4 << 10 // bytes that are searched for secrets, more than sampleSize so that none is cut in half
)

// sample is the beginning of a payload, with secrets masked and control characters replaced.
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

// Failure describes a failed message.
type Failure struct {
	Class   engine.Class
	Place   string // "step check", "output lake"
	Message string
	From    string // "input log, path access.log, line 17"
	Sample  string // the beginning of the payload

	Unfinished bool // it did not fail: the pipeline stopped, and its source can't redeliver it
}

// FailureGroup counts failures of one class and fate at one place, for the same reason.
type FailureGroup struct {
	Count  int64
	Fate   engine.Fate
	First  Failure
	Others bool // they have different reasons: too many to count each

	reason uint64
}
