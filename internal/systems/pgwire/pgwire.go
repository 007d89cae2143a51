// Package pgwire bounds what PostgreSQL servers may send. [Watch] is for each connection; [Rows] and [Run] read answers
// without keeping more than there is room for.
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

// Limits of what a server may send, in bytes where they do not say otherwise.
const (
	mostGreeting   = 1 << 20   // until a connection is ready
	mostIterations = 1_000_000 // of hashing the password: servers ask for 4096, and a million takes half a second
	mostMessage    = 64 << 10  // of a kind that has no limit of its own
	mostColumns    = 8 << 20   // of the description of an answer, which has at most 65535 columns
	mostParameters = 512 << 10 // of the description of a statement's parameters
	mostText       = 1 << 20   // of an error, a notice or a notification
	mostSettings   = 256       // settings that a server reports, by their names
	mostNotices    = 1_000_000 // notices, and reports of settings, that nobody has asked for
	mostAnswers    = 100_000   // messages of one answer, without its rows or data
)

// The kinds of messages that are looked at.
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

// Watch follows one connection. It is used by the goroutine that reads from it, and by one that writes.
type Watch struct {
	frames bounds.Frames
	row    schema.Size

	hashed   bool // the password was
	settings map[string]bool

	// What is written while COPY reads.
	budget  atomic.Int64 // bytes that may come yet: before the connection is ready, or of an answer; -1: no limit
	over    atomic.Pointer[error]
	notices atomic.Int64 // since the client has written
	answers atomic.Int64 // likewise, but for rows and data
	idle    atomic.Bool  // the server has answered everything
}

// New watches a new connection, whose rows, or changes, are no larger than row: the field max_row.
func New(row schema.Size) *Watch {
	w := &Watch{row: row, settings: map[string]bool{}}
	w.spend(mostGreeting, errors.New("the server has sent more than 1 MiB before the connection was ready"))
	w.frames = bounds.Frames{First: 5, Next: w.next}
	return w
}

func (w *Watch) spend(budget int64, over error) {
	w.over.Store(&over)
	w.budget.Store(budget)
}

// Opened says that the connection is ready.
func (w *Watch) Opened() { w.budget.Store(-1) }

// Unread bounds the next answer, which nobody keeps, until the function that it returns is called.
func (w *Watch) Unread() (done func()) {
	w.spend(max(int64(w.row), 2*mostColumns),
		fmt.Errorf("the answer to a statement that is only carried out is larger than max_row, %s (write one without rows)", w.row))
	return w.Opened
}

// Frontend puts the watch between a connection and its client: it is for [pgconn.Config.BuildFrontend], where TLS is
// taken off.
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

// next is [bounds.Frames.Next].
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
			return 0, 0, bounds.TooLarge("the server sends a row of %d bytes: it is larger than max_row, %s", body, w.row)
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
		return 0, 0, fmt.Errorf("the server sends a message %q of %d bytes, which has %d at most", kind, body, most)
	}
	switch kind {
	case authentication, parameterStatus:
		if more := 5 + int(body) - len(head); more > 0 {
			return 0, more, nil
		}
		if kind == authentication {
			err = w.password(head[5:])
		} else {
			err = w.setting(head[5:])
		}
	case notice:
		err = w.unasked()
	case errorResponse, notification:
	default: // it would be taken for the answer to what is asked next
		if w.idle.Load() {
			err = errors.New("the server has sent what nobody has asked for")
		}
		if kind != copyData && kind != dataRow && w.answers.Add(1) > mostAnswers {
			err = fmt.Errorf("the server answers with more than %d messages, rows not counted", mostAnswers)
		}
		w.idle.Store(kind == readyForQuery)
	}
	return 1 + n, 0, err
}

// password looks how much work a server wants to be done before it is known to be the right one.
func (w *Watch) password(body []byte) error {
	const goesOn = 11 // SASL
	if len(body) < 4 || binary.BigEndian.Uint32(body) != goesOn {
		return nil
	}
	if w.hashed {
		return errors.New("the server wants the password to be hashed more than once")
	}
	w.hashed = true
	for field := range bytes.SplitSeq(body[4:], []byte{','}) {
		text, found := bytes.CutPrefix(field, []byte("i="))
		if n, err := strconv.ParseUint(string(text), 10, 64); found && (err != nil || n > mostIterations) {
			return fmt.Errorf("the server wants the password to be hashed %.20s times, and flowd does it %d times at most (lower "+
				"scram_iterations on the server)", text, mostIterations)
		}
	}
	return nil
}

func (w *Watch) setting(body []byte) error {
	name, _, _ := bytes.Cut(body, []byte{0})
	if !w.settings[string(name)] {
		if len(w.settings) >= mostSettings {
			return fmt.Errorf("the server reports more than %d settings", mostSettings)
		}
		w.settings[string(name)] = true
	}
	return w.unasked()
}

func (w *Watch) unasked() error {
	if w.notices.Add(1) > mostNotices {
		return fmt.Errorf("the server sends more than %d notices during one request", mostNotices)
	}
	return nil
}

// Run carries out statements, and gives the number of rows of the last one.
func Run(ctx context.Context, conn *pgconn.PgConn, sql string) (n int64, err error) {
	answer := conn.Exec(ctx, sql)
	for answer.NextResult() {
		tag, _ := answer.ResultReader().Close() // the error is the answer's, too
		n = tag.RowsAffected()
	}
	return n, answer.Close()
}

// mostRows bounds what the rows of an answer of [Rows] take in memory, in bytes.
const mostRows = 64 << 20

// Rows are the rows of the answer to a statement, each of so many columns or more; a NULL is "". Where the server does not
// answer like this, the connection ends.
func Rows(ctx context.Context, conn *pgconn.PgConn, sql string, columns int) (rows [][]string, err error) {
	const each = 16 // bytes of a string, without its text
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
		_ = conn.Conn().Close() // not to read the rest
		_ = answer.Close()
		return nil, err
	}
	if err := answer.Close(); err != nil {
		return nil, err
	}
	return rows, nil
}
