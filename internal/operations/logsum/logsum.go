// Package logsum keeps a log from being flooded: anyone who can cause one line, with a message, a request or a
// heartbeat, can cause a million. Start at [Handler].
//
// A cause is a line with all its values. Its kind is the place in the code that logs it, with the attributes of the
// logger. The first lines of a cause are logged at once. Repetitions are counted, and reported every ten seconds: how
// many, and over how long. Lines that differ in their values are different causes: every ten seconds, a kind logs a
// limited number of them, and counts the rest. So neither the log nor memory grows with what others send.
package logsum

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	every     = 10 * time.Second // between reports of sums
	atOnce    = 3                // lines of a cause, per report
	mostLines = 32               // lines of a kind, per report
	mostKinds = 1000             // kinds with counts of their own
	longest   = 16 << 10         // bytes of one value
)

// Handler passes records on to another handler, and sums up repetitions. It is safe for concurrent use. Handlers
// derived by With share the sums.
type Handler struct {
	next slog.Handler
	with uint64 // a hash of the logger's attributes
	all  *sums
}

var _ slog.Handler = (*Handler)(nil)

// New makes a handler that passes records on to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, all: &sums{kinds: map[kindKey]*kind{}, seed: maphash.MakeSeed()}}
}

type each struct{}

// Each is a context for lines that must not be summed up, such as those of the step `log`. The caller bounds them.
var Each = EachIn(context.Background())

// EachIn is [Each] for lines that belong to a call, whose trace is in ctx.
func EachIn(ctx context.Context) context.Context { return context.WithValue(ctx, each{}, true) }

// Enabled asks the next handler.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle passes a record on, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(each{}) == nil {
		r = trimmed(r)
		if !h.all.admits(h, &r, time.Now()) {
			return nil
		}
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs adds attributes to the next handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.all.hash(h.with, "", attrs...), h.all}
}

// WithGroup adds a group to the next handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.all.hash(h.with, name), h.all}
}

// Flush logs all sums at once: the process ends.
func (h *Handler) Flush() { h.all.report(time.Now(), true) }

// trimmed shortens values that would make the line too long.
func trimmed(r slog.Record) slog.Record {
	long := len(r.Message) > longest
	r.Attrs(func(a slog.Attr) bool {
		long = long || a.Value.Kind() == slog.KindString && len(a.Value.String()) > longest
		return !long
	})
	if !long {
		return r
	}
	return rewritten(&r, func(v slog.Value) slog.Value {
		if v.Kind() == slog.KindString {
			v = slog.StringValue(cut(v.String()))
		}
		return v
	})
}

// rewritten returns a record with other values.
func rewritten(r *slog.Record, value func(slog.Value) slog.Value) slog.Record {
	s := slog.NewRecord(r.Time, r.Level, cut(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		s.AddAttrs(slog.Attr{Key: a.Key, Value: value(a.Value)})
		return true
	})
	return s
}

func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// sums counts the lines that were left out.
type sums struct {
	seed maphash.Seed

	mu    sync.Mutex // guards the fields below
	kinds map[kindKey]*kind
	armed bool // a report is due
}

type kindKey struct {
	pc   uintptr
	with uint64
}

// kind is a place that logs, with the attributes of its logger.
type kind struct {
	next   slog.Handler
	since  time.Time // time of the first line counted below
	lines  int       // lines passed on since then
	causes map[uint64]*cause
	others int // causes beyond the limit
	like   string
	level  slog.Level
}

// cause is a line that may repeat.
type cause struct {
	first, since time.Time // since: time of the first line counted in times
	lines        int       // passed on
	times        int       // left out
	sample       slog.Record
}

// admits reports whether a record is passed on. Otherwise it counts the record.
func (s *sums) admits(h *Handler, r *slog.Record, now time.Time) bool {
	var attrs [16]slog.Attr
	all := attrs[:0]
	r.Attrs(func(a slog.Attr) bool { all = append(all, a); return true })
	id := s.hash(uint64(r.Level), r.Message, all...)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(kindKey{r.PC, h.with}, h.next, now)
	c := k.causes[id]
	switch {
	case c == nil && max(k.lines, len(k.causes)) >= mostLines:
		k.others++
		k.like, k.level = r.Message, max(k.level, r.Level)
		return false
	case c == nil:
		c = &cause{first: now}
		k.causes[id] = c
	case c.lines >= atOnce || k.lines >= mostLines:
		if c.times++; c.times == 1 {
			c.since = now
			c.sample = rewritten(r, func(v slog.Value) slog.Value {
				if v = v.Resolve(); v.Kind() == slog.KindAny { // its owner may change the value
					v = slog.StringValue(cut(v.String()))
				}
				return v
			})
		}
		return false
	}
	c.lines++
	k.lines++
	return true
}

// kind finds or adds a kind. s.mu is held.
func (s *sums) kind(key kindKey, next slog.Handler, now time.Time) *kind {
	k := s.kinds[key]
	if k == nil && len(s.kinds) >= mostKinds {
		key = kindKey{}
		k = s.kinds[key]
	}
	if k == nil {
		k = &kind{next: next, since: now, causes: map[uint64]*cause{}}
		s.kinds[key] = k
	}
	if !s.armed {
		s.armed = true
		time.AfterFunc(every, func() { s.report(time.Now(), false) })
	}
	return k
}

// told is a sum on its way to its handler.
type told struct {
	to     slog.Handler
	record slog.Record
}

// report logs the sums, and forgets causes that do not repeat. At the end of the process it is called early.
func (s *sums) report(now time.Time, early bool) {
	var due []told
	s.mu.Lock()
	for key, k := range s.kinds {
		due = append(due, k.dueSums(now)...)
		if len(k.causes) == 0 {
			delete(s.kinds, key)
		}
	}
	if !early {
		if s.armed = len(s.kinds) > 0; s.armed {
			time.AfterFunc(every, func() { s.report(time.Now(), false) })
		}
	}
	s.mu.Unlock()
	for _, t := range due { // lines logged meanwhile need not wait for the console
		_ = t.to.Handle(context.Background(), t.record)
	}
}

// dueSums returns the sums of a kind, and resets its counts.
func (k *kind) dueSums(now time.Time) (all []told) {
	for id, c := range k.causes {
		if c.times > 0 {
			c.sample.Time = now
			c.sample.AddAttrs(slog.Int("repeated", c.times), slog.Duration("over", over(now, c.since)))
			all = append(all, told{k.next, c.sample})
			c.times, c.sample = 0, slog.Record{}
			c.first = now
		} else if now.Sub(c.first) >= every {
			delete(k.causes, id)
		}
	}
	if k.others > 0 {
		r := slog.NewRecord(now, k.level, "lines were left out: there were too many of their kind", 0)
		r.AddAttrs(slog.String("like", k.like), slog.Int("lines", k.others), slog.Duration("over", over(now, k.since)))
		all = append(all, told{k.next, r})
	}
	k.lines, k.others, k.like, k.level, k.since = 0, 0, "", 0, now
	return all
}

// over formats how long something lasted.
func over(now, since time.Time) time.Duration {
	return max(now.Sub(since), time.Millisecond).Round(time.Millisecond)
}

// hash combines another hash with a text and attributes.
func (s *sums) hash(behind uint64, text string, attrs ...slog.Attr) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	maphash.WriteComparable(&h, behind)
	_, _ = h.WriteString(text)
	for _, a := range attrs {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(a.Key)
		_ = h.WriteByte('=')
		_, _ = h.WriteString(a.Value.Resolve().String())
	}
	return h.Sum64()
}
