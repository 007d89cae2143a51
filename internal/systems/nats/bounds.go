package nats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/network/bounds"
)

const (
	mostPayload = 64 << 20 // bytes of one message, headers included: more than that no server can be set to
	longestLine = 64 << 10 // bytes; the subjects of a message
	longestInfo = 1 << 20  // bytes; what a server says of itself, with the addresses of its cluster
	mostOthers  = 256      // addresses of its cluster
	mostLines   = 10_000   // lines within a second other than messages
)

const lineEnd = "\r\n"

var (
	errNotNATS = errors.New("the server does not speak the protocol of NATS (check the address, and what listens there)")
	errLonger  = fmt.Errorf("%w: a message is longer than announced", errNotNATS)
)

// messages is a [bounds.Check] of what a server sends. The client makes room for as long a message as is announced, and
// panics in a goroutine of its own where that is more than there can be. See [newMessages].
type messages struct {
	bounds.Lines
	most   int64       // bytes of a message: what the server has said itself
	others bounds.Rate // lines other than messages
	ends   bool        // the next line is the end of that of a message
}

func newMessages() *messages {
	m := &messages{}
	m.Lines = bounds.Lines{First: m.first, Next: m.next, Strange: errNotNATS}
	return m
}

// first is [bounds.Lines.First].
func (m *messages) first(first byte) (most int, err error) {
	switch {
	case m.ends && first != '\r':
		return 0, errLonger
	case m.ends:
		return len(lineEnd), nil
	case first == 'I' || first == 'i':
		return longestInfo, nil
	}
	return longestLine, nil
}

// next is [bounds.Lines.Next]. It allocates nothing for a message.
func (m *messages) next(line []byte) (pass int64, err error) {
	if m.ends {
		if m.ends = false; string(line) != lineEnd {
			return 0, errLonger
		}
		return 0, nil
	}
	verb, rest := word(line)
	switch {
	case len(verb) == 0:
		return 0, fmt.Errorf("%w: an empty line", errNotNATS)
	case is(verb, "MSG"), is(verb, "HMSG"):
		last := bytes.TrimSpace(rest)
		n, err := size(last[bytes.LastIndexAny(last, " \t")+1:])
		if err != nil {
			return 0, err
		}
		if n > m.limit() {
			return 0, bounds.TooLarge("the server announces a message of %d bytes, and none may have more than %d", n, m.limit())
		}
		m.ends = true
		return n, nil
	case is(verb, "INFO"):
		var info struct {
			MaxPayload int64    `json:"max_payload"`
			Others     []string `json:"connect_urls"`
		}
		if json.Unmarshal(rest, &info) == nil && info.MaxPayload > 0 {
			m.most = info.MaxPayload
		}
		if len(info.Others) > mostOthers {
			return 0, bounds.TooLarge("the server names %d others, and the client would try them all", len(info.Others))
		}
		return 0, m.counted()
	case is(verb, "-ERR"):
		if err := fatal(rest); err != nil {
			return 0, err
		}
		return 0, m.counted()
	case is(verb, "PING"), is(verb, "PONG"), is(verb, "+OK"):
		return 0, m.counted()
	}
	return 0, fmt.Errorf("%w: a line begins with %.20q", errNotNATS, verb)
}

// word is the first word of a line, and what follows it.
func word(line []byte) (first, rest []byte) {
	line = bytes.TrimSpace(line)
	end := bytes.IndexAny(line, " \t")
	if end < 0 {
		return line, nil
	}
	return line[:end], line[end:]
}

// is compares a word in any case.
func is(word []byte, verb string) bool {
	return len(word) == len(verb) && strings.EqualFold(string(word), verb)
}

// survived begin the errors of a server after which the client goes on, or connects again. After others it would close the
// connection for good.
var survived = []string{"stale connection", "maximum connections exceeded", "maximum account active connections exceeded",
	"unknown protocol operation", "permissions violation", "maximum subscriptions exceeded", "authorization violation",
	"user authentication expired", "user authentication revoked", "account authentication expired"}

// fatal makes an error of a server that of the connection, so that the client connects again.
func fatal(said []byte) error {
	text := strings.Trim(string(bytes.TrimSpace(said)), "'")
	for _, s := range survived {
		if strings.HasPrefix(strings.ToLower(text), s) {
			return nil
		}
	}
	return fmt.Errorf("the server says %.200q, and ends the connection", text)
}

// counted counts a line that is no message.
func (m *messages) counted() error {
	if m.others.Over(mostLines) {
		return fmt.Errorf("%w: it sent over %d lines within a second", errNotNATS, mostLines)
	}
	return nil
}

// limit is the most bytes of a message: as the server has said, up to what any server can be set to.
func (m *messages) limit() int64 {
	if m.most > 0 && m.most < mostPayload {
		return m.most
	}
	return mostPayload
}

func size(word []byte) (int64, error) {
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: %.20q is not a length", errNotNATS, word)
		}
	}
	n, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %.20q is not a length", errNotNATS, word)
	}
	return n, nil
}

// webSocket is a [bounds.Check] of a connection that becomes one of frames with messages in them, after a line and headers.
func webSocket() bounds.Check {
	inner, data := newMessages(), false
	return &upgraded{frames: bounds.Frames{First: 2, Next: func(head []byte) (length int64, more int, err error) {
		if head[0]&0x70 != 0 { // compression, that was not agreed upon
			return 0, 0, fmt.Errorf("%w: a frame has bits that nobody has asked for", errNotNATS)
		}
		n := int64(head[1] & 0x7f)
		switch {
		case n == 126 && len(head) == 2:
			return 0, 2, nil
		case n == 127 && len(head) == 2:
			return 0, 8, nil
		case n == 126:
			n = int64(binary.BigEndian.Uint16(head[2:]))
		case n == 127:
			if n = int64(binary.BigEndian.Uint64(head[2:])); n < 0 || n > mostPayload {
				return 0, 0, bounds.TooLarge("the server announces a frame of more than %d bytes", mostPayload)
			}
		}
		data = head[0]&8 == 0
		return int64(len(head)) + n, 0, nil
	}, Body: func(p []byte) error {
		if !data {
			return nil
		}
		return inner.Check(p)
	}}}
}

// upgraded is what follows an HTTP response.
type upgraded struct {
	seen   int // bytes of the response
	end    int // bytes of its empty line that were the last
	frames bounds.Frames
}

// Check implements [bounds.Check].
func (u *upgraded) Check(p []byte) error {
	const empty = "\r\n\r\n"
	for u.end < len(empty) {
		if len(p) == 0 {
			return nil
		}
		switch {
		case p[0] == empty[u.end]:
			u.end++
		case p[0] == '\r':
			u.end = 1
		default:
			u.end = 0
		}
		if u.seen++; u.seen > longestLine {
			return fmt.Errorf("%w: its response has over %d bytes", errNotNATS, longestLine)
		}
		p = p[1:]
	}
	return u.frames.Check(p)
}
