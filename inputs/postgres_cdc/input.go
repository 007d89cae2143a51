package postgrescdc

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// input reads a slot, over all of its connections. While it is open, exactly one of birth and stream is not nil.
type input struct {
	cfg  Config
	log  *slog.Logger
	name string

	began     bool                      // the slot existed: it is an error if it no longer does
	server    server                    // what the server is
	types     map[uint32]pgoutput.Shape // of the database's own types
	typeNames map[uint32]string
	tables    map[string]bool    // to read, as SCHEMA.TABLE; nil: all
	known     map[uint32]*table  // as the server has described them last, on any connection
	columns   int                // of known, and one for each table
	birth     *birth             // makes the slot, and reads the snapshot
	stream    *stream            // reads changes
	queue     queue              // what was read and is not in a batch yet
	at        place              // of the last change that is in a batch
	watch     sync.WaitGroup     // the loop that watches the slot
	unwatch   context.CancelFunc // ends it

	conns   bounds.Few // all of them
	asking  sync.Mutex // held during a question
	catalog *link      // for questions; nil: it is not connected

	mu      sync.Mutex     // guards the fields below
	due     progress       // what is settled
	holding engine.Holding // nil: nothing was read
	news    chan struct{}  // closed when something is settled; nil: nobody waits for that
}

// place is the place of a change: the commit of its transaction, and its number in the transaction.
type place struct {
	commit pgoutput.LSN
	number int
}

var (
	_ engine.Opener     = (*input)(nil)
	_ engine.Closer     = (*input)(nil)
	_ engine.Traited    = (*input)(nil)
	_ engine.Revoker    = (*input)(nil)
	_ engine.Positioned = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("a slot has one reader at a time (remove `concurrency`)")
	}
	in := &input{cfg: c, log: env.Log, conns: make(bounds.Few, mostConns),
		name:  strings.Trim(env.Pipeline+"."+env.Name, "."),
		known: map[uint32]*table{}, types: map[uint32]pgoutput.Shape{}}
	for _, t := range c.Tables {
		if in.tables == nil {
			in.tables = map[string]bool{}
		}
		in.tables[t] = true
	}
	return in, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open connects, and looks for what it reads.
func (in *input) Open(ctx context.Context) error {
	err := in.open(ctx)
	if err != nil {
		in.shut(ctx)
	}
	return err
}

func (in *input) open(ctx context.Context) error {
	in.queue.reset()
	slot, err := in.prepare(ctx)
	if err != nil {
		return err
	}
	replication, err := in.connect(ctx, true)
	if err != nil {
		return err
	}
	if slot == nil {
		in.birth = in.beBorn(context.WithoutCancel(ctx), replication)
	} else if err := in.follow(ctx, replication, slot.confirmed); err != nil {
		_ = replication.Close(ctx)
		return err
	}
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	in.unwatch = unwatch
	in.watch.Go(func() { in.watches(watching) })
	return nil
}

// follow begins to read changes after the settled ones, or after from if the server has recorded more as settled.
func (in *input) follow(ctx context.Context, l *link, from pgoutput.LSN) error {
	in.mu.Lock()
	told := in.due.told
	in.due.begin(from)
	from = in.due.flushed
	in.mu.Unlock()
	if in.began && from > told {
		in.log.Error("another process has read this slot meanwhile: changes that it settled were not read here", "slot", in.cfg.Slot,
			"from", told, "to", from)
	}
	s, err := in.startStream(ctx, l, from)
	if err != nil {
		return err
	}
	in.began, in.stream = true, s
	in.log.Info("reading changes", "slot", in.cfg.Slot, "from", from)
	return nil
}

// Read adds the rows of the snapshot, then changes as they come.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if in.birth != nil {
		return in, in.readBirth(ctx, b)
	}
	return in, in.stream.read(ctx, b)
}

// Holds gives the input what it can ask of the pipeline.
func (in *input) Holds(h engine.Holding) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.holding = h
}

// Close tells the server what is settled, and disconnects.
func (in *input) Close(ctx context.Context) error {
	in.shut(ctx)
	return nil
}

func (in *input) shut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	if in.unwatch != nil {
		in.unwatch()
		in.watch.Wait()
		in.unwatch = nil
	}
	if in.birth != nil {
		in.endBirth(ctx)
	}
	if in.stream != nil {
		in.stream.close(ctx)
		in.stream = nil
	}
	in.asking.Lock()
	defer in.asking.Unlock()
	if in.catalog != nil {
		_ = in.catalog.Close(ctx)
		in.catalog = nil
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// often is how often the slot is watched, and the server asked for a sign of life.
const often = 10 * time.Second
