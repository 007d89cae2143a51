package redis

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/testing/boundstest"
	"pgregory.net/rapid"
)

func TestRepliesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name, text string
		wrong      string // "": nothing
	}{
		{"all kinds", "+OK\r\n-ERR no\r\n:12\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n$3\r\na\r\n\r\n*2\r\n*1\r\n$1\r\nx\r\n:1\r\n+OK\r\n", ""},
		{"many small replies", strings.Repeat("$5\r\nhello\r\n", 1000), ""},
		{"the longest list", "*30\r\n" + strings.Repeat(":1\r\n", 30), ""},
		{"a longer list", "*2147483647\r\n", "max_reply"},
		{"a list beyond any number", "*99999999999999999999\r\n", "not a length"},
		{"a text that is too long", "$1025\r\n", "max_reply"},
		{"a text of a negative length", "$-2\r\n", "not a length"},
		{"texts that are too long together", "*3\r\n$400\r\n" + strings.Repeat("a", 400) + "\r\n$600\r\n", "max_reply"},
		{"numbers that are too long together", "*2\r\n" + strings.Repeat("+"+strings.Repeat("1", 600)+"\r\n", 2), "max_reply"},
		{"lists in lists", strings.Repeat("*1\r\n", 200), "max_reply"},
		{"an endless line", "+" + strings.Repeat("a", 70<<10), "a line has over"},
		{"a line without CR", "+OK\n", "does not end with CR"},
		{"version 3", "%2\r\n+a\r\n~1\r\n#t\r\n$1\r\nb\r\n_\r\n>2\r\n+a\r\n,1.5\r\n=7\r\ntxt:abc\r\n(12\r\n!3\r\nERR\r\n", ""},
		{"a map of many", "%2147483647\r\n", "max_reply"},
		{"attributes", "|1\r\n", "an answer begins with '|'"},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "an answer begins with 'H'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 7, 1 << 20} {
				err := boundstest.Feed(newReplies(1024), c.text, n)
				if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("in pieces of %d: %v, want %q", n, err, c.wrong)
				}
				if large := strings.Contains(c.wrong, "max_reply"); errors.Is(err, bounds.ErrTooLarge) != large {
					t.Errorf("in pieces of %d: too large: %v", n, !large)
				}
			}
		})
	}
	if err := boundstest.Feed(newReplies(1<<20), strings.Repeat("*1\r\n", 200), 1000); err == nil ||
		!strings.Contains(err.Error(), "more than 128 deep") {
		t.Error(err)
	}
}

// Checking a reply does not allocate.
func TestRepliesAreCheckedInPlace(t *testing.T) {
	text := []byte(strings.Repeat("*2\r\n$5\r\nhello\r\n*2\r\n:12\r\n$2\r\nab\r\n", 100))
	r := newReplies(1 << 20)
	if n := testing.AllocsPerRun(10, func() {
		if err := r.Check(text); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for 100 replies", n)
	}
}

// A client that trusts every reply that passes the check needs no more memory and stack than is allowed. The result does not depend on
// how the bytes are divided.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{"*2\r\n$3\r\nabc\r\n:1\r\n", "*2147483647\r\n", "$99\r\n", "-ERR\r\n", "*1\r\n*1\r\n*1\r\n",
		"$-1\r\n*-1\r\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		const most = 4096
		atOnce, inParts := newReplies(most), newReplies(most)
		err := boundstest.Feed(atOnce, string(text), len(text)+1)
		if again := boundstest.Feed(inParts, string(text), max(1, n%1000)); (err == nil) != (again == nil) {
			t.Fatalf("in one piece: %v, in parts: %v", err, again)
		}
		if err != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(text))
		for {
			used := 0
			if readTrusting(t, in, &used, 0) != nil {
				return
			}
			if used > most {
				t.Fatalf("%q takes %d bytes", text, used)
			}
		}
	})
}

// readTrusting reads a reply like a client that trusts the server.
func readTrusting(t *testing.T, in *bufio.Reader, used *int, depth int) error {
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if depth > deepestList {
		t.Fatal("too deep")
	}
	n := 0
	for _, c := range strings.Trim(line[1:], "\r\n-") {
		n = 10*n + int(c-'0')
	}
	switch {
	case strings.HasPrefix(line[1:], "-"):
	case strings.Contains(kindsOfText, line[:1]):
		if *used += n; *used > 1<<20 {
			t.Fatalf("%d bytes", *used)
		}
		_, err = io.CopyN(io.Discard, in, int64(n)+2)
	case strings.Contains(kindsOfList+kindsOfMap, line[:1]):
		if line[0] == '%' {
			n *= 2
		}
		if *used += 16 * n; *used > 1<<20 {
			t.Fatalf("%d bytes", *used)
		}
		for range n {
			if err := readTrusting(t, in, used, depth+1); err != nil {
				return err
			}
		}
	}
	return err
}

// Valid replies pass, however they are divided.
func TestValidRepliesPass(t *testing.T) {
	var reply func(t *rapid.T, depth int) string
	reply = func(t *rapid.T, depth int) string {
		switch kind := rapid.SampledFrom([]string{"+", "-", ":", "$", "*", "nil"}).Draw(t, "kind"); {
		case kind == "$":
			text := rapid.StringN(0, 50, 200).Draw(t, "text")
			return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n"
		case kind == "nil":
			return rapid.SampledFrom([]string{"$-1\r\n", "*-1\r\n"}).Draw(t, "nil")
		case kind == "*" && depth < 5:
			n := rapid.IntRange(0, 4).Draw(t, "parts")
			text := "*" + strconv.Itoa(n) + "\r\n"
			for range n {
				text += reply(t, depth+1)
			}
			return text
		default:
			return ":" + strconv.Itoa(rapid.Int().Draw(t, "number")) + "\r\n"
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newReplies(1 << 20)
		for range 3 {
			if err := boundstest.Feed(r, reply(t, 0), rapid.IntRange(1, 40).Draw(t, "pieces")); err != nil {
				t.Fatal(err)
			}
		}
		if err := boundstest.Feed(r, "?", 1); len(r.open) > 0 || r.size > 0 || err == nil { // no reply begins with ?
			t.Fatalf("a reply is still open: %+v", r)
		}
	})
}
