package bounds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// short frames are a length in two bytes, and as many bytes; with 0xff, a third byte says that they are too long.
func short() *Frames {
	return &Frames{First: 2, Next: func(head []byte) (int64, int, error) {
		n := int64(binary.BigEndian.Uint16(head))
		switch {
		case head[0] == 0xff && len(head) == 2:
			return 0, 1, nil
		case head[0] == 0xff:
			return 0, 0, TooLarge("a frame of %d bytes", n)
		}
		return n + 2, 0, nil
	}}
}

// However the bytes are cut up, the same frames are found.
func TestFramesAreFoundInAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []byte
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			body := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "body")
			sent = append(binary.BigEndian.AppendUint16(sent, uint16(len(body))), body...)
		}
		bad := len(sent)
		sent = append(sent, 0xff, 1, 2, 3)
		f := short()
		for at := 0; at < len(sent); {
			n := rapid.IntRange(1, len(sent)-at).Draw(t, "piece")
			err := f.Check(sent[at : at+n])
			if at += n; (err != nil) != (at >= bad+3) {
				t.Fatalf("after %d of %d bytes: %v", at, bad, err)
			}
			if err != nil {
				if !errors.Is(err, ErrTooLarge) {
					t.Fatal(err)
				}
				return
			}
		}
	})
}

// However the bytes are cut up, the same lines are found, and what they announce is passed over.
func TestLinesAreFoundInAnyPieces(t *testing.T) {
	strange := errors.New("strange")
	rapid.Check(t, func(t *rapid.T) {
		var want, got []string
		var sent []byte
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			body := rapid.SliceOfN(rapid.SampledFrom([]byte("a\n!")), 0, 30).Draw(t, "body")
			line := fmt.Sprintf("%d\n", len(body))
			want, sent = append(want, line), append(append(sent, line...), body...)
		}
		bad := len(sent)
		sent = append(sent, "123456789"...)
		l := &Lines{Strange: strange, First: func(first byte) (int, error) {
			if first < '0' || first > '9' {
				t.Fatalf("a line begins with %q", first)
			}
			return 8, nil
		}, Next: func(line []byte) (int64, error) {
			got = append(got, string(line))
			return strconv.ParseInt(string(line[:len(line)-1]), 10, 64)
		}}
		for at := 0; at < len(sent); {
			n := rapid.IntRange(1, len(sent)-at).Draw(t, "piece")
			err := l.Check(sent[at : at+n])
			if at += n; (err != nil) != (at > bad+8) || err != nil && !errors.Is(err, strange) {
				t.Fatalf("after %d of %d bytes: %v", at, bad, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the lines are %q, want %q", got, want)
		}
	})
}

func TestRateIsThatOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Rate
		for range 3 {
			for range 5 {
				if r.Over(5) {
					t.Fatal("5 are over 5")
				}
			}
			if !r.Over(5) {
				t.Fatal("6 are not over 5")
			}
			time.Sleep(time.Second + 1)
		}
	})
}

func TestConnEndsWhatIsRefused(t *testing.T) {
	server, client := net.Pipe()
	c := Conn(client, short())
	go func() {
		_, _ = server.Write([]byte{0, 1, 'a'})
		_, _ = server.Write([]byte{0xff, 0xff, 0})
	}()
	p := make([]byte, 100)
	if n, err := c.Read(p); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for range 2 {
		if n, err := c.Read(p); n != 0 || !errors.Is(err, ErrTooLarge) {
			t.Fatal(n, err)
		}
	}
	if _, err := server.Read(p); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is still open: %v", err)
	}
}

func TestRecoverSaysWhere(t *testing.T) {
	call := func(p []byte) (err error) {
		defer Recover(&err)
		if len(p) > 0 {
			return io.EOF
		}
		return errors.New(string(p[1:2]))
	}
	if err := call([]byte{1}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := call(nil); err == nil || !strings.Contains(err.Error(), "out of range") ||
		!strings.Contains(err.Error(), "TestRecoverSaysWhere") {
		t.Error(err)
	}
}
