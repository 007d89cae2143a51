package framing

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// halting says ErrLater before each of its bytes.
type halting struct {
	r    io.Reader
	next bool
}

func (h *halting) Read(p []byte) (int, error) {
	if h.next = !h.next; h.next {
		return 0, ErrLater
	}
	return h.r.Read(p)
}

// FuzzPlace checks that a stream continues after any record as if it had never stopped, and
// that one that arrives bit by bit has the same records.
func FuzzPlace(f *testing.F) {
	f.Add(0, 5, []byte("\xef\xbb\xbfa\r\n\nbbbbbbbbb\nc"))
	f.Add(3, 50, []byte("a,b\n1,\"x\n\"\"y\"\n2,\n"))
	f.Add(4, 50, []byte("xabyaab"))
	f.Add(5, 5, []byte("\x00\x01a\x00\x00\x00\x09123456789\xff\xffb"))
	f.Add(6, 50, []byte("1 a\n b\n2 c\n x"))
	f.Add(7, 50, []byte(`{"payload":"x"}`+"\n\n"+`{"payload":"y"}`))
	f.Add(9, 50, []byte("1;\"2\";3\n\"\n"))
	f.Fuzz(func(t *testing.T, kind, limit int, data []byte) {
		framing := framings[uint(kind)%uint(len(framings))]
		cfg := config(framing, 1+int(uint(limit)%1000))
		if framing.Tar != nil || bytes.LastIndex(data, utf8BOM) > 0 { // a mark after a first line too long is trimmed
			return
		}
		want, places := drained(t, cfg.Reader(bytes.NewReader(data)))
		got, _ := drained(t, cfg.Reader(&halting{r: iotest.OneByteReader(bytes.NewReader(data))}))
		if !slices.Equal(got, want) {
			t.Errorf("bit by bit %q, at once %q", got, want)
		}
		for i, at := range places {
			if i > 0 && at.Offset <= places[i-1].Offset {
				t.Fatalf("the places do not rise: %v", places)
			}
			if !cfg.Resumes() {
				continue
			}
			rest, _ := drained(t, cfg.Resume(bytes.NewReader(data[at.Offset:]), at))
			if !slices.Equal(rest, want[i+1:]) {
				t.Errorf("behind %v: %q, want %q", at, rest, want[i+1:])
			}
		}
	})
}

// drained reads to the end.
func drained(t *testing.T, r Reader) (all []string, places []Place) {
	for {
		switch rec, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return all, places
		case errors.Is(err, ErrLater):
		case err != nil:
			t.Fatal(err)
		default:
			text := show(rec)
			if rec.Err != nil { // its text counts line ends that reads may part
				text = "!" + string(rec.Err.Class)
			}
			all, places = append(all, text), append(places, r.Place())
		}
	}
}
