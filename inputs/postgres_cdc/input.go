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

// input reads a slot, over several connections in turn. While it is open, exactly one of creation and stream is not nil.
type input struct {
	cfg  Config
	log  *slog.Logger
	name string

	began     bool                      // the slot has existed: it is an error if it no longer does
	server    server                    // the server's version and settings
	types     map[uint32]pgoutput.Shape // shapes of arrays, domains and the database's own types
	typeNames map[uint32]string
	tables    map[string]bool    // tables to read, as SCHEMA.TABLE; nil: all
	known     map[uint32]*table  // tables as the server has last described them, on any connection
	columns   int                // number of columns in known, plus one for each table
	creation  *creation          // creates the slot, and reads the snapshot
	stream    *stream            // reads changes
	queue     queue              // changes that were received and are not in a batch yet
	at        place              // position of the last change that is in a batch
	watch     sync.WaitGroup     // the goroutine of watchLoop
	stopWatch context.CancelFunc // ends it

	conns    bounds.Few // limits open connections
	querying sync.Mutex // held during a query on catalog
	catalog  *link      // for queries about the catalog; nil: not connected

	mu      sync.Mutex     // guards the fields below
	due     progress       // which changes are settled
	holding engine.Holding // nil: nothing was read
	changed chan struct{}  // closed when a message is settled; nil: no goroutine waits
}

// place is the position of a change: the commit of its transaction, and its number in the transaction.
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
	in := &input{cfg: c, log: env.Log, conns: make(bounds.Few, maxConns),
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

// Open connects, checks the server and its tables, and starts to read.
func (in *input) Open(ctx context.Context) error {
	err := in.open(ctx)
	if err != nil {
		in.shutDown(ctx)
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
		in.creation = in.startCreation(context.WithoutCancel(ctx), replication)
	} else if err := in.follow(ctx, replication, slot.confirmed); err != nil {
		_ = replication.Close(ctx)
		return err
	}
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	in.stopWatch = stopWatch
	in.watch.Go(func() { in.watchLoop(watching) })
	return nil
}

// follow starts to read changes, after the settled ones or, if the server has recorded more as settled, after from.
func (in *input) follow(ctx context.Context, l *link, from pgoutput.LSN) error {
	in.mu.Lock()
	reported := in.due.reported
	in.due.startAt(from)
	from = in.due.flushed
	in.mu.Unlock()
	if in.began && from > reported {
		in.log.Error("another process has read this slot meanwhile: changes that it settled were not read here", "slot", in.cfg.Slot,
			"from", reported, "to", from)
	}
	s, err := in.startStream(ctx, l, from)
	if err != nil {
		return err
	}
	in.began, in.stream = true, s
	in.log.Info("reading changes", "slot", in.cfg.Slot, "from", from)
	return nil
}

// Read adds the rows of the snapshot, and then changes as they arrive.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if in.creation != nil {
		return in, in.readSnapshot(ctx, b)
	}
	return in, in.stream.read(ctx, b)
}

// Holds receives access to the pipeline's messages in flight.
func (in *input) Holds(h engine.Holding) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.holding = h
}

// Close reports the settled position to the server, and disconnects.
func (in *input) Close(ctx context.Context) error {
	in.shutDown(ctx)
	return nil
}

func (in *input) shutDown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	if in.stopWatch != nil {
		in.stopWatch()
		in.watch.Wait()
		in.stopWatch = nil
	}
	if in.creation != nil {
		in.endCreation(ctx)
	}
	if in.stream != nil {
		in.stream.close(ctx)
		in.stream = nil
	}
	in.querying.Lock()
	defer in.querying.Unlock()
	if in.catalog != nil {
		_ = in.catalog.Close(ctx)
		in.catalog = nil
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// checkInterval is the longest time between two checks of the slot, and between two pings of the server.
const checkInterval = 10 * time.Second
