package queue_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
)

func TestDialFindsTheBrokerOfAScheme(t *testing.T) {
	b := queuetest.New("a")
	queue.Register("test", b.Dial)
	if got := queue.Schemes(); !slices.Equal(got, []string{"test"}) {
		t.Errorf("schemes %q", got)
	}
	s, err := queue.Dial(t.Context(), "test://host/")
	if err != nil || b.Open() != 1 {
		t.Fatal(err, b.Open())
	}
	if err := s.Close(); err != nil || b.Open() != 0 {
		t.Error(err, b.Open())
	}
	for address, want := range map[string]string{
		"nope://user:secret@host/":    `no broker is known for "nope://" (write one of: test)`,
		"test://user:secret@host:x y": "the broker's address is not a URL",
		"host":                        `no broker is known for "://"`,
	} {
		_, err := queue.Dial(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a scheme can be registered twice")
		}
	}()
	queue.Register("test", func(context.Context, *url.URL) (queue.Server, error) { return nil, nil })
}

// Other packages are tested with the fake, so it must hide, remove and return messages like a broker.
func TestTheFakeHidesWhatIsRead(t *testing.T) {
	ctx := t.Context()
	b := queuetest.New("a")
	b.Put("a", "1", "2", "3", "4")
	s, err := b.Dial(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := s.Reader(ctx, "a")
	second, _ := s.Reader(ctx, "a")
	ms, err := first.Read(ctx, 3)
	if err != nil || len(ms) != 3 || b.InFlight("a") != 3 {
		t.Fatal(err, len(ms), b.InFlight("a"))
	}
	rest, err := second.Read(ctx, 3)
	if err != nil || len(rest) != 1 {
		t.Fatal(err, len(rest))
	}
	if _, err := second.Read(ctx, 3); err != engine.ErrEnd {
		t.Errorf("an empty queue: %v", err)
	}
	if err := second.Done(ctx, []uint64{ms[0].Ref}); err == nil {
		t.Error("a reader has removed a message of another")
	}
	if err := errors.Join(first.Done(ctx, []uint64{ms[1].Ref}), first.Return(ctx, []uint64{ms[2].Ref}), first.Close(),
		second.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	got := b.Payloads("a")
	slices.Sort(got)
	if !slices.Equal(got, []string{"1", "3", "4"}) || b.InFlight("a") != 0 || b.Open() != 0 {
		t.Errorf("left %q, %d in flight, %d open", got, b.InFlight("a"), b.Open())
	}
}
