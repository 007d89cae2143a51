package pgwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/jackc/pgx/v5/pgconn"
)

// message returns a message of a server. Its announced length is by more larger than the message.
func message(kind byte, body string, more int) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)+more))) + body
}

func TestWhatAServerMaySend(t *testing.T) {
	const row = 1 << 20
	settings := ""
	for i := range 300 {
		settings += message('S', strings.Repeat("x", i)+"\x00on\x00", 0)
	}
	hash := func(n string) string { return message('R', "\x00\x00\x00\x0br=abc,s=QQ==,i="+n, 0) }
	tests := []struct {
		name, sent, want string
		tooLarge         bool
	}{
		{"the usual messages", message('R', "\x00\x00\x00\x0ar", 0) + hash("4096") + message('S', "a\x00b\x00", 0) + message('Z', "I", 0),
			"", false},
		{"the largest row", message('D', "", row), "", false},
		{"a row that is too large", message('D', "", row+1), "larger than max_row, 1MiB", true},
		{"a change that is too large", message('d', "", row+1), "larger than max_row, 1MiB", true},
		{"the largest length", "D\x7f\xff\xff\xff", "larger than max_row", true},
		{"the smallest length", "D\x80\x00\x00\x00", "does not speak PostgreSQL's protocol", false},
		{"a length of nothing", "D\x00\x00\x00\x00", "does not speak PostgreSQL's protocol", false},
		{"another protocol", "HTTP/1.1 400 Bad Request", "more than the allowed 65536", false},
		{"many columns", message('T', "", 9<<20), "more than the allowed 8388608", false},
		{"many parameters", message('t', "", 1<<20), "more than the allowed 524288", false},
		{"a long error", message('E', "", 2<<20), "more than the allowed 1048576", false},
		{"a long setting", message('S', "", 1<<20), "more than the allowed 65536", false},
		{"many settings", settings, "more than 256 settings", false},
		{"a password that is hashed for an hour", hash("2147483647"), "2147483647 iterations of the password's hash, but", false},
		{"a password that is hashed oddly", hash("99999999999999999999"), "99999999999999999999 iterations", false},
		{"a password that is hashed twice", hash("4096") + hash("4096"), "more than once", false},
		{"an answer without end", strings.Repeat(message('1', "", 0), 200_000), "more than 100000 messages", false},
		{"many rows", strings.Repeat(message('D', "\x00\x00", 0), 200_000), "", false},
		{"an answer without a request", message('Z', "I", 0) + message('N', "\x00", 0) + message('A', "\x00", 0) + message('C', "\x00", 0),
			"an answer without a request", false},
		{"notices without end", strings.Repeat(message('N', "\x00", 0), mostNotices+1), "more than 1000000 notices", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := New(row)
			w.Opened()
			r, _ := w.Frontend(strings.NewReader(test.sent), io.Discard)
			_, err := io.Copy(io.Discard, r)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if errors.Is(err, bounds.ErrTooLarge) != test.tooLarge {
				t.Errorf("%v: too large: %v", err, !test.tooLarge)
			}
		})
	}
}

func TestBudgets(t *testing.T) {
	flood := strings.Repeat(message('D', "SELECT 1\x00", 0), 2<<20)
	for _, test := range []struct {
		name  string
		state func(*Watch)
		want  string
	}{
		{"before the connection is ready", func(*Watch) {}, "before the connection was ready"},
		{"an answer that nobody reads", func(w *Watch) { w.Opened(); w.Unread() }, "larger than max_row"},
		{"an answer that somebody reads", func(w *Watch) { w.Unread()() }, ""},
	} {
		w := New(1 << 20)
		test.state(w)
		r, _ := w.Frontend(strings.NewReader(flood), io.Discard)
		if _, err := io.Copy(io.Discard, r); (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestRowsHaveTheColumnsThatAreAskedFor(t *testing.T) {
	conf, err := pgconn.ParseConfig(pgtest.Fake(t, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	for columns, want := range map[int]string{2: "", 3: "rows of 2 columns, not 3"} {
		conn, err := pgconn.ConnectConfig(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Run(t.Context(), conn, "SELECT")
		if n != 1 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		rows, err := Rows(t.Context(), conn, "SELECT", columns)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(rows) != 1 {
			t.Errorf("got %q, %v, want %q", rows, err, want)
		}
		_ = conn.Close(t.Context())
	}
}

// However the bytes are divided, the result is the same, and the client gets no byte that is refused.
func FuzzWatch(f *testing.F) {
	for _, text := range []string{
		message('R', "\x00\x00\x00\x0br=abc,s=QQ==,i=4096", 0), message('D', "abc", 0) + message('D', "", 1<<30),
		message('S', "a\x00b\x00", 0) + message('N', "\x00", 0) + message('Z', "I", 0), "HTTP/1.1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		read := func(r io.Reader) ([]byte, string) {
			w := New(1 << 10)
			r, _ = w.Frontend(r, io.Discard)
			got, err := io.ReadAll(r)
			if err == nil {
				return got, ""
			}
			return got, err.Error()
		}
		all, errAtOnce := read(bytes.NewReader(sent))
		some, errBytewise := read(iotest.OneByteReader(bytes.NewReader(sent)))
		if errAtOnce != errBytewise || !bytes.HasPrefix(sent, some) || errAtOnce == "" && !bytes.Equal(all, sent) {
			t.Errorf("at once: %q; byte by byte: %q", errAtOnce, errBytewise)
		}
	})
}
