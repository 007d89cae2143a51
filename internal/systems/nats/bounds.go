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
	mostPayload = 64 << 20 // bytes of one message, including headers; no server can be configured to accept more
	longestLine = 64 << 10 // bytes of the line before a message, which has its subjects
	longestInfo = 1 << 20  // bytes of an INFO line, which has the addresses of the server's cluster
	mostOthers  = 256      // addresses in an INFO line
	mostLines   = 10_000   // lines within a second, other than messages
)

const lineEnd = "\r\n"

var (
	errNotNATS = errors.New("the server does not speak the protocol of NATS (check the address, and what listens there)")
	errLonger  = fmt.Errorf("%w: a message is longer than announced", errNotNATS)
)

// messages is a [bounds.Check] of what a server sends. The client library allocates memory for the announced length of a
// message, and panics in one of its own goroutines if the length is too large for that. See [newMessages].
type messages struct {
	bounds.Lines
	most   int64       // the largest message in bytes, as the server has announced it; 0: it has not
	others bounds.Rate // lines other than messages
	ends   bool        // the next line is the line break that ends a message
}

func newMessages() *messages {
	m := &messages{}
	m.Lines = bounds.Lines{First: m.first, Next: m.next, Strange: errNotNATS}
	return m
}

// first implements [bounds.Lines.First].
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

// next implements [bounds.Lines.Next]. It does not allocate for a message.
func (m *messages) next(line []byte) (pass int64, err error) {
	if m.ends {
		if m.ends = false; string(line) != lineEnd {
			return 0, errLonger
		}
		return 0, nil
	}
	verb, rest := cutWord(line)
	switch {
	case len(verb) == 0:
		return 0, fmt.Errorf("%w: an empty line", errNotNATS)
	case isVerb(verb, "MSG"), isVerb(verb, "HMSG"):
		last := bytes.TrimSpace(rest)
		n, err := sizeIn(last[bytes.LastIndexAny(last, " \t")+1:])
		if err != nil {
			return 0, err
		}
		if n > m.limit() {
			return 0, bounds.TooLarge("the server announces a message of %d bytes, but none may have more than %d", n, m.limit())
		}
		m.ends = true
		return n, nil
	case isVerb(verb, "INFO"):
		var info struct {
			MaxPayload int64    `json:"max_payload"`
			Others     []string `json:"connect_urls"`
		}
		if json.Unmarshal(rest, &info) == nil && info.MaxPayload > 0 {
			m.most = info.MaxPayload
		}
		if len(info.Others) > mostOthers {
			return 0, bounds.TooLarge("the server announces %d other servers, more than the client may try", len(info.Others))
		}
		return 0, m.countLine()
	case isVerb(verb, "-ERR"):
		if err := fatal(rest); err != nil {
			return 0, err
		}
		return 0, m.countLine()
	case isVerb(verb, "PING"), isVerb(verb, "PONG"), isVerb(verb, "+OK"):
		return 0, m.countLine()
	}
	return 0, fmt.Errorf("%w: a line begins with %.20q", errNotNATS, verb)
}

// cutWord returns the first word of a line, and what follows it.
func cutWord(line []byte) (first, rest []byte) {
	line = bytes.TrimSpace(line)
	end := bytes.IndexAny(line, " \t")
	if end < 0 {
		return line, nil
	}
	return line[:end], line[end:]
}

// isVerb reports whether a word is a verb in any case.
func isVerb(word []byte, verb string) bool {
	return len(word) == len(verb) && strings.EqualFold(string(word), verb)
}

// survived are the beginnings of server errors after which the client library continues, or connects again. After any other
// error, it would close the connection for good.
var survived = []string{"stale connection", "maximum connections exceeded", "maximum account active connections exceeded",
	"unknown protocol operation", "permissions violation", "maximum subscriptions exceeded", "authorization violation",
	"user authentication expired", "user authentication revoked", "account authentication expired"}

// fatal returns an error if the client library would close the connection for good because of a server error. The returned
// error ends the connection instead, so that the client connects again.
func fatal(said []byte) error {
	text := strings.Trim(string(bytes.TrimSpace(said)), "'")
	for _, s := range survived {
		if strings.HasPrefix(strings.ToLower(text), s) {
			return nil
		}
	}
	return fmt.Errorf("the server reports %.200q, and closes the connection", text)
}

// countLine counts a line other than a message.
func (m *messages) countLine() error {
	if m.others.Over(mostLines) {
		return fmt.Errorf("%w: it has sent over %d lines within a second", errNotNATS, mostLines)
	}
	return nil
}

// limit returns the largest size of a message in bytes: the server's own limit, up to mostPayload.
func (m *messages) limit() int64 {
	if m.most > 0 && m.most < mostPayload {
		return m.most
	}
	return mostPayload
}

// sizeIn returns the length of a message that a word announces.
func sizeIn(word []byte) (int64, error) {
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

// webSocket returns a [bounds.Check] of a WebSocket connection: an HTTP response, and then frames with parts of messages.
func webSocket() bounds.Check {
	inner, data := newMessages(), false
	return &upgraded{frames: bounds.Frames{First: 2, Next: func(head []byte) (length int64, more int, err error) {
		if head[0]&0x70 != 0 { // compression, which was not negotiated
			return 0, 0, fmt.Errorf("%w: a frame uses an extension that was not negotiated", errNotNATS)
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

// upgraded is a [bounds.Check] of an HTTP response followed by frames.
type upgraded struct {
	seen   int // bytes of the response so far
	end    int // how many of the last bytes may begin the empty line that ends the response
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
