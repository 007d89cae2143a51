package deadletters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
	"github.com/flowd-io/flowd/schema"
)

// sink is an output that keeps what it gets, and rejects payloads that contain "bad".
type sink struct {
	mu  sync.Mutex // guards the fields below
	got []string
	at  []time.Time
}

func (s *sink) Write(_ context.Context, b *engine.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range b.All() {
		if strings.Contains(string(m.Bytes()), "bad") && !m.DeadLetter() {
			m.Fail(engine.Errorf(engine.Rejected, "%s is bad", m.Bytes()))
			continue
		}
		s.got = append(s.got, string(m.Bytes()))
		s.at = append(s.at, time.Now())
		for name := range m.Meta.All() {
			if name == targetName || strings.HasPrefix(name, "error_") && !m.DeadLetter() {
				s.got = append(s.got, "metadata "+name)
			}
		}
	}
	return nil
}

func (s *sink) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.got)
	return s.got
}

// replay replays the letters of a broker's queue "dead" through a pipeline with these outputs, all of which get every
// message, except for the output "dead", which is for dead letters.
func replay(t *testing.T, b *queuetest.Broker, outputs map[string]*sink, change func(*Feed) *engine.RateLimit) (Tally, error) {
	t.Helper()
	server, err := b.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	source, err := OpenQueue(t.Context(), server, "dead", -1)
	if err != nil {
		t.Fatal(err)
	}
	feed := &Feed{Source: source, Target: func(l *Letter) (string, error) { return l.Cause.Output, nil }}
	p := &engine.Pipeline{Name: "p"}
	p.Inputs = schema.MapOf(schema.Entry[engine.InputSpec]{Key: "in", Value: engine.InputSpec{}})
	var specs []schema.Entry[engine.OutputSpec]
	var all []string
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		specs = append(specs, schema.Entry[engine.OutputSpec]{Key: name, Value: engine.OutputSpec{
			Use: engine.Use(func(engine.Env) (engine.Output, error) { return outputs[name], nil })}})
		if name == "dead" {
			p.Engine.OnFailure.DeadLetter = name
			continue
		}
		all = append(all, name)
	}
	p.Outputs = schema.MapOf(specs...)
	p.Batchers = schema.MapOf(schema.Entry[engine.BatcherSpec]{Key: "all", Value: engine.BatcherSpec{Output: all}})
	var limit *engine.RateLimit
	if change != nil {
		limit = change(feed)
	}
	if err := Enter(p, "", feed, limit); err != nil {
		t.Fatal(err)
	}
	plan, problems := runtime.Build(p, runtime.Options{})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
	if err := errors.Join(source.Close(), server.Close()); err != nil {
		t.Error(err)
	}
	return feed.Tally()
}

// letter is a message that failed at an output.
func letter(payload, output string) queue.Message {
	return queue.Message{Payload: []byte(payload), Meta: map[string]any{"error_class": "rejected", "error_output": output}}
}

// brokerWith makes a broker whose queue "dead" has letters.
func brokerWith(letters ...queue.Message) *queuetest.Broker {
	b := queuetest.New("dead")
	for _, m := range letters {
		b.PutMessage("dead", m)
	}
	return b
}

func left(t *testing.T, b *queuetest.Broker, want ...string) {
	t.Helper()
	if got := b.Payloads("dead"); !slices.Equal(got, append([]string{}, want...)) || b.InFlight("dead") > 0 {
		t.Errorf("left %q and %d in flight, want %q", got, b.InFlight("dead"), want)
	}
}

func TestALetterGoesToTheOutputThatFailedIt(t *testing.T) {
	b := brokerWith(letter("1", "crm"), letter("2", ""), letter("3", "lake"))
	out := map[string]*sink{"crm": {}, "lake": {}}
	tally, err := replay(t, b, out, nil)
	if err != nil || tally.Replayed != 3 || tally.Fates[engine.Delivered] != 3 {
		t.Errorf("%v: got %+v", err, tally)
	}
	if crm, lake := out["crm"].sorted(), out["lake"].sorted(); !slices.Equal(crm, []string{"1", "2"}) ||
		!slices.Equal(lake, []string{"2", "3"}) {
		t.Errorf("crm got %q, lake got %q", crm, lake)
	}
	left(t, b)
}

