package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

const (
	pause    = 3 * time.Second // before a stream is opened again, unless the server says otherwise
	minPause = 100 * time.Millisecond
	maxPause = time.Hour
)

var (
	errSlow = errors.New("no response within timeout (raise it, or remove `stream` if this is not a stream)")
	errIdle = errors.New("the stream sent nothing within idle_timeout")
)

// conn is a stream that is being read.
type conn struct {
	pump   *framing.Pump
	ctx    context.Context //nolint:containedctx // of the request; its cause says why it was given up
	cancel context.CancelCauseFunc
	res    *http.Response
	meta   engine.Meta
	pause  atomic.Int64 // before the next connection, as the server wants; 0: it has not said
}

// readStream adds messages of a stream. It opens the stream first.
func (in *input) readStream(ctx context.Context, b *engine.Batch) error {
	if in.conn == nil {
		r, err := in.await(ctx, in.nextConn)
		if err != nil {
			return err
		}
		if r.err != nil {
			return in.failed(r.err, false)
		}
		if in.conn = r.conn; in.conn == nil {
			in.over = true
			return engine.ErrEnd
		}
	}
	err := in.conn.pump.FillPlaced(ctx, b, in.conn.meta, func(m *engine.Message, _ framing.Place) { in.note(m) })
	if err == nil || ctx.Err() != nil {
		return err
	}
	in.lost(err)
	return nil
}

// lost closes a stream that has ended, and schedules its reopening.
func (in *input) lost(err error) {
	c := in.conn
	in.conn = nil
	if cause := context.Cause(c.ctx); errors.Is(cause, errIdle) {
		err = cause
	}
	c.close()
	wait := pause
	if d := time.Duration(c.pause.Load()); d > 0 {
		wait = d
	}
	wait += rand.N(wait/2 + 1) // #nosec G404 -- jitter
	if until := time.Now().Add(wait); until.After(in.until) {
		in.until = until
	}
	if errors.Is(err, io.EOF) {
		in.log.Debug("the stream has ended and is opened again", "url", httpx.Shown(c.res.Request.URL),
			"in", wait.Round(time.Millisecond))
		return
	}
	in.log.Warn("the stream was cut off and is opened again", "url", httpx.Shown(c.res.Request.URL), "err", err,
		"in", wait.Round(time.Millisecond))
}

// close ends a stream and waits until nothing reads it.
func (c *conn) close() {
	c.cancel(nil)
	c.pump.Close()
	c.pump.Wait()
	_ = c.res.Body.Close()
}

// nextConn waits until the stream may be opened.
func (in *input) nextConn(ctx context.Context) (func(context.Context) result, error) {
	if in.over {
		return nil, engine.ErrEnd
	}
	if err := in.rest(ctx, time.Time{}); err != nil {
		return nil, err
	}
	req, err := in.ask()
	if err != nil {
		return nil, err
	}
	if in.event != "" {
		req.header.Set("Last-Event-ID", in.event)
	}
	if req.header.Get("Accept") == "" {
		kind := "text/event-stream"
		if in.cfg.Stream == "ndjson" {
			kind = "application/x-ndjson, application/json;q=0.5"
		}
		req.header.Set("Accept", kind)
	}
	if req.header.Get("Cache-Control") == "" {
		req.header.Set("Cache-Control", "no-cache")
	}
	event := in.event
	return func(ctx context.Context) (r result) {
		defer engine.Recovered(&r.err)
		r.conn, r.err = in.connect(ctx, req, event)
		return r
	}, nil
}

