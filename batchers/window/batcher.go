package window

import (
	"log/slog"
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/linked"
)

// batcher holds the windows that have not closed, by key. All times are in nanoseconds since 1970.
type batcher struct {
	Config
	timed bool // windows close by the time of events, else by the clock
	keyOf func(*engine.Message) string
	keys  map[string]*key // by batch key; "" if there is no key, since a key's text is never empty
	seen  int64           // the latest event time, or the clock's time

	closing heap                // open windows
	left    heap                // windows without messages: all have left, in parts
	opened  linked.List[window] // open windows, in the order of opening
	used    linked.List[key]    // keys with open windows, least recently used first
	inUse   int                 // length of used
	serial  uint64              // of the last window opened
	count   uint64              // messages added to sessions so far
	maxLeft int                 // see the constant

	// New windows count their parts from floor until floorUntil: forgetting a window early raises floor, so that no
	// two parts have the same number. Numbers may be skipped.
	floor      int
	floorUntil int64

	warning warning
}

// key is a batch key with its windows.
type key struct {
	text    string
	windows []*window         // sorted by start, and therefore by end
	open    int               // how many of them have messages
	link    linked.Place[key] // in batcher.used
}

// window is a window that has not closed yet.
type window struct {
	key        *key
	start, end int64                // the end of a session grows, and its start may move back
	batch      *engine.Batch        // nil: all messages so far have left
	n          int                  // messages in batch
	arrived    []uint64             // of a session: batcher.count at each arrival, in the order of batch
	mixed      bool                 // batch is not in the order of arrival
	part       int                  // number of the next part, from 1
	opened     uint64               // value of batcher.serial when it was opened
	at         int                  // index in batcher.closing or, without a batch, in batcher.left; -1: in neither
	link       linked.Place[window] // in batcher.opened
}

// maxLeft bounds the windows that are only kept for their part numbers.
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

// Add moves each message into its windows. A message without a time, or whose windows have closed, fails and stays in
// b.
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

// Due returns when the next window closes, or zero if windows close by the time of events.
func (s *batcher) Due() time.Time {
	if w := s.closing.top(s.closes); w != nil && !s.timed {
		return time.Unix(0, s.closes(w))
	}
	return time.Time{}
}

// Flush emits the windows that the clock closes, or open windows in the order of opening, until n messages have left.
// The batcher remembers those windows until they close: later messages form their next part.
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

// advance closes the windows that are over at a time, in order.
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

// closes returns when w closes.
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
