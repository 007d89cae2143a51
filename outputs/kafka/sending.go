package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sending has the records of a write, and their results.
type sending struct {
	*output
	records []kgo.Record
	msgs    []*engine.Message // those of the records
	indexes []int             // see all
	errs    map[int]error     // of the records that have failed; nil: none

	clients   []*kgo.Client   // that sent
	known     map[string]bool // see knowing
	forgotten []string        // topics that are gone
}

// sendings recycles the memory of writes that no client uses any more.
var sendings = sync.Pool{New: func() any { return new(sending) }}

// newSending returns a sending with room for n records.
func (o *output) newSending(n int) *sending {
	s := sendings.Get().(*sending)
	s.output, s.records, s.msgs = o, slices.Grow(s.records, n), slices.Grow(s.msgs, n)
	return s
}

// recycle recycles a sending whose records are all confirmed.
func (s *sending) recycle() {
	clear(s.records)
	clear(s.msgs)
	clear(s.clients)
	*s = sending{records: s.records[:0], msgs: s.msgs[:0], indexes: s.indexes, clients: s.clients[:0]}
	sendings.Put(s)
}

// ordered reports whether some messages have an order to keep.
func (s *sending) ordered() bool {
	return slices.ContainsFunc(s.msgs, func(m *engine.Message) bool { return m.Key != nil })
}

// send sends records with an exclusive client.
func (s *sending) send(ctx context.Context) error {
	c, err := s.borrow()
	if err != nil {
		return err
	}
	defer s.giveBack(c)
	s.clients = append(s.clients, c.Client.Client)
	send := func(which []int) {
		w := newWrite(len(which))
		confirmed := w.confirmed // one for all
		for _, i := range which {
			c.Produce(ctx, &s.records[i], confirmed)
		}
		flush(context.WithoutCancel(ctx), c.Client.Client, w) // the records know when ctx ends
		s.note(w)
	}
	if s.ordered() {
		send = s.knowing(c.known, send)
	}
	send(s.all())
	s.apart(send, s.mixed())
	return nil
}

// all returns the indexes of all records.
func (s *sending) all() []int {
	for i := len(s.indexes); i < len(s.records); i++ {
		s.indexes = append(s.indexes, i)
	}
	return s.indexes[:len(s.records)]
}

// knowing sends the first record of each unknown topic alone. Otherwise the client would assign records to partitions only as it
// learns about these, and would send some before it has assigned all.
func (s *sending) knowing(known map[string]bool, send func(which []int)) func(which []int) {
	s.known = known
	return func(which []int) {
		rest := make([]int, 0, len(which))
		for _, i := range which {
			topic := s.records[i].Topic
			if known[topic] {
				rest = append(rest, i)
				continue
			}
			if len(known) >= mostDeclared {
				clear(known)
			}
			send([]int{i})
			known[topic] = true
		}
		if rest = s.open(rest); len(rest) > 0 {
			send(rest)
		}
	}
}

// note records the results of records.
func (s *sending) note(w *write) {
	if len(w.failed) == 0 {
		return
	}
	index := make(map[*kgo.Record]int, len(s.records))
	for i := range s.records {
		index[&s.records[i]] = i
	}
	if s.errs == nil {
		s.errs = map[int]error{}
	}
	for _, f := range w.failed {
		s.errs[index[f.record]] = f.err
	}
}

// mixed returns the records that failed together with others of their batch, or after it. One of them may be to blame.
func (s *sending) mixed() (which []int) {
	if len(s.errs) == 0 {
		return nil
	}
	for i := range s.records {
		if kafka.BlamesRecord(s.errs[i]) {
			which = append(which, i)
		}
	}
	return which
}

// conclude gives each failed message its error, and returns an error of the output.
func (s *sending) conclude() error {
	if len(s.errs) == 0 {
		s.recycle()
		return nil
	}
	var all error
	for i, m := range s.msgs {
		err := s.errs[i]
		switch {
		case err == nil:
			m.Done()
			continue
		case !errors.Is(err, engine.ErrBehind):
			err = s.fault(err, &s.records[i])
		}
		if gone(err) {
			s.forget(s.records[i].Topic)
		}
		if engine.ErrorOf(err, engine.Transient).HoldsOutput() {
			all = err
			continue
		}
		m.Fail(err)
	}
	return all
}

// gone reports whether a topic does not exist, or no longer does.
func gone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// forget has clients forget a topic, because they never notice that it was deleted and created again. The topic is declared again,
// too.
func (s *sending) forget(topic string) {
	if slices.Contains(s.forgotten, topic) {
		return
	}
	s.forgotten = append(s.forgotten, topic)
	s.undeclare(topic)
	delete(s.known, topic)
	for _, c := range s.clients {
		c.PurgeTopicsFromProducing(topic)
	}
}

// write counts the records that are confirmed.
type write struct {
	left atomic.Int64
	done chan struct{} // closed when nothing is left

	mu     sync.Mutex // guards the field below
	failed []failure
}

type failure struct {
	record *kgo.Record
	err    error
}

func newWrite(n int) *write {
	w := &write{done: make(chan struct{})}
	w.left.Store(int64(n))
	return w
}

func (w *write) confirmed(r *kgo.Record, err error) {
	if err != nil {
		w.mu.Lock()
		w.failed = append(w.failed, failure{r, err})
		w.mu.Unlock()
	}
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
}
