package framing

import (
	"bytes"
	"io"

	"github.com/flowd-io/flowd/engine"
)

const (
	firstBlock = 16 << 10  // enough for a short stream
	blockSize  = 256 << 10 // blocks grow to this size while reads fill them
	minRead    = 16 << 10  // a block with less room is not filled further
	emptyReads = 100       // tolerated reads without data or error
)

// splitter finds records in a stream. It may keep state about the record that it searches.
type splitter interface {
	// scan searches the end of the record at data[0]; data[:from] was scanned before. If it finds the end, it returns
	// the record's length and where the next record begins, and err if the record is broken. Otherwise it returns -1
	// and where to continue scanning. If a record is too long, the data before that place is discarded, and later
	// data begins there. With eof there is always an end; with eof and no data, err says that something is missing.
	scan(data []byte, from int, eof bool) (end, next int, err *engine.Error)

	// record turns what scan found into a record. ok is false if it is not one, such as an empty line.
	record(body []byte) (rec Record, ok bool)
}

// counting says what Record.Line counts.
type counting uint8

const (
	countRecords counting = iota
	countFound            // everything that scan found, such as empty lines
	countLines            // line feeds before the record
)

// blocks is the Reader of all framings that scan. It reads into large blocks and slices records out of them. The part
// of a block that contains a returned record is never overwritten.
type blocks struct {
	src   io.Reader
	split splitter
	max   int
	count counting
	whole bool // an empty stream is a record, too

	block    []byte
	pos, end int   // block[pos:end] is read but not returned
	seen     int   // scanned bytes of it
	err      error // of src; io.EOF at the end
	clean    bool  // no record of the block was returned
	line     int
	base     int64 // offset of the block in the stream
	place    Place

	over *overlong
}

// overlong is a record that is too long, while its end is searched.
type overlong struct {
	head   []byte
	line   int
	length int64 // bytes discarded so far
}

func newBlocks(src io.Reader, split splitter, limit int, count counting) *blocks {
	return &blocks{src: src, split: split, max: limit, count: count, line: 1}
}

// Place returns the place after the last returned record.
func (r *blocks) Place() Place { return r.place }

// Close releases what decompression uses.
func (r *blocks) Close() error { return closeDecoder(r.src) }

// Next scans the buffered data, and reads more if necessary.
func (r *blocks) Next() (Record, error) {
	for {
		data, eof := r.block[r.pos:r.end], r.err == io.EOF
		if len(data) > 0 || eof {
			end, next, err := r.split.scan(data, r.seen, eof)
			switch {
			case end < 0:
				r.seen = next
				r.throwAway()
			case len(data) > 0 || err != nil || r.over != nil:
				if rec, ok := r.cutRecord(data[:end:end], next, err); ok {
					r.place = Place{r.base + int64(r.pos), r.line}
					return rec, nil
				}
				continue
			case r.whole:
				r.whole = false
				return Record{Line: 1}, nil
			}
		}
		if err := r.err; err != nil {
			if err == ErrLater {
				r.err = nil
			}
			return Record{}, err
		}
		r.fill()
	}
}

// addLines adds lines that are completely in the block, which most are. Next handles the rest.
func (r *blocks) addLines(b *engine.Batch, base engine.Meta) {
	if l, ok := r.split.(*textLines); !ok || !l.begun || r.over != nil {
		return
	}
	room := b.Room()
	for b.Room() > 0 {
		data := r.block[r.pos:r.end]
		n := bytes.IndexByte(data, '\n')
		if n <= 0 || n > r.max {
			break
		}
		next := n + 1
		if data[n-1] == '\r' {
			if n--; n == 0 {
				break
			}
		}
		b.Add(data[:n:n]).Meta = base.At(r.line)
		r.pos += next
		r.line++
		r.seen, r.clean, r.whole = 0, false, false
	}
	if b.Room() < room {
		r.place = Place{r.base + int64(r.pos), r.line}
	}
}

// cutRecord returns the record at the beginning of the data.
func (r *blocks) cutRecord(body []byte, next int, broken *engine.Error) (Record, bool) {
	at := r.line
	r.advance(next)
	r.seen = 0

	length := int64(len(body))
	if r.over != nil {
		length += r.over.length
		at, body = r.over.line, r.over.head
		r.over = nil
	} else if len(body) > r.max {
		body = body[:r.max:r.max]
	}
	r.clean, r.whole = false, false

	var rec Record
	ok := true
	switch {
	case length > int64(r.max):
		rec = cut(body, length, r.max, broken)
	case broken != nil:
		rec = Record{Body: body, Err: broken}
	default:
		rec, ok = r.split.record(body)
	}
	rec.Line = at
	if r.count == countFound || r.count == countRecords && ok {
		r.line++
	}
	return rec, ok
}

// throwAway discards the scanned part of a record that is too long, except its head.
func (r *blocks) throwAway() {
	if r.over == nil {
		if r.end-r.pos <= r.max+slack {
			return
		}
		head := r.block[r.pos : r.pos+r.max : r.pos+r.max]
		r.over = &overlong{head: head, line: r.line}
		r.clean = false
	}
	r.over.length += int64(r.seen)
	r.advance(r.seen)
	r.seen = 0
}

// slack is how much longer than a record its scanned text may be, because of the terminator.
const slack = 256

func (r *blocks) advance(n int) {
	if r.count == countLines {
		r.line += bytes.Count(r.block[r.pos:r.pos+n], []byte{'\n'})
	}
	r.pos += n
}

// fill reads once. A full block is left to its messages; an incomplete record at its end moves to the next block.
func (r *blocks) fill() {
	rest := r.block[r.pos:r.end]
	if len(r.block)-r.end < minRead {
		if r.clean && r.pos >= minRead {
			copy(r.block, rest)
		} else {
			size := min(max(2*len(r.block), firstBlock), blockSize)
			next := make([]byte, max(size, 2*len(rest)))
			copy(next, rest)
			r.block, r.clean = next, true
		}
		r.base += int64(r.pos)
		r.pos, r.end = 0, len(rest)
	}
	for range emptyReads {
		n, err := r.src.Read(r.block[r.end:])
		r.end += n
		if err != nil {
			r.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	r.err = io.ErrNoProgress
}
