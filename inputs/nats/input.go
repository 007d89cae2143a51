package nats

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/attempts"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
)

type input struct {
	*source.Session[*session]
	cfg      Config
	hands    int // messages that the pipeline processes at once
	maxBytes int // about how many bytes are prefetched at most
	log      *slog.Logger
	tries    *attempts.Book
	name     string
	order    bool // the pipeline keeps the order of messages

	created time.Time     // when the stream was created
	from    atomic.Uint64 // sequence after the last one up to which all messages are acknowledged; 0: unknown
}

// session is one connection.
type session struct {
	conn *nats.Conn
	reader
}

// reader reads a subject, or a consumer of a stream.
type reader interface {
	engine.Acker
	read(ctx context.Context, b *engine.Batch) error
	stop(ctx context.Context)
	close(ctx context.Context)
	trouble() *engine.Trouble
}

var (
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	n := max(1, env.Instances)
	in := &input{cfg: c, hands: max(1, env.Hands/n), maxBytes: max(1<<20, env.MaxBytes/4/n), log: env.Log, tries: attempts.ForInput(env),
		order: env.Ordered && env.Instances <= 1,
		name:  strings.Trim(env.Pipeline+"."+env.Name, ".")}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// connect makes a connection, and subscribes to the subjects or finds the consumer.
func (in *input) connect(ctx context.Context) (*session, error) {
	conn, err := in.cfg.Dial(ctx, in.log, in.name)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	if in.cfg.Stream != "" {
		s.reader, err = in.pull(ctx, conn)
	} else {
		s.reader, err = in.subscribe(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Read waits for a message, and adds all that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	s := in.Conn()
	err := s.read(ctx, b)
	if in.cfg.Stream == "" {
		return nil, err
	}
	return s.reader, err
}

// Stop ends reading, and returns messages that were not read.
func (s *session) Stop(ctx context.Context) error {
	s.stop(ctx)
	return nil
}

// Close closes the connection. The server redelivers everything that is not acknowledged.
func (s *session) Close(ctx context.Context, _ bool) error {
	s.close(ctx)
	s.conn.Close()
	return nil
}

// Trouble reports what keeps the input from reading.
func (in *input) Trouble() *engine.Trouble {
	s, ok := in.Connected()
	if !ok {
		return nil
	}
	if t := s.conn.Trouble("nothing is read"); t != nil {
		return t
	}
	return s.trouble()
}
