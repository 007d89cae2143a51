// Package pgwire protects the PostgreSQL client library from hostile servers. A [Watch] checks what arrives on a connection.
// [Rows] and [Run] read answers with a bounded amount of memory.
package pgwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/schema"
	"github.com/jackc/pgx/v5/pgconn"
)

// Limits of what a server may send, in bytes unless they say otherwise.
const (
	mostGreeting   = 1 << 20   // until a connection is ready
	mostIterations = 1_000_000 // iterations of the password hash; servers ask for 4096, and a million takes half a second
	mostMessage    = 64 << 10  // a message whose kind has no limit of its own
	mostColumns    = 8 << 20   // the description of an answer's columns, which are 65535 at most
	mostParameters = 512 << 10 // the description of a statement's parameters
	mostText       = 1 << 20   // an error, a notice or a notification
	mostSettings   = 256       // different settings that a server reports
	mostNotices    = 1_000_000 // unsolicited notices and reports of settings during a request
	mostAnswers    = 100_000   // messages of one answer, other than rows and COPY data
)

// The kinds of messages that the watch distinguishes.
const (
	authentication  = 'R'
	copyData        = 'd'
	dataRow         = 'D'
	errorResponse   = 'E'
	notice          = 'N'
	notification    = 'A'
	parameters      = 't'
	parameterStatus = 'S'
	readyForQuery   = 'Z'
	rowDescription  = 'T'
)

// Watch checks what arrives on one connection. One goroutine may read from the connection while another writes to it.
type Watch struct {
	frames bounds.Frames
	row    schema.Size // the largest row

	hashed   bool            // the server has asked for the hash of the password
	settings map[string]bool // that the server has reported

	// These fields are also used by the goroutine that writes.
	budget  atomic.Int64          // bytes that may still arrive before the connection is ready, or for an answer; -1: no limit
	over    atomic.Pointer[error] // the error when the budget is exceeded
	notices atomic.Int64          // since the last write
	answers atomic.Int64          // messages since the last write, other than rows and COPY data
	idle    atomic.Bool           // the server has answered all requests
}

// New returns the watch of a new connection. No row, or change of a row, may be larger than row, which is the field max_row.
func New(row schema.Size) *Watch {
	w := &Watch{row: row, settings: map[string]bool{}}
	w.setBudget(mostGreeting, errors.New("the server has sent more than 1 MiB before the connection was ready"))
	w.frames = bounds.Frames{First: 5, Next: w.next}
	return w
}

// setBudget sets how many bytes may arrive. over is the error of more.
func (w *Watch) setBudget(budget int64, over error) {
	w.over.Store(&over)
	w.budget.Store(budget)
}

// Opened removes the limit of the handshake when the connection is ready.
func (w *Watch) Opened() { w.budget.Store(-1) }

// Unread limits the size of an answer that is discarded. The caller calls done after the answer.
func (w *Watch) Unread() (done func()) {
	w.setBudget(max(int64(w.row), 2*mostColumns),
		fmt.Errorf("the answer to a statement whose rows are not used is larger than max_row, %s "+
			"(write a statement that returns no rows)", w.row))
	return w.Opened
}

// Frontend wraps both directions of a connection, for [pgconn.Config.BuildFrontend]. There, the data is no longer encrypted.
func (w *Watch) Frontend(r io.Reader, to io.Writer) (io.Reader, io.Writer) {
	return bounds.Reader(r, w), &writer{to, w}
}

type writer struct {
	io.Writer
	watch *Watch
}

func (w *writer) Write(p []byte) (int, error) {
	w.watch.notices.Store(0)
	w.watch.answers.Store(0)
	w.watch.idle.Store(false)
	return w.Writer.Write(p)
}

// Check implements [bounds.Check].
func (w *Watch) Check(p []byte) error {
	if left := w.budget.Load(); left >= 0 {
		if left -= int64(len(p)); left < 0 {
			return *w.over.Load()
		}
		w.budget.Store(left)
	}
	return w.frames.Check(p)
}

