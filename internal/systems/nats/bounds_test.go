package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/boundstest"
	"pgregory.net/rapid"
)

const info = `INFO {"server_id":"x","max_payload":1000}` + "\r\n"

var wireCases = []struct {
	name, text string
	wrong      string // "": nothing
}{
	{"all kinds", info + "PING\r\nPONG\r\n+OK\r\n-ERR 'Permissions Violation for Publish to \"a\"'\r\nMSG a 1 0\r\n\r\nMSG a 1 r " +
		"5\r\nhello\r\nHMSG a 1 12 14\r\nNATS/1.0\r\n\r\nab\r\nping\r\n", ""},
	{"a message with lines", info + "MSG a 1 6\r\nPING\r\n\r\nPING\r\n", ""},
	{"a message of the longest size", info + "MSG a 1 1000\r\n" + strings.Repeat("x", 1000) + "\r\n", ""},
	{"a longer message", info + "MSG a 1 1001\r\n", "none may have more than 1000"},
	{"a message above any limit", "MSG a 1 4611686018427387904\r\n", "none may have more than 67108864"},
	{"a server with a limit above any", "INFO {\"max_payload\":4611686018427387904}\r\nMSG a 1 67108865\r\n", "67108864"},
	{"a length beyond any number", "MSG a 1 99999999999999999999\r\n", "not a length"},
	{"a negative length", "MSG a 1 -1\r\n", "not a length"},
	{"headers without end", "HMSG a 1 12 4611686018427387904\r\n", "none may have more"},
	{"a message that goes on", "MSG a 1 2\r\nabc\r\n", "longer than announced"},
	{"an endless line", "MSG " + strings.Repeat("a", 70<<10), "a line has over 65536 bytes"},
	{"an endless first line", "INFO " + strings.Repeat("a", 2<<20), "a line has over 1048576 bytes"},
	{"a flood", strings.Repeat("PING\r\n", 2*mostLines), "lines within a second"},
	{"a thousand other servers", "INFO {\"connect_urls\":[" + strings.Repeat(`"a:1",`, 1000) + "\"a:1\"]}\r\n",
		"announces 1001 other servers"},
	{"an error that ends the connection", "-ERR 'Maximum Payload \x1bViolation'\r\n", `reports "Maximum Payload \x1bViolation"`},
	{"an empty line", "\r\n", "an empty line"},
	{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", `begins with "HTTP/1.1"`},
}

func TestMessagesAreBounded(t *testing.T) {
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 7, 4 << 20} {
				err := boundstest.Feed(newMessages(), c.text, n)
				if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("in pieces of %d: %v, want %q", n, err, c.wrong)
				}
			}
		})
	}
}

// Checking a message does not allocate.
func TestMessagesAreCheckedInPlace(t *testing.T) {
	text := []byte(strings.Repeat("HMSG orders.new 12 _INBOX.abc.1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", 100))
	m := newMessages()
	if n := testing.AllocsPerRun(10, func() {
		if err := m.Check(text); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for 100 messages", n)
	}
}

// frame returns a frame of a WebSocket.
func frame(kind byte, text string) string {
	switch n := len(text); {
	case n < 126:
		return string([]byte{kind, byte(n)}) + text
	case n < 1<<16:
		return string(binary.BigEndian.AppendUint16([]byte{kind, 126}, uint16(n))) + text
	default:
		return string(binary.BigEndian.AppendUint64([]byte{kind, 127}, uint64(n))) + text
	}
}

const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

// Messages in WebSocket frames are checked like others, however they are divided into frames.
func TestMessagesInFramesAreBounded(t *testing.T) {
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{5, 200, 4 << 20} {
				var text strings.Builder
				text.WriteString(upgrade)
				for rest := c.text; rest != ""; {
					part := rest[:min(n, len(rest))]
					text.WriteString(frame(0x82, part) + frame(0x89, "anything goes"))
					rest = rest[len(part):]
				}
				err := boundstest.Feed(webSocket(), text.String(), 1000)
				if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("in frames of %d: %v, want %q", n, err, c.wrong)
				}
			}
		})
	}
	for name, text := range map[string]string{
		"over 65536 bytes":        "HTTP/1.1 101 Switching\r\n" + strings.Repeat("A: b\r\n", 20<<10),
		"was not negotiated":      upgrade + "\xc2\x05abcde",
		"frame of more than":      upgrade + "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
		"bytes":                   upgrade + "\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
		`a line begins with "NO"`: upgrade + frame(0x82, "NO\r\n"),
	} {
		if err := boundstest.Feed(webSocket(), text, 100); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// Valid messages pass, however they are divided.
func TestValidMessagesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := info
		for range rapid.IntRange(0, 6).Draw(t, "messages") {
			switch body := rapid.StringN(0, 40, 300).Draw(t, "body"); rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				text += "PING\r\n"
			case 1:
				text += fmt.Sprintf("MSG a.b 12 %d\r\n%s\r\n", len(body), body)
			case 2:
				text += fmt.Sprintf("MSG a.b 12 _INBOX.x %d\r\n%s\r\n", len(body), body)
			default:
				text += fmt.Sprintf("HMSG a.b 12 12 %d\r\nNATS/1.0\r\n\r\n%s\r\n", 12+len(body), body)
			}
		}
		if err := boundstest.Feed(newMessages(), text, rapid.IntRange(1, 50).Draw(t, "pieces")); err != nil {
			t.Fatal(err)
		}
	})
}

// A client that trusts every length that passes the check allocates no more than is allowed.
func FuzzMessages(f *testing.F) {
	for _, c := range wireCases {
		if len(c.text) < 1<<10 {
			f.Add([]byte(c.text), 3)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		err := boundstest.Feed(newMessages(), string(text), len(text)+1)
		if again := boundstest.Feed(newMessages(), string(text), max(1, n%1000)); (err == nil) != (again == nil) {
			t.Fatalf("in one piece: %v, in parts: %v", err, again)
		}
		_ = boundstest.Feed(webSocket(), upgrade+string(text), max(1, n%1000))
		if err != nil {
			return
		}
		for rest := string(text); ; {
			line, after, found := strings.Cut(rest, "\n")
			if !found {
				return
			}
			rest = after
			words := strings.Fields(line)
			if verb := strings.ToUpper(words[0]); verb != "MSG" && verb != "HMSG" {
				continue
			}
			n, err := strconv.Atoi(words[len(words)-1])
			if errors.Is(err, strconv.ErrSyntax) && len(words) == 1 {
				return
			}
			if err != nil || n < 0 || n > mostPayload {
				t.Fatalf("%q gets through", line)
			}
			if len(rest) < n+2 {
				return
			}
			rest = rest[n+2:]
		}
	})
}
