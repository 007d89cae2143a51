// Package logsum keeps a log from being flooded: anyone who can provoke a line, by a
// message, a request or a beat, can provoke a million. Start at [Handler].
//
// A cause is a line with all its values; its kind is the place in the code that logs it,
// with the attributes of the logger. The first lines of a cause are logged at once.
// Repetitions are counted, and reported every ten seconds: how often, and over how long.
// This covers equal causes; of those that differ in their values, a kind logs a limited
// number in ten seconds, and the number of the others. So neither the log nor memory grows
// with what others send.
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
	every     = 10 * time.Second // sums are logged
	atOnce    = 3                // lines of a cause, within that
	mostLines = 32               // of a kind, within that
	mostKinds = 1000             // that are kept apart
	longest   = 16 << 10         // bytes of one value
)

// Handler passes records on to another handler, and sums up what repeats. It is safe for
// concurrent use; those made of it by With share its sums.
type Handler struct {
	next slog.Handler
	with uint64 // represents the attributes of the logger
	all  *sums
}

var _ slog.Handler = (*Handler)(nil)

// New makes a handler before another one.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, all: &sums{kinds: map[kindKey]*kind{}, seed: maphash.MakeSeed()}}
}

type each struct{}

// Each is the context of lines that are wanted individually, such as those of the step
// `log`.
// Whoever logs them bounds them.
var Each = context.WithValue(context.Background(), each{}, true)

// Enabled is that of the wrapped handler.
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

// WithAttrs is that of the wrapped handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.all.hash(h.with, "", attrs...), h.all}
}

// WithGroup is that of the wrapped handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.all.hash(h.with, name), h.all}
}

// Flush logs the sums that are due later: the process ends.
func (h *Handler) Flush() { h.all.tell(time.Now(), true) }

// trimmed is a record without what would make its line too long.
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

// rewritten is a record with other values.
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

// sums are what was left out.
type sums struct {
	seed maphash.Seed

	mu    sync.Mutex // guards the fields below
	kinds map[kindKey]*kind
	armed bool // tell is due
}

type kindKey struct {
	pc   uintptr
	with uint64
}

// kind is a place that logs, with what its logger has been given.
type kind struct {
	next   slog.Handler
	since  time.Time // the first line that is counted below
	lines  int       // passed on since
	causes map[uint64]*cause
	others int // causes that there was no room for
	like   string
	level  slog.Level
}

// cause is a line that may repeat.
type cause struct {
	first, since time.Time // since: the first that is counted in times
	lines        int       // passed on
	times        int       // left out
	sample       slog.Record
}

// admits reports whether a record is passed on; else it is counted.
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
				if v = v.Resolve(); v.Kind() == slog.KindAny { // whose owner may change it
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

// kind finds a kind or begins with it; s.mu is held.
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
		time.AfterFunc(every, func() { s.tell(time.Now(), false) })
	}
	return k
}

// told is a sum on its way to its handler.
type told struct {
	to     slog.Handler
	record slog.Record
}

// tell passes the sums on, and forgets what does not repeat. At the end it is called early.
func (s *sums) tell(now time.Time, early bool) {
	var due []told
	s.mu.Lock()
	for key, k := range s.kinds {
		due = append(due, k.due(now)...)
		if len(k.causes) == 0 {
			delete(s.kinds, key)
		}
	}
	if !early {
		if s.armed = len(s.kinds) > 0; s.armed {
			time.AfterFunc(every, func() { s.tell(time.Now(), false) })
		}
	}
	s.mu.Unlock()
	for _, t := range due { // what is logged meanwhile need not wait for the console
		_ = t.to.Handle(context.Background(), t.record)
	}
}

// due are the sums of a kind, whose counts start over.
func (k *kind) due(now time.Time) (all []told) {
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

// over is how long something lasted, as people read it.
func over(now, since time.Time) time.Duration {
	return max(now.Sub(since), time.Millisecond).Round(time.Millisecond)
}

// hash represents a text and attributes, after those of another hash.
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
