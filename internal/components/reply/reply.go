// Package reply links outputs `reply` to inputs `http_server` of the same process. Start at [Of]. A [Desk] keeps the
// waiting requests; a [Slip] is one request. Metadata that only the input can set links a message to its slip.
package reply

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// Metadata of a message with a waiting request.
const (
	handle = "http_request" // identifies the request; can't be guessed
	record = "http_record"  // index of the message in the request
)

// Desk keeps the requests of a process that wait for replies. It is safe for concurrent use.
type Desk struct {
	wanted atomic.Bool

	mu    sync.Mutex // guards slips, and all slips and rooms
	slips map[string]*Slip
}

// Of returns the desk of this process.
func Of(shared *engine.Shared) *Desk {
	return engine.Common(shared, deskKey{}, func() *Desk { return &Desk{slips: map[string]*Slip{}} })
}

type deskKey struct{}

// Want says that there is an output that replies. Otherwise no request needs a slip.
func (d *Desk) Want() { d.wanted.Store(true) }

// Wanted reports whether some output replies.
func (d *Desk) Wanted() bool { return d.wanted.Load() }

// Room bounds the bytes of replies that are held at the same time.
type Room struct {
	Max  int
	used int // guarded by Desk.mu
}

// Slip is a waiting request, and collects the replies to its messages.
type Slip struct {
	desk  *Desk
	token string
	room  *Room
	base  engine.Meta // metadata of every message

	gone     bool // nobody waits any more
	held     int  // bytes
	last     uint64
	replies  [][]Reply      // by record
	receipts map[int][]byte // by record, for messages without a reply
}

// Open makes a slip for a request with n messages and this metadata. It stays on the desk until Close.
func (d *Desk) Open(meta engine.Meta, n int, room *Room) *Slip {
	s := &Slip{desk: d, token: rand.Text(), room: room, replies: make([][]Reply, n)}
	s.base = s.own(meta)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slips[s.token] = s
	return s
}

// own adds the slip's metadata as the input's own.
func (s *Slip) own(meta engine.Meta) engine.Meta {
	return meta.With(handle, s.token).Own().WithIndex(record)
}

// Mark links the message of a record to the slip. brings says that the record has metadata of its own, written by the
// client, which is added after the input's.
func (s *Slip) Mark(m *engine.Message, i int, brings bool) {
	if !brings {
		m.Meta = s.base.At(i)
		return
	}
	names, values := []string{handle}, []any{s.token}
	for name, v := range m.Meta.All() {
		if name != handle && name != record {
			names, values = append(names, name), append(values, v)
		}
	}
	m.Meta = engine.MetaOf(names, values, 1).WithIndex(record).At(i)
}

// Answer stores a reply to m. The reply is removed if the root of m fails, and dropped if the request is gone.
func (d *Desk) Answer(m *engine.Message, r Reply) error {
	s, ref, err := d.put(m, r)
	if ref > 0 {
		m.Stake(s, ref)
	}
	return err
}

// put is Answer without the stake. ref is 0 if nothing is held.
func (d *Desk) put(m *engine.Message, r Reply) (s *Slip, ref uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, i := d.slipOf(m)
	if s == nil {
		return nil, 0, engine.Errorf(engine.Permanent,
			"there is no request to answer: the message did not come from an http_server that waits for a reply")
	}
	if s.gone {
		return nil, 0, nil
	}
	if err := s.reserve(r.size()); err != nil {
		return nil, 0, err
	}
	s.last++
	r.ref, r.part, r.dead = s.last, m.Part(), m.Err() != nil
	s.replies[i] = append(s.replies[i], r)
	return s, r.ref, nil
}

// slipOf returns the slip and the record of a message, or nil. Metadata that a step has set or a sender wrote does
// not count.
func (d *Desk) slipOf(m *engine.Message) (*Slip, int) {
	for name := range m.Meta.Added() {
		if name == handle || name == record {
			return nil, 0
		}
	}
	token, _ := m.Meta.Get(handle)
	text, _ := token.(string)
	index, _ := m.Meta.Get(record)
	i, ok := index.(int)
	s := d.slips[text]
	if s == nil || !ok || i < 0 || i >= len(s.replies) {
		return nil, 0
	}
	return s, i
}

// Receipt sets the answer for a message that succeeds without a reply.
func (s *Slip) Receipt(i int, body []byte) error {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if s.gone {
		return nil
	}
	if err := s.reserve(len(body)); err != nil {
		return err
	}
	if s.receipts == nil {
		s.receipts = map[int][]byte{}
	}
	s.receipts[i] = body
	return nil
}

// reserve reserves room for n bytes.
func (s *Slip) reserve(n int) error {
	switch {
	case s.held+n > s.room.Max:
		return engine.Errorf(engine.Rejected,
			"the replies to this request are longer than max_replies of its http_server")
	case s.room.used+n > s.room.Max:
		return engine.Errorf(engine.Transient,
			"too many bytes of replies wait for their requests to end (see max_replies of the http_server)")
	}
	s.release(-n)
	return nil
}

func (s *Slip) release(n int) {
	s.held -= n
	s.room.used -= n
}

// Settle removes the replies of failed roots: their messages may be read again.
func (s *Slip) Settle(_ context.Context, _, rolledBack []uint64) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if len(rolledBack) == 0 {
		return
	}
	for i := range s.replies {
		s.replies[i] = slices.DeleteFunc(s.replies[i], func(r Reply) bool {
			taken := slices.Contains(rolledBack, r.ref)
			if taken {
				s.release(r.size())
			}
			return taken
		})
	}
}

// Take returns the answer to one message: its replies or, if it became a dead letter, those of dead letters, else its
// receipt. It returns false if there is none.
func (s *Slip) Take(i int, dead bool) (Reply, bool) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if r, ok := join(s.replies[i], dead); ok || dead {
		return r, ok
	}
	body, ok := s.receipts[i]
	return Reply{Body: body}, ok
}

// Leave says that nobody waits any more: it drops what is held, and all later replies.
func (s *Slip) Leave() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	s.gone = true
	s.release(s.held)
	clear(s.replies)
	s.receipts = nil
}

// Close removes the slip from the desk, once all of its messages have ended.
func (s *Slip) Close() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	delete(s.desk.slips, s.token)
}

// Waiting returns the number of slips on the desk.
func (d *Desk) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.slips)
}
