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

// stream is a connection on which the server sends changes. Read receives them. A goroutine reports the settled position to the
// server, even while nothing is read. Otherwise a server that waits for room would assume that this side is dead.
type stream struct {
	in         *input
	conn       net.Conn
	front      *pgproto3.Frontend
	link       *link
	message    pgoutput.Message
	replied    time.Time   // when a keepalive of the server was last answered
	keepalives bounds.Rate // rate of the server's keepalives

	stop func() // ends the goroutine of reportLoop, and waits for it

	mu     sync.Mutex // held during a write
	buffer []byte     // reused by report
}

// undefinedObject is the SQLSTATE of a missing slot or publication.
const undefinedObject = "42704"

// startStream starts to receive changes after a position.
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
				return nil, in.droppedError() // since it was looked for: a publication is missed later
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
	wg.Go(func() { s.reportLoop(loop) })
	s.stop = func() { end(); wg.Wait() }
	return s, nil
}

// partWait is how long Read waits for the rest of a message before it returns earlier changes.
const partWait = 50 * time.Millisecond

// read waits for a change, and adds all that have arrived.
func (s *stream) read(ctx context.Context, b *engine.Batch) error {
	in := s.in
	if in.queue.ready() > 0 { // the last batch had no room for it
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
			_ = s.conn.SetReadDeadline(time.Now().Add(partWait))
		}
		err := s.receive(ctx)
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

// buffered returns the number of bytes that have arrived and were not read.
func (s *stream) buffered() int { return s.front.ReadBufferLen() + s.link.arrived.Buffered() }

// receive receives one message.
func (s *stream) receive(ctx context.Context) error {
	m, err := s.front.Receive()
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pgproto3.CopyData:
		return s.handleFrame(ctx, m.Data)
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server has ended the stream")
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		return nil
	}
	return fmt.Errorf("the server has sent a %T within the stream", m)
}

// handleFrame handles a keepalive, the description of a table, or a change.
func (s *stream) handleFrame(ctx context.Context, data []byte) error {
	f, err := pgoutput.ParseFrame(data)
	if err != nil {
		return err
	}
	if f.Data == nil {
		return s.handleKeepalive(f)
	}
	m := &s.message
	if err := m.Decode(f.Data); err != nil {
		return engine.Errorf(engine.Permanent, "slot %s: the server has sent a message that flowd can't read: %w", s.in.cfg.Slot, err)
	}
	if m.Kind == pgoutput.Relation {
		return s.in.describe(ctx, m)
	}
	return s.in.handle(m)
}

const (
	maxKeepalives = 200_000                // per second; a server sends one for each transaction that it skips
	replyInterval = 100 * time.Millisecond // between two answers to keepalives; reportLoop sends reports anyway
)

// handleKeepalive handles a keepalive of the server, and answers it if the server asks for that.
func (s *stream) handleKeepalive(f pgoutput.Frame) error {
	if s.keepalives.Over(maxKeepalives) {
		return fmt.Errorf("the server sends more than %d keepalives a second", maxKeepalives)
	}
	s.in.noteEnd(f.End)
	if !f.Reply || time.Since(s.replied) < replyInterval {
		return nil
	}
	s.replied = time.Now()
	return s.report(false)
}

// reportLoop reports the settled position to the server at intervals, until ctx ends.
func (s *stream) reportLoop(ctx context.Context) {
	in := s.in
	every := min(in.cfg.AckInterval, checkInterval)
	pingEvery := checkInterval
	if t := in.server.silence; t > 0 {
		pingEvery = min(pingEvery, t/3)
		every = min(every, pingEvery)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	last := time.Now()
	for {
		in.mu.Lock()
		changed := in.nextChange()
		in.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if !in.replayFull() {
				continue
			}
		case <-t.C:
		}
		ping := time.Since(last) >= pingEvery
		if !ping && !in.unreported() {
			continue
		}
		if ping {
			last = time.Now()
		}
		if s.report(ping) != nil {
			s.conn.Close() // Read reports the error
			return
		}
	}
}

// replayFull reports whether max_replay messages are settled that the server does not know of, so that it must be told at once.
func (in *input) replayFull() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.flushed > in.due.reported && in.due.low.Low()-in.due.reportedLow >= uint64(in.cfg.MaxReplay)
}

// unreported reports whether the server does not know the settled position.
func (in *input) unreported() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.due.flushed > in.due.reported
}

// report reports the settled position to the server. ping asks for an answer.
func (s *stream) report(ping bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.in
	in.mu.Lock()
	flushed, low := in.due.flushed, in.due.low.Low()
	in.mu.Unlock()
	m := pgproto3.CopyData{Data: pgoutput.AppendStatus(nil, flushed, time.Now(), ping)}
	var err error
	if s.buffer, err = m.Encode(s.buffer[:0]); err != nil {
		return err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(in.cfg.Timeout))
	if _, err := s.conn.Write(s.buffer); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.due.reported, in.due.reportedLow = max(in.due.reported, flushed), low
	return nil
}

// endTimeout is how long the server may take to end the stream. It first finishes the transaction that it is sending.
const endTimeout = 2 * time.Second

// close reports the settled position, and reads until the server has ended the stream. Closing a connection with unread data would
// reset it, and might lose the report.
func (s *stream) close(ctx context.Context) {
	s.stop()
	defer s.conn.Close()
	if s.report(false) != nil {
		return
	}
	end, err := (&pgproto3.CopyDone{}).Encode(nil)
	if err != nil {
		return
	}
	_ = s.conn.SetDeadline(time.Now().Add(endTimeout))
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
