package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/schema"
	"go.uber.org/goleak"
)

// asker makes calls that do what the payload says.
type asker struct {
	now, most chan int // of one element each, as a lock
}

func newAsker() *asker {
	a := &asker{make(chan int, 1), make(chan int, 1)}
	a.now <- 0
	a.most <- 0
	return a
}

func (a *asker) Prepare(m *engine.Message) (*string, error) {
	text := string(m.Bytes())
	if text == "no call" {
		return nil, errors.New(text)
	}
	return &text, nil
}

func (a *asker) Call(ctx context.Context, c *string) error {
	now := <-a.now + 1
	a.most <- max(<-a.most, now)
	a.now <- now
	defer func() { a.now <- <-a.now - 1 }()
	switch *c {
	case "fails":
		return errors.New(*c)
	case "panics":
		panic(*c)
	case "waits":
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Duration(len(*c)) * time.Second)
	*c = strings.ToUpper(*c)
	return nil
}

func (a *asker) Finish(m *engine.Message, c *string) error {
	if *c == "NO PLACE" {
		return errors.New(*c)
	}
	m.SetBytes([]byte(*c))
	return nil
}

func TestEach(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	in := []string{"aaa", "no call", "b", "fails", "panics", "no place", "cc"}
	want := []string{"AAA", "error no call", "B", "error fails", "error panic: panics", "error NO PLACE", "CC"}
	for _, n := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprint(n, " at once"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := newAsker(), enginetest.Batch(in...)
				var all []*engine.Message
				for m := range b.All() {
					all = append(all, m)
				}
				began := time.Now()
				Each(t.Context(), b, n, a)
				var got []string
				for _, m := range all {
					if m.Err() != nil {
						first, _, _ := strings.Cut(m.Err().Error(), "\n")
						got = append(got, "error "+first)
					} else {
						got = append(got, string(m.Bytes()))
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				if most := <-a.most; most > n {
					t.Errorf("%d at once", most)
				}
				// One after the other they take 3+1+8+2 seconds, all at once 8.
				if took := time.Since(began); n == 1 && took != 14*time.Second || n == 100 && took != 8*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestEachEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := enginetest.Batch("waits", "a", "waits", "waits")
		Each(ctx, b, 2, newAsker())
		n := 0
		for m := range b.Ended() {
			if m.Err().Class == engine.Timeout {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%d messages were too late, want 3", n)
		}
	})
}

func TestEachOfNothing(t *testing.T) {
	Each(t.Context(), enginetest.Batch(), 8, newAsker())
}

func TestExcerpts(t *testing.T) {
	tests := []struct {
		name, in   string
		max        int
		secrets    []string
		head, tail string
	}{
		{"short text", " a\nb\x1b[31m ", 99, nil, "a b [31m", "a b [31m"},
		{"long text", "one two three", 7, nil, "one two…", "…o three"},
		{"a character is not cut", "äöü", 3, nil, "ä…", "…ü"},
		{"no UTF-8", "a\xffb", 9, nil, "ab", "ab"},
		{"secrets", "key s3cret, again s3cret", 99, []string{"s3cret", "", "a"}, "key ***, again ***",
			"key ***, again ***"},
		{"a secret where the cut would be", "s3cret-s3cret x", 5, []string{"s3cret-s3cret"}, "*** x", "*** x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Head([]byte(tt.in), tt.max, (*schema.Secrets)(nil).With(tt.secrets...)); got != tt.head {
				t.Errorf("head: got %q, want %q", got, tt.head)
			}
			if got := Tail([]byte(tt.in), tt.max, (*schema.Secrets)(nil).With(tt.secrets...)); got != tt.tail {
				t.Errorf("tail: got %q, want %q", got, tt.tail)
			}
		})
	}
}
