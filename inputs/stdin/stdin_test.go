package stdin

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"go.uber.org/goleak"
)

// on returns an input that reads a pipe, and the pipe's other end.
func on(t *testing.T, component string) (*input, *os.File) {
	t.Helper()
	in := enginetest.New(t, engine.Inputs, component).(*input)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	in.file = r
	return in, w
}

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		in, w := on(t, `{"stdin": {}}`)
		go func() {
			_, _ = w.WriteString("a\nb\n\nc")
			w.Close()
		}()
		return in
	}, "a", "b", "c")
}

func TestReadWaitsForTheFirstLineOnly(t *testing.T) {
	defer goleak.VerifyNone(t)
	in, w := on(t, `{"stdin": {}}`)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("one\ntwo\nthr"); err != nil {
		t.Fatal(err)
	}
	b := engine.NewBatch(10)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 {
		t.Errorf("got %d messages, want the 2 whole lines", b.Len())
	}

	// Nothing more arrives, so Read waits until its context ends.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b = engine.NewBatch(10)
	if _, err := in.Read(ctx, b); !errors.Is(err, context.Canceled) || b.Len() != 0 {
		t.Errorf("got %v and %d messages", err, b.Len())
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMetadataHasTheLine(t *testing.T) {
	in, w := on(t, `{"stdin": {}}`)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer in.Close(t.Context())
	_, _ = w.WriteString("\nx\n")
	b := engine.NewBatch(10)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		if line, _ := m.Meta.Get("line"); line != 2 {
			t.Errorf("line %v, want 2", line)
		}
	}
}

func TestACompressedStream(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte("a\nb\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, in, want string }{
		{"a complete stream", string(packed), ""},
		{"a truncated stream", string(packed[:len(packed)-4]), "standard input: gzip data ends too early"},
		{"an uncompressed stream", "plain", "standard input: gzip data"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, w := on(t, `{"stdin": {"compression": "gzip"}}`)
			if err := in.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer in.Close(t.Context())
			go func() { _, _ = w.WriteString(tt.in); w.Close() }()
			n := 0
			for {
				b := engine.NewBatch(10)
				_, err = in.Read(t.Context(), b)
				n += b.Len()
				if err != nil {
					break
				}
			}
			switch {
			case tt.want == "" && (err != engine.ErrEnd || n != 2):
				t.Errorf("got %d messages and %v", n, err)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if e := (*engine.Error)(nil); tt.want != "" && (!errors.As(err, &e) || e.Class != engine.Permanent) {
				t.Errorf("%v is not permanent: the input would be opened again and again", err)
			}
		})
	}
}
