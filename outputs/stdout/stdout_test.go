package stdout

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// on returns an output that writes to a pipe, and the pipe's other end.
func on(t *testing.T, c Config) (*output, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	o := newOutput(c, w, "standard output")
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o, r
}

func TestOutput(t *testing.T) {
	enginetest.Output(t, func(t *testing.T) engine.Output {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return newOutput(Config{}, f, "standard output")
	}, "a", "b")
}

func TestAFullDiskUnderARedirectedStream(t *testing.T) {
	for name, flag := range map[string]int{"appended": os.O_APPEND, "overwritten": 0} {
		t.Run(name, enginetest.FileOutput{
			Make: func(t *testing.T, dir string) engine.Output {
				f, err := os.OpenFile(filepath.Join(dir, "out"), os.O_WRONLY|os.O_CREATE|flag, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return newOutput(Config{}, f, "standard output")
			},
			Name: "out", Payloads: []string{"a", "bbb", "cc"},
			Read: func(_ *testing.T, content []byte) []string { return strings.Fields(string(content)) },
		}.Fills)
	}
}

func TestNoMessageBecomesSeveralLines(t *testing.T) {
	enginetest.Separated(t, "\n", func(t *testing.T, payloads ...string) (string, []*engine.Error) {
		o, r := on(t, Config{})
		failed := enginetest.Failures(t, o, payloads...)
		o.file.Close()
		stream, _ := io.ReadAll(r)
		return string(stream), failed
	})
}

func TestNothingOvertakesARefusedMessageOfItsKey(t *testing.T) {
	o, r := on(t, Config{})
	b := engine.NewBatch(3)
	for _, p := range []string{"a", "b\nb", "c"} {
		b.Add([]byte(p)).Key = []byte("k")
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.Ended() {
		if string(m.Bytes()) == "c" && !errors.Is(m.Err(), engine.ErrBehind) {
			t.Errorf("the message after it failed with %v, want ErrBehind", m.Err())
		}
	}
	o.file.Close()
	if got, _ := io.ReadAll(r); string(got) != "a\n" {
		t.Errorf("got %q, want only what precedes it", got)
	}
}

func TestWrite(t *testing.T) {
	comma := framing.OutConfig{Framing: framing.OutFraming{CSV: &framing.OutCSV{Columns: []string{"a"}, Delimiter: ",",
		Header: true}}}
	tests := []struct {
		name   string
		c      Config
		writes [][]string
		want   string
	}{
		{"one message a line", Config{}, [][]string{{"a", "b"}, {"c"}}, "a\nb\nc\n"},
		{"a head comes once", Config{comma}, [][]string{{`{"a":1}`}, {`{"a":2}`, "{"}}, "a\n1\n2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, r := on(t, tt.c)
			for _, payloads := range tt.writes {
				if _, err := enginetest.Written(t, o, payloads...); err != nil {
					t.Error(err)
				}
			}
			o.file.Close()
			if got, _ := io.ReadAll(r); string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAClosedPipeEndsThePipeline(t *testing.T) {
	o, r := on(t, Config{})
	r.Close()
	fates, err := enginetest.Written(t, o, "a")
	var e *engine.Error
	if !errors.As(err, &e) || e.Class != engine.Permanent || !errors.Is(err, engine.ErrGone) {
		t.Errorf("got %v, want a permanent error", err)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "standard output was closed by its reader") {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(fates, []string{"failed"}) {
		t.Errorf("got %v", fates)
	}
}

func TestAReaderThatDoesNotReadIsATimeout(t *testing.T) {
	t.Parallel() // it waits for a real pipe
	o, r := on(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	big := strings.Repeat("x", 1<<20)
	b := enginetest.Batch("small", big)
	err := o.Write(ctx, b)
	var e *engine.Error
	if !errors.As(err, &e) || e.Class != engine.Timeout {
		t.Errorf("got %v, want a timeout", err)
	}
	if got := enginetest.WriteFates(b, err); !slices.Equal(got, []string{"safe", "failed"}) {
		t.Errorf("got %v: what is out is safe", got)
	}
	r.Close()
}

func TestAFullDevice(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	_, err = enginetest.Written(t, newOutput(Config{}, f, "standard output"), "a")
	if e := engine.ErrorOf(err, ""); !e.HoldsOutput() {
		t.Errorf("got %v, want an error that holds the output", err)
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "standard output") {
		t.Errorf("got %v", err)
	}
}

func TestAWriteAllocatesNothingEach(t *testing.T) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := newOutput(Config{}, f, "")
	b := enginetest.Batch(slices.Repeat([]string{strings.Repeat("x", 330)}, 256)...)
	if n := testing.AllocsPerRun(100, func() { _ = o.Write(t.Context(), b) }); n > 2 {
		t.Errorf("%v allocations for a write of 256 messages", n)
	}
}

func TestAWriteThatIsCutOffIsFinishedByTheNext(t *testing.T) {
	t.Parallel() // it waits for a real pipe
	o, r := on(t, Config{})
	long := strings.Repeat("x", 1<<20) // larger than the buffer of a pipe
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := o.Write(ctx, enginetest.Batch("a", long)); err == nil {
		t.Fatal("a write into a full pipe did not fail")
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		text <- string(all)
	}()
	if err := o.Write(t.Context(), enginetest.Batch("b")); err != nil {
		t.Fatal(err)
	}
	o.file.Close()
	if got := <-text; got != "a\n"+long+"\nb\n" {
		t.Errorf("got %d bytes ending in %.20q: want whole lines", len(got), got[max(0, len(got)-20):])
	}
}
