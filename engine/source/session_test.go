package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/source"
)

// recorded is a connection that records the calls of a Session.
type recorded struct {
	name string
	did  *[]string
}

func (c *recorded) Close(_ context.Context, last bool) error {
	*c.did = append(*c.did, fmt.Sprintf("close %s, last %t", c.name, last))
	return nil
}

func (c *recorded) Stop(context.Context) error {
	*c.did = append(*c.did, "stop "+c.name)
	return nil
}

func TestASessionHasOneConnectionAtATime(t *testing.T) {
	var did []string
	var refuse error
	made := 0
	s := source.NewSession(func(context.Context) (*recorded, error) {
		if refuse != nil {
			return nil, refuse
		}
		made++
		return &recorded{fmt.Sprint(made), &did}, nil
	})
	ctx := t.Context()
	if _, ok := s.Connected(); ok || s.Conn() != nil {
		t.Error("there is a connection before Open")
	}
	if err := errors.Join(s.Stop(ctx), s.Close(ctx)); err != nil || len(did) > 0 {
		t.Errorf("stop and close before Open: %v, did %q", err, did)
	}
	if err := s.Open(ctx); err != nil || s.Stopping() {
		t.Fatalf("open: %v, stopping %t", err, s.Stopping())
	}
	if err := errors.Join(s.Close(ctx), s.Close(ctx)); err != nil { // as after a failure of the input
		t.Fatal(err)
	}
	if _, ok := s.Connected(); ok || s.Conn().name != "1" {
		t.Error("results that come late don't find the connection that they belong to")
	}
	if refuse = errors.New("refused"); !errors.Is(s.Open(ctx), refuse) {
		t.Error("open: no error")
	}
	refuse = nil
	if err := errors.Join(s.Open(ctx), s.Stop(ctx)); err != nil || !s.Stopping() {
		t.Fatalf("open and stop: %v, stopping %t", err, s.Stopping())
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{"close 1, last false", "stop 2", "close 2, last true"}
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

func TestACallOutlivesTheReadThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c source.Call[string]
		calls := 0
		do := func(ctx context.Context) (string, error) {
			calls++
			select {
			case <-time.After(time.Minute):
				return "answer", nil
			case <-ctx.Done():
				return "part", ctx.Err()
			}
		}
		wait := func(d time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return c.Wait(ctx, do)
		}
		if got, err := wait(time.Second); got != "" || !errors.Is(err, context.DeadlineExceeded) || !c.Running() {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := wait(time.Hour); got != "answer" || err != nil || calls != 1 || c.Running() {
			t.Errorf("got %q, %v, after %d calls", got, err, calls)
		}
		_, _ = wait(time.Second)
		if got, err := c.Cancel(); got != "part" || !errors.Is(err, context.Canceled) || c.Running() {
			t.Errorf("cancelled: %q, %v", got, err)
		}
		if got, err := c.Cancel(); got != "" || err != nil {
			t.Errorf("cancelled again: %q, %v", got, err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := c.Wait(ended, do); !errors.Is(err, context.Canceled) || c.Running() || calls != 2 {
			t.Errorf("a Read that is told to return begins a call: %v, %d", err, calls)
		}
		_, err := c.Wait(t.Context(), func(context.Context) (string, error) { panic("a broken answer") })
		if e, ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.Panicked || !strings.Contains(err.Error(), "a broken answer") {
			t.Errorf("a panic: %v", err)
		}
	})
}

func TestASignalWakesOnce(t *testing.T) {
	s := source.NewSignal()
	s.Set()
	s.Set()
	<-s
	select {
	case <-s:
		t.Error("set twice, it wakes twice")
	default:
	}
}

// The input of the example reads from a server whose answers are cut. Tickets of a lost answer are delivered again.
func TestTheExample(t *testing.T) {
	t.Parallel()
	var d *desk
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			d = &desk{}
			server := httptest.NewServer(d)
			t.Cleanup(server.Close)
			return fmt.Sprintf(`{"tickets": {"url": %q, "queue": "help"}}`, wire.Over(server.URL))
		},
		Send: func(_ *testing.T, payloads ...string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, p := range payloads {
				d.waiting = append(d.waiting, ticket{p, p})
			}
		},
		Left: func(*testing.T) int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.waiting) + len(d.taken)
		},
		Shared: true, Answers: 3,
	}.Run(t)
}
