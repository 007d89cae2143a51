package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Session is what an input and the outputs of its pipeline share with `engine.exactly_once`: a client that reads and
// writes, one transaction after the other (KIP-98, KIP-447). The input begins and ends them; outputs write in the one
// that is open.
type Session struct {
	// Alone is held by a write during which no other may give records to the client, read-held by all others. It is
	// the outputs' own.
	Alone sync.RWMutex

	offered sync.Mutex
	offers  []kgo.Opt // how outputs want records written; the last counts

	mu     sync.RWMutex // read-held while records are given to the client, held while a transaction begins or ends
	tx     *kgo.GroupTransactSession
	known  map[string]bool // see Known
	within context.Context // of the transaction that is open; nil: none is
	cancel context.CancelFunc
	doomed func(why error) // see Doom
}

type sessionKey string

// SessionOf is the session of a pipeline.
func SessionOf(shared *engine.Shared, pipeline string) *Session {
	return engine.Common(shared, sessionKey(pipeline), func() *Session { return &Session{known: map[string]bool{}} })
}

// Offer says how an output wants records written: before the input opens, as outputs open first.
func (s *Session) Offer(opts ...kgo.Opt) {
	s.offered.Lock()
	defer s.offered.Unlock()
	s.offers = append(s.offers[:0], opts...)
}

// Open makes the client. doomed is called when the transaction that is open can't be committed any more.
func (s *Session) Open(c *Connect, log *slog.Logger, name string, doomed func(why error), opts ...kgo.Opt) (*Client,
	error) {
	s.offered.Lock()
	opts = append(opts, s.offers...)
	s.offered.Unlock()
	opts, link, err := c.options(log, name, opts)
	if err != nil {
		return nil, err
	}
	tx, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx, s.doomed, s.known = tx, doomed, map[string]bool{}
	return &Client{Client: tx.Client(), Link: link}, nil
}

// Close forgets the client, which its owner closes.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx = nil
}

// Begin begins a transaction; nothing is fetched meanwhile.
func (s *Session) Begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.tx.Begin(); err != nil {
		return Explain(err, "begin a transaction")
	}
	s.within, s.cancel = context.WithCancel(context.Background())
	return nil
}

// End commits or aborts what was written and what was read since Begin, and says whether it is committed. Nothing is
// fetched meanwhile. After an error the client is of no use any more.
func (s *Session) End(ctx context.Context, commit bool) (committed bool, err error) {
	s.mu.RLock()
	if !commit {
		s.cancel() // writes that wait for room in the client give up
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.cancel()
	s.within = nil
	committed, err = s.tx.End(ctx, kgo.TransactionEndTry(commit))
	return committed, Explain(err, "end a transaction")
}

var errNone = errors.New("no transaction is open")

// Write lets give give records to the transaction that is open: it waits for nothing but room in the client.
func (s *Session) Write(give func(ctx context.Context, client *kgo.Client)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.tx == nil || s.within == nil {
		return engine.Errorf(engine.Transient, "%w", errNone)
	}
	give(s.within, s.tx.Client())
	return nil
}

// Known are topics of which the client knows the partitions; only the holder of Alone may use it.
func (s *Session) Known() map[string]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known
}

// Doom has the transaction that is open aborted: it is not known what is in it.
func (s *Session) Doom(why error) {
	s.mu.RLock()
	doomed := s.doomed
	s.mu.RUnlock()
	if doomed != nil {
		doomed(why)
	}
}
