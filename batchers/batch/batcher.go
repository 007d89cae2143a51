package batch

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/linked"
)

// batcher holds the open batches. All have the same timeout, so they are due in the order in which they were opened,
// and a list can replace a heap.
type batcher struct {
	Config
	keyOf  func(*engine.Message) string
	open   map[string]*open  // by batch key; "" if there is no key, since a key's text is never empty
	opened linked.List[open] // in the order of opening
	used   linked.List[open] // least recently used first; only maintained with MaxKeys
}

func newBatcher(c Config, keyOf func(*engine.Message) string) *batcher {
	return &batcher{
		Config: c,
		keyOf:  keyOf,
		open:   map[string]*open{},
		opened: linked.List[open]{Place: func(o *open) *linked.Place[open] { return &o.opened }},
		used:   linked.List[open]{Place: func(o *open) *linked.Place[open] { return &o.used }},
	}
}

// open is a batch that is still growing.
type open struct {
	key   string
	batch *engine.Batch
	n     int
	bytes int64
	due   time.Time

	opened, used linked.Place[open] // in the batcher's lists of these names
}

// Add moves each message into the open batch of its key. If its flush condition can't be evaluated, the message fails
// and stays in b.
func (s *batcher) Add(b *engine.Batch, now time.Time, emit engine.Emit) {
	for m := range b.All() {
		last, err := s.completes(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		size, key := s.sizeOf(m), s.keyOf(m)
		o := s.open[key]
		if o != nil && s.Bytes > 0 && o.bytes+size > int64(s.Bytes) {
			s.emit(o, engine.ByBytes, emit)
			o = nil
		}
		if o == nil {
			o = s.start(b, key, now, emit)
		} else if s.MaxKeys > 0 {
			s.used.Remove(o)
			s.used.Append(o)
		}
		o.batch.Move(m)
		o.n++
		o.bytes += size
		switch {
		case last:
			s.emit(o, engine.ByFlush, emit)
		case s.Size > 0 && o.n >= s.Size:
			s.emit(o, engine.BySize, emit)
		case s.Bytes > 0 && o.bytes >= int64(s.Bytes):
			s.emit(o, engine.ByBytes, emit)
		}
	}
}

// Due returns when the oldest open batch reaches its timeout.
func (s *batcher) Due() time.Time {
	if s.opened.Front == nil {
		return time.Time{}
	}
	return s.opened.Front.due
}

// Flush emits open batches in the order of opening: until n messages have left, or all that are due.
func (s *batcher) Flush(now time.Time, why engine.Trigger, n int, emit engine.Emit) {
	for left := 0; s.opened.Front != nil; {
		o := s.opened.Front
		switch {
		case why == engine.ByTimeout && now.Before(o.due):
			return
		case why != engine.ByTimeout && n >= 0 && left >= n:
			return
		}
		left += o.n
		s.emit(o, why, emit)
	}
}

// start opens a batch for a key. It evicts first, so that there are never more than MaxKeys batches.
func (s *batcher) start(b *engine.Batch, key string, now time.Time, emit engine.Emit) *open {
	if s.MaxKeys > 0 && len(s.open) >= s.MaxKeys {
		s.emit(s.used.Front, engine.ByEvicted, emit)
	}
	o := &open{key: key, batch: b.Open(), due: now.Add(s.Timeout)}
	s.open[key] = o
	s.opened.Append(o)
	if s.MaxKeys > 0 {
		s.used.Append(o)
	}
	return o
}

func (s *batcher) emit(o *open, why engine.Trigger, emit engine.Emit) {
	delete(s.open, o.key)
	s.opened.Remove(o)
	if s.MaxKeys > 0 {
		s.used.Remove(o)
	}
	emit(o.batch, why)
}

// completes reports whether m is the last message of its batch.
func (s *batcher) completes(m *engine.Message) (bool, error) {
	if s.Config.Flush.IsZero() {
		return false, nil
	}
	return s.Config.Flush.Test(m)
}

// sizeOf returns the payload's size if the batch has a size limit, else 0: computing it splices pending edits.
func (s *batcher) sizeOf(m *engine.Message) int64 {
	if s.Bytes == 0 {
		return 0
	}
	return int64(m.Size())
}
