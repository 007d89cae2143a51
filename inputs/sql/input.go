package sql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
	"github.com/flowd-io/flowd/internal/state/cursor"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

type input struct {
	cfg    Config
	log    *slog.Logger
	owner  string
	places places

	// Set from Open to Close.
	db     sqldb.DB
	ctx    context.Context //nolint:containedctx // of the goroutines that run beside Read
	cancel func()
	wake   source.Signal // set at an event on the channel
	tasks  sync.WaitGroup

	// Only Read uses the fields below.
	query *fetch    // the running query; nil: none
	rows  int       // number of rows it has returned so far
	due   time.Time // when the next query is due
	idle  bool      // the next query waits until due, or for an event
	ended bool      // there is no next query
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("several instances would all read the same rows (remove `concurrency`)")
	}
	if c.Listen != "" {
		c.Connections++
	}
	in := &input{cfg: c, log: env.Log, owner: checkpoint.Owner(env), places: places{saves: c.Checkpoint != ""}}
	return in, nil
}

// Traits reports a position if there is a checkpoint.
func (in *input) Traits() engine.Traits { return checkpoint.Traits(in.cfg.Checkpoint) }

// Open connects to the database, and reads the checkpoint.
func (in *input) Open(ctx context.Context) error {
	db, err := in.cfg.Open()
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	conn.Release()
	if in.cfg.Checkpoint != "" {
		saved, err := in.places.Keep(checkpoint.Config[state]{Path: in.cfg.Checkpoint, Kind: "sql", Owner: in.owner, Log: in.log})
		if err != nil {
			return engine.WithClass(engine.Permanent, errors.Join(err, db.Close()))
		}
		if saved != nil && len(saved.Cursor) > 0 && string(saved.Cursor) != "null" {
			in.places.next = saved.Cursor
		}
	}
	in.db, in.wake = db, source.NewSignal()
	in.ctx, in.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if in.cfg.Listen != "" {
		in.tasks.Go(func() { in.listen(in.ctx) })
	}
	return nil
}

// Close ends the query and saves the cursor. If the input is opened again, it continues after the last row that it has read.
func (in *input) Close(context.Context) error {
	if in.db == nil {
		return nil
	}
	in.cancel()
	in.tasks.Wait()
	if in.query != nil {
		in.query = nil
		in.places.interrupted()
	}
	in.idle = false
	err := errors.Join(in.db.Close(), in.places.Leave())
	in.db = nil
	return err
}

// Read adds the rows that have arrived, and waits until there are some.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	for {
		if err := in.startQuery(ctx); err != nil {
			return in.acker(), err
		}
		rows, err := in.query.next(ctx, b.Room())
		if ctx.Err() != nil && rows == nil {
			return in.acker(), ctx.Err()
		}
		if addErr := in.add(b, rows); addErr != nil {
			err = addErr
		}
		switch {
		case err == errNoMore:
			in.queryEnded()
			err = nil
		case err != nil:
			in.query = nil
			in.places.interrupted()
		}
		if len(rows) > 0 || err != nil {
			return in.acker(), err
		}
	}
}

func (in *input) acker() engine.Acker {
	if in.cfg.Checkpoint == "" {
		return nil
	}
	return &in.places
}

// startQuery starts the next query when it is due, unless one is running. It returns [engine.ErrEnd] after the last query.
func (in *input) startQuery(ctx context.Context) error {
	switch {
	case in.query != nil:
		return nil
	case in.ended:
		return engine.ErrEnd
	}
	if in.idle {
		if err := in.wait(ctx); err != nil {
			return err
		}
	}
	src, err := cursor.After(in.places.next)
	if err != nil {
		return engine.WithClass(engine.Permanent, fmt.Errorf("cursor: %w", err))
	}
	args := make([]sqldb.Value, len(in.cfg.Args))
	for i := range in.cfg.Args {
		if args[i], err = sqldb.ValueOf(&in.cfg.Args[i], src); err != nil {
			return engine.WithClass(engine.Permanent, fmt.Errorf("args[%d]: %w", i, err))
		}
	}
	in.idle, in.rows, in.due = false, 0, time.Now().Add(in.cfg.Interval)
	f := newFetch()
	in.query = f
	run := in.ctx
	in.tasks.Go(func() { f.run(run, in.db, in.cfg.Query, args, in.cfg.QueryTimeout) })
	return nil
}

// wait waits until the next query is due, or for an event.
func (in *input) wait(ctx context.Context) error {
	var due <-chan time.Time
	if in.cfg.Interval > 0 {
		t := time.NewTimer(time.Until(in.due))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-in.wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// add adds a message for each row. If the cursor of a row can't be computed, its message fails, and add returns the error.
func (in *input) add(b *engine.Batch, rows [][]byte) error {
	in.rows += len(rows)
	for _, row := range rows {
		m := b.Add(row)
		if in.cfg.Cursor.IsZero() {
			continue
		}
		v, err := sqldb.ValueOf(&in.cfg.Cursor, m)
		if err == nil && v.Kind == sqldb.Null {
			err = errors.New("is null in a row (name a field that all rows have)")
		}
		if err != nil {
			m.Fail(engine.WithClass(engine.Permanent, fmt.Errorf("cursor: %w", err)))
			m.Ref = in.places.noteRow(nil)
			return engine.WithClass(engine.Permanent, fmt.Errorf("cursor: %w", err))
		}
		m.Ref = in.places.noteRow(v.JSON())
	}
	return nil
}

// queryEnded decides what follows when a query has returned all its rows: the next page at once, the next query later, or
// the end of the input.
func (in *input) queryEnded() {
	in.query = nil
	in.places.queryEnded()
	if in.rows > 0 && !in.cfg.Cursor.IsZero() {
		return // the next page
	}
	in.idle = true
	in.ended = in.cfg.Interval == 0 && in.cfg.Listen == ""
	in.due = time.Now().Add(in.cfg.Interval)
}

const (
	checkInterval = time.Minute      // between two checks of an idle connection
	answerTimeout = 10 * time.Second // of such a check
	reconnect     = 2 * time.Second  // mean delay before a lost connection is reopened
)

// listen sets wake at each event, until ctx ends. It reopens a lost connection.
func (in *input) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := in.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		in.log.Warn("can't listen on the channel, will try again", "channel", in.cfg.Listen, "err", err)
		_ = timing.Sleep(ctx, reconnect/2+rand.N(reconnect)) // #nosec G404 -- jitter
	}
}

// listenOnce listens on one connection until it is lost. It sets wake first, since events may have been missed before.
func (in *input) listenOnce(ctx context.Context) (err error) {
	defer engine.Recovered(&err)
	conn, err := in.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	l := conn.(sqldb.Listener)
	for err = in.within(ctx, func(ctx context.Context) error { return l.Listen(ctx, in.cfg.Listen) }); err == nil; {
		in.wake.Set()
		quiet, cancel := context.WithTimeout(ctx, checkInterval)
		err = l.Notified(quiet)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = in.within(ctx, func(ctx context.Context) error {
				_, err := conn.Exec(ctx, "SELECT 1", nil)
				return err
			})
		}
	}
	return err
}

// within calls do with a timeout of answerTimeout.
func (*input) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return do(ctx)
}

// Trouble reports that the checkpoint can't be saved.
func (in *input) Trouble() *engine.Trouble { return checkpoint.Trouble(in.cfg.Checkpoint) }
