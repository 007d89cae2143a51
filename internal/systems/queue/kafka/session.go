package kafka

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Session has what an input and the outputs of its pipeline share with `engine.exactly_once`: a client that reads and writes in
// one transaction after another (KIP-98, KIP-447). The input begins and ends transactions. Outputs write in the open one.
type Session struct {
	// Alone is locked by a write during which no other output may write records, and read-locked by all other writes. Only
	// outputs use it.
	Alone sync.RWMutex

	optsMu sync.Mutex
	opts   []kgo.Opt // how outputs write records; the last output decides

	mu     sync.RWMutex // read-locked while records are written, and locked while a transaction begins or ends
	tx     *kgo.GroupTransactSession
	known  map[string]bool // see Known
	txCtx  context.Context // of the open transaction; nil: none is open
	cancel context.CancelFunc
	doomed func(why error) // see Doom
}

type sessionKey string

// SessionOf returns the session of a pipeline.
func SessionOf(shared *engine.Shared, pipeline string) *Session {
	return engine.Common(shared, sessionKey(pipeline), func() *Session { return &Session{known: map[string]bool{}} })
}

// SetOptions sets how outputs write records. It has an effect before Open, which the input calls after all outputs have opened.
func (s *Session) SetOptions(opts ...kgo.Opt) {
	s.optsMu.Lock()
	defer s.optsMu.Unlock()
	s.opts = append(s.opts[:0], opts...)
}

// Open makes the client. doomed is called when the open transaction can no longer be committed.
func (s *Session) Open(c *Connect, log *slog.Logger, name string, doomed func(why error), opts ...kgo.Opt) (*Client,
	error) {
	s.optsMu.Lock()
	opts = append(opts, s.opts...)
	s.optsMu.Unlock()
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

// Close removes the client from the session. The caller of Open closes it.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx = nil
}

// BeginTransaction begins a transaction. The caller must not fetch meanwhile.
func (s *Session) BeginTransaction() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.tx.Begin(); err != nil {
		return Explain(err, "begin a transaction")
	}
	s.txCtx, s.cancel = context.WithCancel(context.Background())
	return nil
}

// EndTransaction commits or aborts the transaction, and reports whether it is committed. The caller must not fetch meanwhile.
// After an error, the client can't be used any more.
func (s *Session) EndTransaction(ctx context.Context, commit bool) (committed bool, err error) {
	s.mu.RLock()
	if !commit {
		s.cancel() // ends writes that wait for room in the client
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.cancel()
	s.txCtx = nil
	committed, err = s.tx.End(ctx, kgo.TransactionEndTry(commit))
	return committed, Explain(err, "end a transaction")
}

var errNone = errors.New("no transaction is open")

// Write calls produce, which writes records in the open transaction. produce must not wait for anything but room in the client.
func (s *Session) Write(produce func(ctx context.Context, client *kgo.Client)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.tx == nil || s.txCtx == nil {
		return engine.Errorf(engine.Transient, "%w", errNone)
	}
	produce(s.txCtx, s.tx.Client())
	return nil
}

// Known returns the topics whose partitions the client knows. Only the holder of Alone may use the map.
func (s *Session) Known() map[string]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known
}

// Doom makes the input abort the open transaction, since it is unknown which records it contains.
func (s *Session) Doom(why error) {
	s.mu.RLock()
	doomed := s.doomed
	s.mu.RUnlock()
	if doomed != nil {
		doomed(why)
	}
}