func TestALetterThatFailsAgainIsKept(t *testing.T) {
	t.Run("in its source", func(t *testing.T) {
		b := brokerWith(letter("good", "crm"), letter("bad 1", "crm"), letter("bad 2", "crm"))
		tally, err := replay(t, b, map[string]*sink{"crm": {}}, nil)
		if err != nil || tally.Replayed != 1 || tally.Fates[engine.Returned] != 2 || tally.Failed.Letters != 2 {
			t.Errorf("%v: got %+v", err, tally)
		}
		left(t, b, "bad 1", "bad 2")
	})
	t.Run("as a new dead letter", func(t *testing.T) {
		b := brokerWith(letter("good", "crm"), letter("bad", "crm"))
		out := map[string]*sink{"crm": {}, "dead": {}}
		tally, err := replay(t, b, out, nil)
		if err != nil || tally.Replayed != 2 || tally.Fates[engine.DeadLettered] != 1 || tally.Failed.Letters != 1 {
			t.Errorf("%v: got %+v", err, tally)
		}
		if got := out["dead"].sorted(); !slices.Equal(got, []string{"bad"}) {
			t.Errorf("new dead letters: %q", got)
		}
		left(t, b)
	})
}

func TestALetterThatIsSentElsewhereNowStays(t *testing.T) {
	b := brokerWith(letter("1", "crm"))
	tally, err := replay(t, b, map[string]*sink{"lake": {}}, nil)
	if err != nil || tally.Left != 1 || tally.Why.Groups()[0].Reason != "the pipeline does not send it to output crm any more" {
		t.Errorf("%v: got %+v", err, tally)
	}
	left(t, b, "1")
}

func TestLettersAreChosen(t *testing.T) {
	began := time.Now()
	own := letter("own", "crm")
	own.Meta["error_first_failed"] = began.Add(time.Second)
	b := brokerWith(letter("1", "crm"), letter("2", "crm"), own, letter("3", "crm"), letter("4", "crm"), letter("5", "crm"))
	out := map[string]*sink{"crm": {}}
	tally, err := replay(t, b, out, func(f *Feed) *engine.RateLimit {
		f.Before, f.Limit = began, 2
		f.Pick = func(l *Letter) (bool, error) { return string(l.Payload) != "1", nil }
		return nil
	})
	if got := out["crm"].sorted(); err != nil || tally.Replayed != 2 || !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("%v: got %q, %+v", err, got, tally)
	}
	left(t, b, "1", "own", "4", "5")
}

func TestASourceThatCanNotRemoveLettersEndsTheReplay(t *testing.T) {
	b := brokerWith(letter("1", "crm"))
	b.FailDone = func(string, []uint64) error { return errTest }
	tally, err := replay(t, b, map[string]*sink{"crm": {}}, nil)
	if !errors.Is(err, errTest) || tally.Unsure != 1 || tally.Replayed != 0 {
		t.Errorf("%v: got %+v", err, tally)
	}
	left(t, b, "1")
}

func TestTheRateIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := queuetest.New("dead")
		for i := range 100 {
			b.PutMessage("dead", letter(fmt.Sprint(i), "crm"))
		}
		out := &sink{}
		began := time.Now()
		if _, err := replay(t, b, map[string]*sink{"crm": out}, func(*Feed) *engine.RateLimit {
			return &engine.RateLimit{Messages: 10, Per: time.Second, Kind: "bucket", Burst: 1}
		}); err != nil {
			t.Fatal(err)
		}
		if took := out.at[99].Sub(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("100 letters at 10/s took %v", took)
		}
	})
}

func TestAnInputIsNamedIfThereAreSeveral(t *testing.T) {
	p := &engine.Pipeline{Name: "p", Inputs: schema.MapOf(schema.Entry[engine.InputSpec]{Key: "a"},
		schema.Entry[engine.InputSpec]{Key: "b"})}
	if err := Enter(p, "", &Feed{}, nil); err == nil || !strings.Contains(err.Error(), "(name one: a, b)") {
		t.Errorf("got %v", err)
	}
	if err := Enter(p, "c", &Feed{}, nil); err == nil || !strings.Contains(err.Error(), `there is no input "c"`) {
		t.Errorf("got %v", err)
	}
	p.Engine.ExactlyOnce = true
	if err := Enter(p, "b", &Feed{}, nil); err != nil || p.Inputs.Len() != 1 || p.Engine.ExactlyOnce {
		t.Errorf("got %v", err)
	}
}