// connect opens the stream after the last event. It returns nil if the server says that no more events will come.
func (in *input) connect(ctx context.Context, req *request, event string) (*conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	slow := time.AfterFunc(in.cfg.Timeout, func() { cancel(errSlow) })
	defer slow.Stop()
	res, err := in.get(ctx, in.method, req.url, req.header, req.body)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSlow) {
			err = engine.Errorf(engine.Timeout, "%w", cause)
		}
		cancel(nil)
		return nil, err
	}
	no := func(err error) (*conn, error) {
		cancel(nil)
		_ = res.Body.Close()
		return nil, err
	}
	if res.StatusCode == http.StatusNoContent {
		return no(nil)
	}
	if why := in.notStream(res); why != "" {
		head, _ := io.ReadAll(io.LimitReader(res.Body, 4*excerpt)) // ends with ctx
		return no((&page{header: res.Header, shown: httpx.Shown(res.Request.URL)}).wrong(in, why, head))
	}
	c := &conn{ctx: ctx, cancel: cancel, res: res}
	shown := httpx.Shown(res.Request.URL)
	c.meta = engine.MetaOf([]string{"http_url", "http_status"}, []any{shown, res.StatusCode}, 2)
	for _, name := range in.cfg.Metadata {
		if all := res.Header.Values(name); len(all) > 0 {
			c.meta = c.meta.WithOwn(strings.ToLower(name), strings.Join(all, ", "))
		}
	}
	c.pump = framing.NewPump(in.patient(c, res.Body), func(r io.Reader) (framing.Reader, error) {
		if in.cfg.Stream == "sse" {
			return newEvents(r, int(in.cfg.MaxRecord), event, func(d time.Duration) {
				c.pause.Store(int64(min(max(d, minPause), maxPause)))
			}), nil
		}
		lines := framing.Config{MaxRecord: in.cfg.MaxRecord}
		return documents{lines.Reader(&terminated{r: r})}, nil
	})
	return c, nil
}

// notStream returns why a response is not the requested stream.
func (in *input) notStream(res *http.Response) string {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.Header.Get("Content-Encoding") != "":
		return "has an unsupported compression"
	case in.cfg.Stream == "sse" && kind != "text/event-stream":
		return "is not a stream of events"
	case kind == "text/html" || kind == "application/xhtml+xml":
		return "is a web page"
	}
	return ""
}

// note records a message of a stream, and the position after it.
func (in *input) note(m *engine.Message) {
	if in.cfg.Checkpoint != "" {
		m.Ref = in.places.Read(1)
	}
	if id, ok := m.Meta.Get("event_id"); ok && in.cfg.Stream == "sse" {
		if in.event, _ = id.(string); in.cfg.Cursor.IsZero() {
			in.at = doc.AppendString(nil, in.event)
		}
	}
	if !in.cfg.Cursor.IsZero() && m.Err() == nil {
		if reached, err := in.cursorOfMessage(m); err != nil {
			m.Fail(engine.WithClass(engine.ErrorOf(err, engine.Expression).Class, fmt.Errorf("cursor: %w", err)))
		} else if reached != nil {
			in.at = reached
		}
	}
	in.mark()
}

func (in *input) cursorOfMessage(m *engine.Message) ([]byte, error) {
	a := &answer{header: in.conn.res.Header, last: func() ([]byte, error) { return m.Bytes(), nil }}
	a.doc.Reset(m.Bytes(), nil)
	if in.at != nil {
		var err error
		if a.since, err = doc.DecodeRaw(in.at); err != nil {
			return nil, err
		}
	}
	return in.cursorOf(a)
}

// patient gives up on a stream that sends nothing for too long. Time during which nobody reads does not count.
func (in *input) patient(c *conn, r io.Reader) io.Reader {
	idle := time.AfterFunc(in.cfg.IdleTimeout, func() { c.cancel(errIdle) })
	idle.Stop()
	return readerFunc(func(p []byte) (int, error) {
		idle.Reset(in.cfg.IdleTimeout)
		defer idle.Stop()
		return r.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// terminated is a stream of lines. It drops a last line without its end, because that was cut off.
type terminated struct {
	r    io.Reader
	last byte
}

func (t *terminated) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.last = p[n-1]
	}
	if errors.Is(err, io.EOF) && t.last != '\n' && t.last != 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// documents checks that lines are JSON.
type documents struct{ framing.Reader }

func (d documents) Next() (framing.Record, error) {
	rec, err := d.Reader.Next()
	if err == nil && rec.Err == nil {
		var text doc.Doc
		text.Reset(rec.Body, nil)
		if wrong := text.Valid(); wrong != nil {
			rec.Err = engine.Errorf(engine.Decode, "%w", wrong)
		}
	}
	return rec, err
}
