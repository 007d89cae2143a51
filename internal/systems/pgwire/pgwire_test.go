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

// message is one of a server, which announces more bytes than it has.
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
		{"what is usual", message('R', "\x00\x00\x00\x0ar", 0) + hash("4096") + message('S', "a\x00b\x00", 0) + message('Z', "I", 0), "", false},
		{"a row of some size", message('D', "", row), "", false},
		{"a row that is too large", message('D', "", row+1), "larger than max_row, 1MiB", true},
		{"a change that is too large", message('d', "", row+1), "larger than max_row, 1MiB", true},
		{"the largest length", "D\x7f\xff\xff\xff", "larger than max_row", true},
		{"the smallest length", "D\x80\x00\x00\x00", "does not speak PostgreSQL's protocol", false},
		{"a length of nothing", "D\x00\x00\x00\x00", "does not speak PostgreSQL's protocol", false},
		{"another protocol", "HTTP/1.1 400 Bad Request", "which has 65536 at most", false},
		{"many columns", message('T', "", 9<<20), "which has 8388608 at most", false},
		{"many parameters", message('t', "", 1<<20), "which has 524288 at most", false},
		{"a long error", message('E', "", 2<<20), "which has 1048576 at most", false},
		{"a long setting", message('S', "", 1<<20), "which has 65536 at most", false},
		{"many settings", settings, "more than 256 settings", false},
		{"a password that is hashed for an hour", hash("2147483647"), "hashed 2147483647 times, and flowd does it 1000000 times at most", false},
		{"a password that is hashed oddly", hash("99999999999999999999"), "hashed 99999999999999999999 times", false},
		{"a password that is hashed twice", hash("4096") + hash("4096"), "more than once", false},
		{"an answer without end", strings.Repeat(message('1', "", 0), 200_000), "more than 100000 messages", false},
		{"as many rows as it likes", strings.Repeat(message('D', "\x00\x00", 0), 200_000), "", false},
		{"another answer", message('Z', "I", 0) + message('N', "\x00", 0) + message('A', "\x00", 0) + message('C', "\x00", 0),
			"nobody has asked for", false},
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

// However the bytes are cut up, they are judged alike, and the client is not given a byte that is refused.
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
		all, whole := read(bytes.NewReader(sent))
		bit, pieces := read(iotest.OneByteReader(bytes.NewReader(sent)))
		if whole != pieces || !bytes.HasPrefix(sent, bit) || whole == "" && !bytes.Equal(all, sent) {
			t.Errorf("as a whole: %q; in pieces: %q", whole, pieces)
		}
	})
}
