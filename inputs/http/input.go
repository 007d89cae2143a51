package http

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/components/schedule"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
	"github.com/flowd-io/flowd/internal/state/cursor"
)

type input struct {
	cfg     Config
	method  string
	cut     framing.Config // how an answer is divided
	caller  *httpx.Caller
	get     func(ctx context.Context, method, url string, h http.Header, body []byte, also ...int) (*http.Response, error)
	secrets secrets
	log     *slog.Logger
	owner   string
	places  cursor.Places[state]
	wait    schedule.Wait // for the next request

	// From Open to Close.
	open    bool
	ctx     context.Context //nolint:containedctx // of requests and of the answers that are read after them
	end     func()
	request source.Call[result]

	// Of Read, over all connections.
	at     []byte // cursor() of the next poll or connection, as JSON; nil: there is none
	event  string // id of the last event
	known  known  // what identifies the last answer
	marked state
	until  time.Time // no request before: the server asked for that
	due    time.Time // of the next poll
	over   bool
	again  bool // the poll started over because a page no longer exists
	poll   poll
	page   *page // whose records are being read
	conn   *conn // a stream
}

// state is the content of a checkpoint.
type state struct {
	Cursor string `json:"cursor,omitempty"` // as JSON
	Event  string `json:"last_event_id,omitempty"`
	Known  known  `json:"answer,omitzero"`
}

// result is the result of a request.
type result struct {
	page *page
	conn *conn
	err  error
}

var (
	_ engine.Opener   = (*input)(nil)
	_ engine.Closer   = (*input)(nil)
	_ engine.Traited  = (*input)(nil)
	_ engine.Troubled = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 {
		return nil, errors.New("several instances would all read the same responses (remove `concurrency`)")
	}
	in := &input{cfg: c, method: c.Method, log: env.Log, owner: checkpoint.Owner(env), secrets: env.Secrets,
		cut: framing.Config{Framing: c.Framing, MaxRecord: c.MaxRecord}}
	if in.method == "" {
		in.method = http.MethodGet
		if !c.Body.IsZero() {
			in.method = http.MethodPost
		}
	}
	if in.cut.Framing == (framing.Framing{}) {
		in.cut.Framing.JSON = &framing.Plain{}
	}
	in.caller = httpx.NewCaller(&in.cfg.Calls, env.Secrets)
	in.get = in.caller.Do
	return in, nil
}

// Traits reports a position if there is a checkpoint.
func (in *input) Traits() engine.Traits { return checkpoint.Traits(in.cfg.Checkpoint) }

// Open reads certificates and the checkpoint. The first request connects.
func (in *input) Open(ctx context.Context) error {
	if err := in.caller.Open(true); err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	if in.cfg.Checkpoint != "" {
		saved, err := in.places.Keep(checkpoint.Config[state]{Path: in.cfg.Checkpoint, Kind: "http", Owner: in.owner,
			Log: in.log})
		if err != nil {
			return engine.WithClass(engine.Permanent, err)
		}
		if saved != nil {
			in.marked, in.event, in.known = *saved, saved.Event, saved.Known
			if saved.Cursor != "" {
				in.at = []byte(saved.Cursor)
			}
		}
	}
	in.ctx, in.end = context.WithCancel(context.WithoutCancel(ctx))
	in.open = true
	return nil
}

// Close ends the request in flight, and saves the checkpoint. When it is opened again, the input continues after the last response
// that was read.
func (in *input) Close(context.Context) error {
	if !in.open {
		return nil
	}
	in.open = false
	in.end()
	if r, _ := in.request.Cancel(); r.conn != nil {
		r.conn.close()
	}
	if in.conn != nil {
		in.conn.close()
		in.conn = nil
	}
	in.page = nil
	in.caller.Close()
	return in.places.Leave()
}

// Read waits for the first message of a response or a stream, and adds those that follow at once.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	var acker engine.Acker
	if in.cfg.Checkpoint != "" {
		acker = &in.places
	}
	for {
		var err error
		if in.cfg.Stream != "" {
			err = in.readStream(ctx, b)
		} else {
			err = in.readPage(ctx, b)
		}
		if err != nil || b.Room() == 0 || b.Len() > 0 {
			return acker, err
		}
	}
}

// await returns the result of the request under way. If there is none, begin prepares one.
func (in *input) await(ctx context.Context, begin func(context.Context) (func(context.Context) result, error)) (
	result, error) {
	var do func(context.Context) result
	if !in.request.Running() {
		var err error
		if do, err = begin(ctx); err != nil {
			return result{}, err
		}
	}
	life := in.ctx
	return in.request.Wait(ctx, func(context.Context) (result, error) {
		began := time.Now()
		r := do(life)
		r.err = explain(r.err, began)
		return r, nil
	})
}

// explain adds to an error when it began.
func explain(err error, began time.Time) error {
	if err == nil {
		return nil
	}
	e := engine.ErrorOf(err, engine.Transient)
	e.FirstFailed = began
	return e
}

// failed decides what follows a failed request. once says that there is no next request. Otherwise no response ends the input,
// because the next one may be valid.
func (in *input) failed(err error, once bool) error {
	e := engine.ErrorOf(err, engine.Transient)
	if e.Delay > 0 {
		in.until = time.Now().Add(e.Delay)
	}
	switch {
	case once && final(e.Class):
		e.Class = engine.Permanent
	case !once && e.Class == engine.Permanent:
		e.Class = engine.Rejected
	}
	return e
}

// final reports whether asking again is unlikely to help against errors of a class.
func final(c engine.Class) bool {
	switch c {
	case engine.Rejected, engine.Auth, engine.Decode, engine.TooLarge, engine.Expression:
		return true
	}
	return false
}

// rest waits until due, and until the server accepts requests again.
func (in *input) rest(ctx context.Context, due time.Time) error {
	if due.Before(in.until) {
		due = in.until
	}
	wait := time.Until(due)
	if wait <= 0 {
		return ctx.Err()
	}
	defer in.wait.Begin(due)()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Due returns the time of the next request, if a Read waits for it.
func (in *input) Due() time.Time { return in.wait.Due() }

// mark has a state saved as soon as all messages read before are settled.
func (in *input) mark() {
	now := state{Cursor: string(in.at), Event: in.event, Known: in.known}
	if in.cfg.Checkpoint != "" && now != in.marked {
		in.marked = now
		in.places.Mark(now)
	}
}

// Trouble reports that the checkpoint can't be saved.
func (in *input) Trouble() *engine.Trouble { return checkpoint.Trouble(in.cfg.Checkpoint) }
