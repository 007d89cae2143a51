package pipetest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// takesBack maps the words of a test to what its inputs can redeliver.
var takesBack = map[string]engine.TakesBack{"one": engine.TakesOne, "position": engine.TakesPosition,
	"nothing": engine.TakesNothing}

// source replaces one input. It reads what feed puts into it.
type source struct {
	traits engine.Traits
	made   made
	wake   chan struct{} // room for one

	mu      sync.Mutex // guards the fields below
	queue   []int      // indexes of input
	input   []config.TestInput
	ended   bool
	results map[int]engine.Result // by index of input
}

func newSource(t config.Test) *source {
	s := &source{traits: engine.Traits{TakesBack: takesBack[t.TakesBack], Delays: t.MaxDelay}, input: t.Input,
		wake: make(chan struct{}, 1), results: map[int]engine.Result{}}
	s.made.doc.Reset([]byte("{}"), nil)
	s.made.counters = engine.CountersOf(nil, "")
	return s
}

var _ engine.Traited = (*source)(nil)

// Read returns the available messages.
func (s *source) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for {
		n, err := s.take(b)
		if n > 0 || err != nil {
			return s, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return s, nil
		}
	}
}

func (s *source) take(b *engine.Batch) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; len(s.queue) > 0 && b.Room() > 0; n++ {
		in := s.input[s.queue[0]]
		s.made.n++
		body, err := s.made.payload(&in)
		m := b.Add(body)
		if err != nil {
			m.Fail(err)
		}
		m.Ref, m.Attempt, m.Meta = uint64(s.queue[0]), in.Attempt, metaOf(in)
		s.queue = s.queue[1:]
	}
	if n == 0 && s.ended {
		return 0, engine.ErrEnd
	}
	return n, nil
}

// made evaluates payloads that are expressions.
type made struct {
	doc      doc.Doc
	n        int
	counters *engine.Counters
}

var _ engine.Counting = (*made)(nil)

// Document returns an empty document.
func (s *made) Document() *doc.Doc { return &s.doc }

// Number returns the number of the message.
func (s *made) Number() int { return s.n }

// Count counts by name.
func (s *made) Count(name string) (int, error) { return s.counters.Next(name) }

func (s *made) payload(in *config.TestInput) ([]byte, error) {
	if in.Expr.IsZero() {
		return in.Bytes(), nil
	}
	return in.Expr.AppendBody(nil, s)
}

// metaOf returns a message's metadata, as the input's own.
func metaOf(in config.TestInput) (m engine.Meta) {
	if in.Meta.Len() == 0 {
		return m
	}
	for name, v := range in.Meta.All() {
		m = m.With(name, decoded(v))
	}
	return m.Own()
}

// decoded decodes JSON text that was checked when it was read.
func decoded(v config.JSON) any {
	value, _ := doc.Decode(v)
	return value
}

// Traits reports what the test says.
func (s *source) Traits() engine.Traits { return s.traits }

// Ack records the fates of messages.
func (s *source) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		s.results[int(r.Ref)] = r
	}
	return nil, nil
}

func (s *source) put(queue []int, end bool) {
	s.mu.Lock()
	s.queue = append(s.queue, queue...)
	s.ended = s.ended || end
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// feed puts the messages of the test into its inputs, each at its time, until all are read or ctx ends. If several
// inputs have messages at the same time, they read them one after the other, so that every run has the same order.
func (s *stage) feed(ctx context.Context) {
	start, input, until := time.Now(), s.Test.Input, s.Test.Until
	order := make([]int, len(input))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(input[a].At, input[b].At) })
	for len(order) > 0 {
		first, n := input[order[0]], 1
		for n < len(order) && input[order[n]].At == first.At && input[order[n]].Input == first.Input {
			n++
		}
		if timing.Sleep(ctx, time.Until(start.Add(first.At))) != nil {
			return
		}
		synctest.Wait()
		s.source(first.Input).put(order[:n], false)
		order = order[n:]
	}
	if until > 0 && timing.Sleep(ctx, time.Until(start.Add(until))) != nil {
		return
	}
	for _, in := range s.sources {
		in.put(nil, true)
	}
}

// source returns the source with a name, or the only one.
func (s *stage) source(name string) *source {
	if in := s.sources[name]; in != nil {
		return in
	}
	for _, in := range s.sources {
		return in
	}
	return nil
}
