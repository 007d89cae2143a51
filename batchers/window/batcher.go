package window

import (
	"log/slog"
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/linked"
)

// batcher holds the windows that have not closed, by key. All times are in
// nanoseconds since 1970.
type batcher struct {
	Config
	timed bool // windows close by the events' time, else by the clock
	keyOf func(*engine.Message) string
	keys  map[string]*key // by batch key; "" without one: the text of a key is never empty
	seen  int64           // the latest event's time, or the clock's

	closing heap                // the open windows
	left    heap                // those whose messages have all left, in parts
	opened  linked.List[window] // the open windows, first opened in front
	used    linked.List[key]    // the keys with open windows, least recently used in front
	inUse   int                 // how many they are
	serial  uint64              // of the last window opened
	count   uint64              // messages that came into sessions
	maxLeft int                 // see the constant

	// Parts count from floor until all windows have closed that were forgotten
	// before: a part may lack a number before it, but no two have the same.
	floor      int
	floorUntil int64

	warning warning
}

// key is a batch key with its windows.
type key struct {
	text    string
	windows []*window         // by start, and by end
	open    int               // how many of them have messages
	link    linked.Place[key] // in batcher.used
}

// window has not closed yet.
type window struct {
	key        *key
	start, end int64                // of a session: the end grows, and the start may move back
	batch      *engine.Batch        // nil: what has arrived so far has left
	n          int                  // messages in it
	arrived    []uint64             // of a session: batcher.count when each arrived, in the order of batch
	mixed      bool                 // they are not in this order
	part       int                  // its number, from 1
	opened     uint64               // batcher.serial at the time
	at         int                  // in batcher.closing, or without a batch in batcher.left; -1: new
	link       linked.Place[window] // in batcher.opened
}

// maxLeft bounds the windows that are known for their parts alone.
const maxLeft = 1 << 16

func newBatcher(c Config, keyOf func(*engine.Message) string, log *slog.Logger) *batcher {
	return &batcher{
		Config:  c,
		timed:   !c.Time.IsZero(),
		keyOf:   keyOf,
		keys:    map[string]*key{},
		seen:    math.MinInt64,
		maxLeft: maxLeft,
		opened:  linked.List[window]{Place: func(w *window) *linked.Place[window] { return &w.link }},
		used:    linked.List[key]{Place: func(k *key) *linked.Place[key] { return &k.link }},
		warning: warning{log: log},
	}
}

// Add moves each message into its windows. One that has no time, or whose windows have
// closed, fails and stays.
func (s *batcher) Add(b *engine.Batch, now time.Time, emit engine.Emit) {
	at := now.UnixNano()
	if !s.timed {
		s.advance(at, emit)
	}
	for m := range b.All() {
		if s.timed {
			var err error
			if at, err = s.timeOf(m, now); err != nil {
				m.Fail(err)
				continue
			}
			s.advance(max(at, s.seen), emit)
		}
		if s.Session > 0 {
			s.addToSession(b, m, at, emit)
		} else {
			s.addToWindows(b, m, at, emit)
		}
	}
	s.rest(now)
}

// Due is when the next window closes. By the events' time no clock closes any.
func (s *batcher) Due() time.Time {
	if w := s.closing.top(s.closes); w != nil && !s.timed {
		return time.Unix(0, s.closes(w))
	}
	return time.Time{}
}

// Flush emits the windows that the clock closes, or open ones, first opened first, until n
// messages have left. Those stay known until they close: what arrives then is their next
// part.
func (s *batcher) Flush(now time.Time, why engine.Trigger, n int, emit engine.Emit) {
	if why == engine.ByTimeout {
		if !s.timed {
			s.advance(now.UnixNano(), emit)
		}
		return
	}
	for left := 0; s.opened.Front != nil && (n < 0 || left < n); {
		w := s.opened.Front
		left += w.n
		s.leave(w, why, emit)
	}
	s.rest(now)
}

// advance closes what has closed when it is now, in order of time.
func (s *batcher) advance(now int64, emit engine.Emit) {
	if now == s.seen {
		return
	}
	s.seen = now
	for w := s.closing.top(s.closes); w != nil && s.closes(w) <= now; w = s.closing.top(s.closes) {
		batch := s.shut(w)
		s.forget(w)
		emit(batch, engine.ByTimeout)
	}
	for w := s.left.top(s.closes); w != nil && s.closes(w) <= now; w = s.left.top(s.closes) {
		s.left.remove(w)
		s.forget(w)
	}
	if s.floorUntil <= now {
		s.floor = 0
	}
}

// closes is when w closes.
func (s *batcher) closes(w *window) int64 { return w.end + int64(s.Lateness) }

// closed reports whether a window with this end has closed.
func (s *batcher) closed(end int64) bool { return s.timed && end+int64(s.Lateness) <= s.seen }

// addToWindows puts m into each window around its time that has not closed.
func (s *batcher) addToWindows(b *engine.Batch, m *engine.Message, at int64, emit engine.Emit) {
	every, step, offset := int64(s.Every), int64(s.step()), int64(s.Offset)
	last := floor(at-offset, step) + offset
	first := last - (every-1-(at-last))/step*step
	for s.closed(first + every) {
		if first == last {
			m.Fail(s.late(at, last+every))
			return
		}
		first += step
	}
	k := s.use(m, emit)
	for start := first; ; start += step {
		w := s.fixed(b, k, start, start+every)
		w.n++
		if start == last {
			w.batch.Move(m)
			return
		}
		w.batch.Copy(m)
	}
}

func (s *batcher) late(at, end int64) error {
	return engine.Errorf(engine.Late,
		"the event of %s is late: its window ended at %s, and an event of %s has been seen (raise lateness, or set engine.workers to 1 when "+
			"workers overtake each other)", text(at), text(end), text(s.seen))
}
