package sqs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

// matching returns the input for a pattern, on a service with queues.
func matching(t *testing.T, queue string, queues ...string) (*pattern, *fakesqs.Server) {
	t.Helper()
	s := fakesqs.Start(t)
	for _, name := range queues {
		s.Create(name, fakesqs.Queue{})
	}
	p, ok := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"sqs": {"queue": %q, "wait": "0s"}}`, queue)).(*pattern)
	if !ok {
		t.Fatalf("%s is no pattern", queue)
	}
	p.http = s.Client()
	return p, s
}

func TestQueuesThatMatchAreListed(t *testing.T) {
	all := []string{"orders-a", "orders-b", "orders-b1", "orders-c.fifo", "my-orders-a", "orders"}
	tests := []struct {
		pattern, prefix string
		want            []string
	}{
		{"orders-*", `"QueueNamePrefix":"orders-"`, []string{"orders-a", "orders-b", "orders-b1", "orders-c.fifo"}},
		{"orders-?", `"QueueNamePrefix":"orders-"`, []string{"orders-a", "orders-b"}},
		{"orders-[b-c]*", `"QueueNamePrefix":"orders-"`, []string{"orders-b", "orders-b1", "orders-c.fifo"}},
		{"*.fifo", "", []string{"orders-c.fifo"}},
		{"*-a", "", []string{"my-orders-a", "orders-a"}},
		{"none-*", `"QueueNamePrefix":"none-"`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			p, s := matching(t, tt.pattern, all...)
			got, err := p.List(t.Context())
			slices.Sort(got)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
			if asked := s.Calls("ListQueues")[0].Request; strings.Contains(asked,
				"QueueNamePrefix") != (tt.prefix != "") || !strings.Contains(asked, tt.prefix) {
				t.Errorf("asked %s, want %s", asked, tt.prefix)
			}
		})
	}
}

func TestListsOfManyQueuesComeInPages(t *testing.T) {
	var all []string
	for i := range 2500 {
		all = append(all, fmt.Sprintf("orders-%04d", i))
	}
	synctest.Test(t, func(t *testing.T) {
		p, s := matching(t, "orders-*", all...)
		if got, err := p.List(t.Context()); err != nil || !slices.Equal(got, all) || len(s.Calls("ListQueues")) != 3 {
			t.Errorf("%d queues in %d calls, %v", len(got), len(s.Calls("ListQueues")), err)
		}
		s.Client().CloseIdleConnections()
	})
}

func TestAListThatIsRefusedSaysWhatIsMissing(t *testing.T) {
	p, s := matching(t, "orders-*")
	s.Fault("ListQueues", fakesqs.Fault{Code: "AccessDenied", Message: "not authorized", Status: 403})
	_, err := p.List(t.Context())
	var e *engine.Error
	if !errors.As(err, &e) || e.Class != engine.Auth ||
		!strings.Contains(err.Error(), "sqs:ListQueues: AccessDenied: not authorized (allow these credentials this action)") {
		t.Errorf("got %v", err)
	}
}

func TestEachQueueOfAPatternIsReadByItself(t *testing.T) {
	p, s := matching(t, "orders-*", "orders-a", "orders-b.fifo")
	s.Put("orders-a", "a0")
	s.Put("orders-b.fifo", "g:0")
	for _, queue := range []string{"orders-a", "orders-b.fifo"} {
		made, err := p.Only(queue)
		if err != nil {
			t.Fatal(err)
		}
		in := made.(*input)
		b := &bench{Server: s, in: in}
		b.open(t)
		got := b.read(t, 10)
		if name, _ := got[0].Meta.Get("queue"); len(got) != 1 || name != queue {
			t.Errorf("%s: read %q from %v", queue, bodies(got), name)
		}
		if got := in.Traits(); got.Withholds != strings.HasSuffix(queue, ".fifo") {
			t.Errorf("%s: %+v", queue, got)
		}
	}
	if got := p.Traits(); got.TakesBack != engine.TakesOne || got.Delays != 12*time.Hour || got.OrderBy != "" {
		t.Errorf("got %+v", got)
	}
	if fifo, _ := matching(t, "*.fifo"); fifo.Traits().OrderBy != `meta("message_group_id")` {
		t.Errorf("order of FIFO queues: %q", fifo.Traits().OrderBy)
	}
	if _, err := p.Read(t.Context(), engine.NewBatch(1)); err == nil ||
		!strings.Contains(err.Error(), "make it a source of an input `poll`") {
		t.Errorf("read by itself: %v", err)
	}
}
