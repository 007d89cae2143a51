package registry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// oracle gives the answers of a list, the last one for good, and counts questions.
type oracle struct {
	answers []error
	asked   int
	takes   time.Duration
}

func (o *oracle) ask(ctx context.Context) (*engine.Schema, time.Duration, error) {
	o.asked++
	select {
	case <-time.After(o.takes):
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	err := o.answers[min(o.asked, len(o.answers))-1]
	if err != nil {
		return nil, 10 * time.Second, err
	}
	return &engine.Schema{ID: o.asked}, time.Minute, nil
}

func TestAnswersHoldForTheirTime(t *testing.T) {
	down := engine.Errorf(engine.Transient, "down")
	unknown := engine.Errorf(engine.Decode, "unknown")
	tests := []struct {
		name    string
		answers []error
		after   []time.Duration // each followed by a question
		want    string          // ids, or classes
		asked   int
	}{
		{"a schema, until it is to be asked for again", []error{nil},
			[]time.Duration{0, 59 * time.Second, time.Second}, "1 1 2", 2},
		{"what is not known, for a shorter time", []error{unknown, nil}, []time.Duration{0, 9 * time.Second, time.Second},
			"decode decode 2", 2},
		{"a registry that is down, for a second", []error{down, nil},
			[]time.Duration{0, 999 * time.Millisecond, time.Millisecond}, "transient transient 2", 2},
		{"what is known outlives a registry that is down", []error{nil, down, down, unknown},
			[]time.Duration{0, time.Minute, time.Second, time.Second}, "1 1 1 decode", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, o := newMemo(), &oracle{answers: tt.answers}
				var got []string
				for _, d := range tt.after {
					time.Sleep(d)
					s, err := m.get(t.Context(), key{id: 1}, o.ask)
					if e, ok := errors.AsType[*engine.Error](err); ok {
						got = append(got, string(e.Class))
					} else {
						got = append(got, string(rune('0'+s.ID)))
					}
				}
				if strings.Join(got, " ") != tt.want || o.asked != tt.asked {
					t.Errorf("got %v after %d questions, want %s after %d", got, o.asked, tt.want, tt.asked)
				}
			})
		})
	}
}

func TestOneAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, o := newMemo(), &oracle{answers: []error{nil}, takes: time.Second}
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = hurried
				}
				if s, err := m.get(ctx, key{id: 1}, o.ask); i > 0 && (err != nil || s == nil) {
					t.Errorf("%v, %v", s, err)
				} else if i == 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("one that could not wait: %v", err)
				}
			})
		}
		wg.Wait()
		// The one that could not wait may have been the first to ask; it does not answer for others.
		if o.asked > 2 || len(m.asking) > 0 {
			t.Errorf("asked %d times, %d are being asked", o.asked, len(m.asking))
		}
	})
}

func TestCachesAreBounded(t *testing.T) {
	k := newKept[int, string](mostKeptBytes)
	for i := range mostKept + 10 {
		k.add(i, "", 1)
	}
	if _, ok := k.get(9); ok || k.lru.Len() != mostKept || k.bytes != mostKept {
		t.Errorf("%d kept, of %d bytes", k.lru.Len(), k.bytes)
	}
	for range 3 {
		k.add(1, "", mostKeptBytes-1)
	}
	k.add(2, "", 2)
	if _, ok := k.get(1); ok || k.bytes != 2 {
		t.Errorf("%d kept, of %d bytes", k.lru.Len(), k.bytes)
	}
}

func TestWhatIsMadeOfASchemaWeighsMore(t *testing.T) {
	c := NewCompiled(nil, "AVRO", func(*engine.Schema) (int, error) { return 1, nil })
	for id := range 30 {
		if _, err := c.Make(&engine.Schema{ID: id, Type: "AVRO", Text: strings.Repeat(" ", 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.made.lru.Len(); n != mostMadeBytes/madeOfText>>20 {
		t.Errorf("%d of 30 large schemas are kept", n)
	}
}
