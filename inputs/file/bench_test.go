package file

import (
	"bytes"
	"os"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// BenchmarkRead reads lines as the engine does: without a checkpoint, with one, and with one while following.
func BenchmarkRead(b *testing.B) {
	const lines = 100_000
	b.Chdir(b.TempDir())
	text := bytes.Repeat(append(bytes.Repeat([]byte("x"), 300), '\n'), lines)
	if err := os.WriteFile("in.log", text, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, tt := range []struct{ name, options string }{
		{"plain", ""}, {"checkpoint", `, "checkpoint": "cp"`}, {"follow", `, "checkpoint": "cp", "follow": true`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				readFile(b, `{"file": {"path": "in.log"`+tt.options+`}}`, lines)
				_ = os.Remove("cp")
			}
		})
	}
}

func readFile(b *testing.B, component string, lines int) {
	in := enginetest.New(b, engine.Inputs, component)
	if err := in.(engine.Opener).Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	results := make([]engine.Result, 0, 256)
	for n := 0; n < lines; {
		batch := engine.NewBatch(256)
		acker, err := in.Read(b.Context(), batch)
		if err != nil && err != engine.ErrEnd {
			b.Fatal(err)
		}
		results = results[:0]
		for m := range batch.All() {
			results = append(results, engine.Result{Ref: m.Ref})
		}
		n += len(results)
		if acker != nil {
			if _, err := acker.Ack(b.Context(), results); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := in.(engine.Closer).Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
