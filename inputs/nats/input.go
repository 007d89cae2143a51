package nats

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/attempts"
	"github.com/flowd-io/flowd/internal/queue/nats"
)

type input struct {
	cfg   Config
	hands int // messages that the pipeline has in hand at once
	most  int // about how many bytes are prefetched
	log   *slog.Logger
	tries *attempts.Book
	name  string
	order bool // the pipeline keeps one

	opened bool  // once at least
	failed error // of the first opening, for Read to report
	at     atomic.Pointer[session]

	created time.Time     // the stream
	from    atomic.Uint64 // sequence after all that is acknowledged; 0: unknown
}

// session is one opening of the input.
type session struct {
	conn *nats.Conn
	from source
}

// source is where messages come from: a subject, or a consumer of a stream.
type source interface {
	engine.Acker
	read(ctx context.Context, b *engine.Batch) error
	stop(ctx context.Context)
	close(ctx context.Context)
	trouble() *engine.Trouble
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Stopper  = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	n := max(1, env.Instances)
	return &input{cfg: c, hands: max(1, env.Hands/n), most: max(1<<20, env.MaxBytes/4/n), log: env.Log, tries: attempts.Of(env),
		order: env.Ordered && env.Instances <= 1,
		name:  strings.Trim(env.Pipeline+"."+env.Name, ".")}, nil
}

// Traits are those of the configuration.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open connects and begins to read. A server that can't be reached at the start is not a mistake in the configuration:
// flowd retries, as when it is lost later.
func (in *input) Open(ctx context.Context) error {
	s, err := in.connect(ctx)
	if err != nil {
		if first := !in.opened; first && engine.ErrorOf(err, engine.Transient).Class == engine.Transient {
			in.opened, in.failed = true, err
			return nil
		}
		return err
	}
	in.opened, in.failed = true, nil
	in.at.Store(s)
	return nil
}

func (in *input) connect(ctx context.Context) (*session, error) {
	conn, err := in.cfg.Dial(ctx, in.log, in.name)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	if in.cfg.Stream != "" {
		s.from, err = in.pull(ctx, conn)
	} else {
		s.from, err = in.subscribe(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// Read adds messages that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	s := in.at.Load()
	if s == nil {
		return nil, in.failed
	}
	err := s.from.read(ctx, b)
	if in.cfg.Stream == "" {
		return nil, err
	}
	return s.from, err
}

// Stop ends reading, and hands back what was not read.
func (in *input) Stop(ctx context.Context) error {
	if s := in.at.Load(); s != nil {
		s.from.stop(ctx)
	}
	return nil
}

// Close ends the connection. The server delivers again what is not acknowledged.
func (in *input) Close(ctx context.Context) error {
	if s := in.at.Swap(nil); s != nil {
		s.from.close(ctx)
		s.conn.Close()
	}
	return nil
}

// Trouble says what keeps the input from reading.
func (in *input) Trouble() *engine.Trouble {
	s := in.at.Load()
	if s == nil {
		return nil
	}
	if t := s.conn.Trouble("nothing is read"); t != nil {
		return t
	}
	return s.from.trouble()
}
