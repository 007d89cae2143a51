package bounds

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

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
	if err := call(nil); err == nil || !strings.Contains(err.Error(), "out of range") || !strings.Contains(err.Error(), "TestRecoverSaysWhere") {
		t.Error(err)
	}
}
