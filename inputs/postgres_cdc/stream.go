package postgrescdc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// stream is a connection on which the server sends changes. Read receives; a loop tells the server what is settled, also
// while nothing is read: so a server that waits for room does not take this side for dead.
type stream struct {
	in      *input
	conn    net.Conn
	front   *pgproto3.Frontend
	link    *link
	message pgoutput.Message
	asked   time.Time   // when the server was answered last
	signs   bounds.Rate // of life

	stop func() // ends the loop, and waits for its end

	mu     sync.Mutex // held while something is written
	report []byte
}

// undefinedObject is the code of an error.
const undefinedObject = "42704"

// startStream begins at a place.
func (in *input) startStream(ctx context.Context, l *link, from pgoutput.LSN) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	doing := "read slot " + in.cfg.Slot
	defer l.watch.Unread()()
	l.Frontend().SendQuery(&pgproto3.Query{String: fmt.Sprintf(
		"START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s)", ident(in.cfg.Slot), from,
		literal(ident(in.cfg.publication())))})
	if err := l.Frontend().Flush(); err != nil {
		return nil, explain(err, doing)
	}
	for begun := false; !begun; {
		m, err := l.ReceiveMessage(ctx)
		if err != nil {
			return nil, explain(err, doing)
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			begun = true
		case *pgproto3.ErrorResponse:
			if m.Code == undefinedObject {
				return nil, in.gone() // since it was looked for: a publication is missed later
			}
			return nil, explain(pgconn.ErrorResponseToPgError(m), doing)
		}
	}
	raw, err := l.Hijack()
	if err != nil {
		return nil, explain(err, doing)
	}
	s := &stream{in: in, conn: raw.Conn, front: raw.Frontend, link: l}
	var wg sync.WaitGroup
	loop, end := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { s.reports(loop) })
	s.stop = func() { end(); wg.Wait() }
	return s, nil
}

// partly is how long the rest of a message may take, of which a part has come, before what was read is sent on.
const partly = 50 * time.Millisecond

// read waits for the first change, and adds what has arrived.
func (s *stream) read(ctx context.Context, b *engine.Batch) error {
	in := s.in
	if in.queue.ready() > 0 { // there was no room for it
		in.emit(b)
		return nil
	}
	heard := time.Now()
	silence := 6 * in.cfg.Timeout
	_ = s.conn.SetReadDeadline(heard.Add(silence))
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	for in.queue.ready() == 0 || in.queue.ready() < b.Room() && in.queue.size < chunkBytes {
		if some := in.queue.ready() > 0; some && s.buffered() == 0 {
			break
		} else if some && ctx.Err() == nil {
			_ = s.conn.SetReadDeadline(time.Now().Add(partly))
		}
		err := s.next(ctx)
		if errors.Is(err, os.ErrDeadlineExceeded) && (ctx.Err() != nil || in.queue.ready() > 0) {
			break
		}
		if err == nil {
			continue
		}
		in.emit(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return engine.Errorf(engine.Transient, "the server has been silent for %s", time.Since(heard).Round(time.Second))
		}
		return explain(err, "read slot "+in.cfg.Slot)
	}
	in.emit(b)
	return nil
}

// buffered is how much has arrived that was not read.
func (s *stream) buffered() int { return s.front.ReadBufferLen() + s.link.arrived.Buffered() }

// next receives one message.
func (s *stream) next(ctx context.Context) error {
	m, err := s.front.Receive()
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pgproto3.CopyData:
		return s.frame(ctx, m.Data)
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server has ended the stream")
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		return nil
	}
	return fmt.Errorf("the server has sent a %T within the stream", m)
}

func (s *stream) frame(ctx context.Context, data []byte) error {
	f, err := pgoutput.ParseFrame(data)
	if err != nil {
		return err
	}
	if f.Data == nil {
		return s.alive(f)
	}
	m := &s.message
	if err := m.Decode(f.Data); err != nil {
		return engine.Errorf(engine.Permanent, "slot %s: the server has sent what flowd can't read: %w", s.in.cfg.Slot, err)
	}
	if m.Kind == pgoutput.Relation {
		return s.in.describe(ctx, m)
	}
	return s.in.change(m)
}

const (
	mostSigns   = 200_000                // of life, a second: a server sends one for each transaction that it leaves out
	betweenAsks = 100 * time.Millisecond // an answer holds for as long; reports are sent anyway
)

// alive notes a sign of life.
func (s *stream) alive(f pgoutput.Frame) error {
	if s.signs.Over(mostSigns) {
		return fmt.Errorf("the server sends more than %d signs of life a second", mostSigns)
	}
	s.in.alive(f.End)
	if !f.Reply || time.Since(s.asked) < betweenAsks {
		return nil
	}
	s.asked = time.Now()
	return s.tell(false)
}

// reports tells the server what is settled, again and again until ctx ends.
func (s *stream) reports(ctx context.Context) {
	in := s.in
	every := min(in.cfg.AckInterval, often)
	beat := often
	if t := in.server.silence; t > 0 {
		beat = min(beat, t/3)
		every = min(every, beat)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	last := time.Now()
	for {
		in.mu.Lock()
		news := in.newsOf()
		in.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-news:
			if !in.many() {
				continue
			}
		case <-t.C:
		}
		beats := time.Since(last) >= beat
		if !beats && !in.more() {
			continue
		}
		if beats {
			last = time.Now()
		}
		if s.tell(beats) != nil {
			s.conn.Close() // Read says so
			return
		}
	}
}

// many says that so much is settled that the server is to be told at once; more, that it does not know of something.
func (in *input) many() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.flushed > in.due.told && in.due.low.Low()-in.due.since >= uint64(in.cfg.MaxReplay)
}

func (in *input) more() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.flushed > in.due.told
}

// tell tells the server what is settled; reply asks for a sign of life.
func (s *stream) tell(reply bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.in
	in.mu.Lock()
	flushed, low := in.due.flushed, in.due.low.Low()
	in.mu.Unlock()
	m := pgproto3.CopyData{Data: pgoutput.AppendStatus(nil, flushed, time.Now(), reply)}
	var err error
	if s.report, err = m.Encode(s.report[:0]); err != nil {
		return err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(in.cfg.Timeout))
	if _, err := s.conn.Write(s.report); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.told, in.due.since = max(in.due.told, flushed), low
	return nil
}

// farewell is how long the server may take to end the stream. It first ends the transaction that it is sending.
const farewell = 2 * time.Second

// close tells the server what is settled, and waits until it knows: unread data would have the connection reset, and the
// report lost with it.
func (s *stream) close(ctx context.Context) {
	s.stop()
	defer s.conn.Close()
	if s.tell(false) != nil {
		return
	}
	end, err := (&pgproto3.CopyDone{}).Encode(nil)
	if err != nil {
		return
	}
	_ = s.conn.SetDeadline(time.Now().Add(farewell))
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := s.conn.Write(end); err != nil {
		return
	}
	for {
		switch m, err := s.front.Receive(); m.(type) {
		case *pgproto3.CopyDone, *pgproto3.ReadyForQuery, *pgproto3.ErrorResponse:
			return
		default:
			if err != nil {
				return
			}
		}
	}
}
