package pipe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/components/pipe"
)

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		env := enginetest.Env()
		in, err := newInput(Config{Name: "x"}, env)
		if err != nil {
			t.Fatal(err)
		}
		link := pipe.Of(env.Shared, "x")
		link.AddWriter()
		go func() {
			link.Write(context.Background(), enginetest.Batch("a", "b", "c", "d"))
			link.EndWriter()
		}()
		return in
	}, "a", "b", "c", "d")
}

func TestAPipeWithoutWritersDoesNotOpen(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"pipe": "x"}`)
	if err := in.(engine.Opener).Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `nothing writes to pipe "x"`) {
		t.Errorf("got %v", err)
	}
}

// A writer without messages may be closed before the reader opens.
func TestAReaderThatOpensAfterTheLastWriterEnds(t *testing.T) {
	env := enginetest.Env()
	in, err := newInput(Config{Name: "x"}, env)
	if err != nil {
		t.Fatal(err)
	}
	link := pipe.Of(env.Shared, "x")
	link.AddWriter()
	link.EndWriter()
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); !errors.Is(err, engine.ErrEnd) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestOpenedAgainItIsWrittenTo(t *testing.T) {
	env := enginetest.Env()
	made, err := newInput(Config{Name: "x"}, env)
	if err != nil {
		t.Fatal(err)
	}
	in := made.(*input)
	link := pipe.Of(env.Shared, "x")
	link.AddWriter()
	for range 2 {
		if err := errors.Join(in.Open(t.Context()), in.Close(t.Context()), in.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if link.CheckReaders() == nil {
			t.Error("a reader is left")
		}
	}
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	go link.Write(t.Context(), enginetest.Batch("a"))
	b := engine.NewBatch(1)
	if _, err := in.Read(t.Context(), b); err != nil || b.Len() != 1 {
		t.Errorf("got %d messages and %v", b.Len(), err)
	}
}

func TestItFollowsItsWriters(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"pipe": "x"}`)
	if got := engine.TraitsOf(in).Follows; got != "x" {
		t.Errorf("got %q", got)
	}
	if got := engine.TraitsOf(in).TakesBack; got != engine.TakesOne {
		t.Errorf("got %v", got)
	}
}
