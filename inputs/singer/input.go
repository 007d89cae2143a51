package singer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/components/schedule"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
	"github.com/flowd-io/flowd/internal/state/cursor"
)

type input struct {
	cfg    Config
	log    *slog.Logger
	logged *programs.Log // the tap's standard error
	prog   programs.Program
	owner  string
	places cursor.Places[state]
	wait   schedule.Wait // for the next run

	// Set from Open to Close.
	ctx    context.Context //nolint:containedctx // of the tap, which runs beside Read
	cancel func()
	tasks  sync.WaitGroup

	// Only Read uses the fields below.
	tap   *tap            // the running tap; nil: none
	state json.RawMessage // the last one that a tap wrote; nil: none
	due   time.Time       // when the next run is due
	ended bool            // there is no next run
}

// state is the content of a checkpoint.
type state struct {
	Value json.RawMessage `json:"value"`
}

var (
	_ engine.Opener    = (*input)(nil)
	_ engine.Closer    = (*input)(nil)
	_ engine.Traited   = (*input)(nil)
	_ engine.Troubled  = (*input)(nil)
	_ engine.Scheduled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("several instances would all read the same records (remove `concurrency`)")
	}
	in := &input{cfg: c, log: env.Log, logged: programs.NewLog(env.Log, c.Command[0], env.Secrets), owner: checkpoint.Owner(env),
		prog: programs.New(c.Command, c.Dir, c.Env, env.Secrets)}
	return in, nil
}

// Traits reports a position if there is a checkpoint.
func (in *input) Traits() engine.Traits { return checkpoint.Traits(in.cfg.Checkpoint) }

// Open locates the tap, and reads the checkpoint. The first Read starts the tap.
func (in *input) Open(ctx context.Context) error {
	if err := in.prog.Find(); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if in.cfg.Checkpoint != "" {
		saved, err := in.places.Keep(checkpoint.Config[state]{Path: in.cfg.Checkpoint, Kind: "singer", Owner: in.owner, Log: in.log})
		if err != nil {
			return engine.WithClass(engine.Permanent, err)
		}
		if saved != nil {
			in.state = saved.Value
		}
	}
	in.ctx, in.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return nil
}

// Close ends the tap, and saves the state. If the input is opened again, it continues after the last state that it has read.
func (in *input) Close(context.Context) error {
	if in.cancel == nil {
		return nil
	}
	in.cancel()
	in.tasks.Wait()
	in.tap, in.cancel = nil, nil
	return in.places.Leave()
}

// Read adds the records that have arrived, and waits until there are some.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	var acker engine.Acker
	if in.cfg.Checkpoint != "" {
		acker = &in.places
	}
	for {
		if err := in.startTap(ctx); err != nil {
			return acker, err
		}
		err := in.tap.fill(ctx, b)
		switch {
		case err == errEnded:
			in.tapEnded()
			err = nil
		case err != nil && ctx.Err() == nil:
			in.tap = nil
		}
		if b.Len() > 0 || err != nil {
			return acker, err
		}
	}
}

// startTap starts the tap when it is due, unless it is running. It returns [engine.ErrEnd] after the last run.
func (in *input) startTap(ctx context.Context) error {
	switch {
	case in.tap != nil:
		return nil
	case in.ended:
		return engine.ErrEnd
	}
	if !in.cfg.Interval.IsZero() {
		if in.due.IsZero() {
			in.due = in.cfg.Interval.First(time.Now())
		}
		if wait := time.Until(in.due); wait > 0 {
			defer in.wait.Begin(in.due)()
			if err := timing.Sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
	in.tap = in.newTap()
	in.tasks.Go(in.tap.run)
	return ctx.Err()
}

// add adds the message of a record, or notes a state.
func (in *input) add(b *engine.Batch, it item) {
	if it.state != nil {
		in.state = it.state
		in.places.Mark(state{it.state})
		return
	}
	m := b.Add(it.record)
	m.Meta = it.meta
	if in.cfg.Checkpoint != "" {
		m.Ref = in.places.Read(1)
	}
}

// tapEnded sets when the tap is run again.
func (in *input) tapEnded() {
	in.tap = nil
	if in.ended = in.cfg.Interval.IsZero(); in.ended {
		return
	}
	now := time.Now()
	if in.due = in.cfg.Interval.Next(in.due); in.due.Before(now) {
		in.due = in.cfg.Interval.Skip(in.due, now)
	}
}

// Due returns the time of the next run, if a Read waits for it.
func (in *input) Due() time.Time { return in.wait.Due() }

// Trouble reports that the checkpoint can't be saved.
func (in *input) Trouble() *engine.Trouble { return checkpoint.Trouble(in.cfg.Checkpoint) }
