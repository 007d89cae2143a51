package sqldb

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/network/bounds"
)

// chRows are the rows of an answer, as lines of JSON. A line that is not JSON is the error with which the server has ended the
// answer.
type chRows struct {
	conn  *chConn
	ctx   context.Context //nolint:containedctx // of the request
	body  io.ReadCloser
	lines *bufio.Reader
	line  []byte // the current row
	some  bool   // a row was read
	blank int    // empty lines so far
	err   error
}

func (r *chRows) Err() error { return r.err }

func (r *chRows) Close() { _ = r.body.Close() }

func (r *chRows) Next() bool {
	if r.err != nil {
		return false
	}
	for {
		line, err := r.readLine()
		if err != nil && err != io.EOF {
			r.err = explain(r.conn.lost(r.ctx, err), false)
			return false
		}
		line = bytes.TrimSpace(line)
		switch {
		case len(line) > 0 && line[0] == '{':
			r.line = line
			if !r.some {
				r.some, r.err = true, chDistinct(line)
			}
			return r.err == nil
		case len(line) > 0:
			r.err = r.errorIn(line)
			return false
		case err == io.EOF:
			return false
		}
		if r.blank++; r.blank > mostBlank {
			r.err = engine.Errorf(engine.Transient, "the answer has more than %d empty lines", mostBlank)
			return false
		}
	}
}

// mostBlank bounds the empty lines of an answer.
const mostBlank = 1_000_000

// readLine reads a line, including its line break.
func (r *chRows) readLine() ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := bytes.Clone(line)
	for err == bufio.ErrBufferFull {
		if len(long) > int(r.conn.db.MaxRow) {
			return nil, bounds.TooLarge("a row is larger than max_row, %s", r.conn.db.MaxRow)
		}
		line, err = r.lines.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// errorIn returns the error that ends an answer, or the error of an answer that is not JSON.
func (r *chRows) errorIn(line []byte) error {
	rest, _ := io.ReadAll(io.LimitReader(r.lines, chError))
	text := append(bytes.Clone(line[:min(len(line), chError)]), append([]byte("\n"), rest...)...)
	if err := r.conn.exception(text); err != nil {
		return explain(err, false)
	}
	return engine.Errorf(engine.Permanent, "the answer is %.60q, not JSON (remove FORMAT from the query)", text)
}

// chDistinct returns an error if two columns of a row have the same name.
func chDistinct(row []byte) error {
	if !valid(row) {
		return nil // Append returns the error
	}
	var names []string
	for name := range doc.Members(row) {
		names = append(names, name)
	}
	return engine.WithClass(engine.Permanent, distinct(names))
}

func (r *chRows) Append(dst []byte) ([]byte, error) {
	if !valid(r.line) {
		if err := r.conn.exception(r.line[max(0, len(r.line)-chError):]); err != nil && r.line[len(r.line)-1] != '}' { // in the middle of a row
			return dst, explain(err, false)
		}
		if utf8.Valid(r.line) {
			return dst, engine.Errorf(engine.Transient, "the server has sent a row that is not JSON, or nested too deep: %.60q", r.line)
		}
		name := chNotText(r.line)
		return dst, engine.Errorf(engine.Permanent,
			"column %s has text that is not UTF-8 (write hex(%[1]s), or toValidUTF8(%[1]s), in the query)", name)
	}
	return append(dst, r.line...), nil
}

// chNotText returns the first column of a row whose text is not UTF-8.
func chNotText(row []byte) string {
	row = bytes.ToValidUTF8(row, []byte("\uFFFD"))
	if valid(row) {
		for name, raw := range doc.Members(row) {
			if bytes.Contains(raw, []byte("\uFFFD")) {
				return name
			}
		}
	}
	return "COLUMN"
}