// next implements [bounds.Frames.Next].
func (w *Watch) next(head []byte) (length int64, more int, err error) {
	kind, n := head[0], int64(int32(binary.BigEndian.Uint32(head[1:])))
	if n < 4 {
		return 0, 0, errors.New("the server does not speak PostgreSQL's protocol (check the address in the dsn)")
	}
	body, most := n-4, int64(mostMessage)
	switch kind {
	case copyData, dataRow:
		switch {
		case body > int64(w.row) && w.budget.Load() >= 0:
			return 0, 0, *w.over.Load()
		case body > int64(w.row):
			return 0, 0, bounds.TooLarge("the server sends a row of %d bytes, which is larger than max_row, %s", body, w.row)
		}
		most = body
	case rowDescription:
		most = mostColumns
	case parameters:
		most = mostParameters
	case errorResponse, notice, notification:
		most = mostText
	}
	if body > most {
		return 0, 0, fmt.Errorf("the server sends a message %q of %d bytes, more than the allowed %d", kind, body, most)
	}
	switch kind {
	case authentication, parameterStatus:
		if more := 5 + int(body) - len(head); more > 0 {
			return 0, more, nil
		}
		if kind == authentication {
			err = w.checkPassword(head[5:])
		} else {
			err = w.countSetting(head[5:])
		}
	case notice:
		err = w.countNotice()
	case errorResponse, notification:
	default:
		if w.idle.Load() { // the client would take it for the answer to its next request
			err = errors.New("the server has sent an answer without a request")
		}
		if kind != copyData && kind != dataRow && w.answers.Add(1) > mostAnswers {
			err = fmt.Errorf("the server answers with more than %d messages, not counting rows", mostAnswers)
		}
		w.idle.Store(kind == readyForQuery)
	}
	return 1 + n, 0, err
}

// checkPassword limits the work that an unknown server can cause by asking for a hash of the password.
func (w *Watch) checkPassword(body []byte) error {
	const saslContinue = 11
	if len(body) < 4 || binary.BigEndian.Uint32(body) != saslContinue {
		return nil
	}
	if w.hashed {
		return errors.New("the server asks for the hash of the password more than once")
	}
	w.hashed = true
	for field := range bytes.SplitSeq(body[4:], []byte{','}) {
		text, found := bytes.CutPrefix(field, []byte("i="))
		if n, err := strconv.ParseUint(string(text), 10, 64); found && (err != nil || n > mostIterations) {
			return fmt.Errorf("the server asks for %.20s iterations of the password's hash, but flowd allows at most %d (lower "+
				"scram_iterations on the server)", text, mostIterations)
		}
	}
	return nil
}

// countSetting counts a report of a setting.
func (w *Watch) countSetting(body []byte) error {
	name, _, _ := bytes.Cut(body, []byte{0})
	if !w.settings[string(name)] {
		if len(w.settings) >= mostSettings {
			return fmt.Errorf("the server reports more than %d settings", mostSettings)
		}
		w.settings[string(name)] = true
	}
	return w.countNotice()
}

// countNotice counts a message that the server may send without a request.
func (w *Watch) countNotice() error {
	if w.notices.Add(1) > mostNotices {
		return fmt.Errorf("the server sends more than %d notices during one request", mostNotices)
	}
	return nil
}

// Run executes statements and discards their rows. It returns the number of rows that the last statement has affected.
func Run(ctx context.Context, conn *pgconn.PgConn, sql string) (n int64, err error) {
	answer := conn.Exec(ctx, sql)
	for answer.NextResult() {
		tag, _ := answer.ResultReader().Close() // answer.Close returns the same error
		n = tag.RowsAffected()
	}
	return n, answer.Close()
}

// mostRows bounds the memory for the rows of an answer, in bytes.
const mostRows = 64 << 20

// Rows executes a statement and returns its rows, in which NULL is "". It closes the connection and returns an error if a row
// has fewer columns than columns, or if the rows take more than 64 MiB.
func Rows(ctx context.Context, conn *pgconn.PgConn, sql string, columns int) (rows [][]string, err error) {
	const each = 16 // bytes of a string header
	answer := conn.Exec(ctx, sql)
	left := mostRows
	for err == nil && answer.NextResult() {
		for r := answer.ResultReader(); err == nil && r.NextRow(); {
			values := r.Values()
			row := make([]string, len(values))
			left -= each * (2 + len(values))
			for i, v := range values {
				row[i] = string(v)
				left -= len(v)
			}
			rows = append(rows, row)
			switch {
			case len(row) < columns:
				err = fmt.Errorf("the server has sent rows of %d columns, not %d", len(row), columns)
			case left < 0:
				err = fmt.Errorf("the server's answer takes more than %d MiB", mostRows>>20)
			}
		}
	}
	if err != nil {
		_ = conn.Conn().Close() // otherwise, answer.Close would read the rest
		_ = answer.Close()
		return nil, err
	}
	if err := answer.Close(); err != nil {
		return nil, err
	}
	return rows, nil
}
