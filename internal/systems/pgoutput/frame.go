package pgoutput

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LSN is a log sequence number: a position in the write-ahead log.
type LSN uint64

// String returns l as PostgreSQL writes it, such as 16/B374D848.
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

// ParseLSN parses an LSN as PostgreSQL writes it.
func ParseLSN(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err != nil || err2 != nil {
		return 0, fmt.Errorf("%q is not a valid LSN", s)
	}
	return LSN(h<<32 | l), nil
}

// epoch is the time from which PostgreSQL counts microseconds.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// timeOf converts PostgreSQL's microseconds since epoch.
func timeOf(micros int64) time.Time {
	return time.UnixMicro(micros + epoch.UnixMicro()).UTC()
}

// Frame is one message of the streaming replication protocol.
type Frame struct {
	Data  []byte // a message of pgoutput; nil: this is a keepalive
	End   LSN    // current end of the server's log
	Reply bool   // the server asks for a status at once
}

// ParseFrame parses a frame. Data is part of b.
func ParseFrame(b []byte) (f Frame, err error) {
	switch {
	case len(b) >= 25 && b[0] == 'w': // start, end, time
		return Frame{Data: b[25:], End: LSN(binary.BigEndian.Uint64(b[9:]))}, nil
	case len(b) == 18 && b[0] == 'k': // end, time, reply
		return Frame{End: LSN(binary.BigEndian.Uint64(b[1:])), Reply: b[17] != 0}, nil
	}
	return f, errors.New("a replication frame of an unknown kind")
}

// AppendStatus appends a status for the server: the client needs nothing before flushed again. reply asks the server for a
// keepalive.
func AppendStatus(dst []byte, flushed LSN, now time.Time, reply bool) []byte {
	dst = append(dst, 'r')
	for range 3 { // written, flushed, applied: synchronous_commit decides which of them commits wait for
		dst = binary.BigEndian.AppendUint64(dst, uint64(flushed))
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(now.Sub(epoch).Microseconds()))
	if reply {
		return append(dst, 1)
	}
	return append(dst, 0)
}
