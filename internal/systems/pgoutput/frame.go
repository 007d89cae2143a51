package pgoutput

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LSN is a place in the write-ahead log.
type LSN uint64

// String is l as PostgreSQL writes it.
func (l LSN) String() string { return string(l.Append(nil)) }

// Append appends l as PostgreSQL writes it.
func (l LSN) Append(dst []byte) []byte {
	const digits = "0123456789ABCDEF"
	hex := func(n uint32) {
		i := 28
		for i > 0 && n>>i == 0 {
			i -= 4
		}
		for ; i >= 0; i -= 4 {
			dst = append(dst, digits[n>>i&15])
		}
	}
	hex(uint32(l >> 32))
	dst = append(dst, '/')
	hex(uint32(l))
	return dst
}

// ParseLSN reads what PostgreSQL writes.
func ParseLSN(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err != nil || err2 != nil {
		return 0, fmt.Errorf("%q is not a place in the write-ahead log", s)
	}
	return LSN(h<<32 | l), nil
}

// epoch is when PostgreSQL's clock begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// timeOf is a time of PostgreSQL's clock, in microseconds.
func timeOf(micros int64) time.Time {
	return time.UnixMicro(micros + epoch.UnixMicro()).UTC()
}

// Frame is what the server sends within a stream.
type Frame struct {
	Data  []byte // a message; nil: this is a sign of life
	End   LSN    // how far the server has read its log
	Reply bool   // it wants an answer at once
}

// ParseFrame reads one. Data is part of b.
func ParseFrame(b []byte) (f Frame, err error) {
	switch {
	case len(b) >= 25 && b[0] == 'w': // start, end, time
		return Frame{Data: b[25:], End: LSN(binary.BigEndian.Uint64(b[9:]))}, nil
	case len(b) == 18 && b[0] == 'k': // end, time, reply
		return Frame{End: LSN(binary.BigEndian.Uint64(b[1:])), Reply: b[17] != 0}, nil
	}
	return f, errors.New("a frame of replication that is none of the known ones")
}

// AppendStatus appends a report to the server: all before flushed is safe. Reply asks for a sign of life.
func AppendStatus(dst []byte, flushed LSN, now time.Time, reply bool) []byte {
	dst = append(dst, 'r')
	for range 3 { // written, flushed, applied: a server that waits for a synchronous standby asks for one of them
		dst = binary.BigEndian.AppendUint64(dst, uint64(flushed))
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(now.Sub(epoch).Microseconds()))
	if reply {
		return append(dst, 1)
	}
	return append(dst, 0)
}
