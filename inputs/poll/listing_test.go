package poll

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// broker is a fake input whose queues are given by a pattern.
type broker struct {
	mu     sync.Mutex // guards the fields below
	queues map[string]*queue
	fail   error // of List
	lists  int
}

func newBroker(names ...string) *broker {
	b := &broker{queues: map[string]*queue{}}
	for _, name := range names {
		b.add(name)
	}
	return b
}

func (b *broker) add(name string) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := newQueue(name)
	q.wait = 5 * time.Second
	b.queues[name] = q
	return q
}

func (b *broker) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queues, name)
}

func (b *broker) listed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lists
}

func (b *broker) failing(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

func (b *broker) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

func (b *broker) Read(context.Context, *engine.Batch) (engine.Acker, error) {
	panic("the input of a pattern is never read")
}

func (b *broker) List(context.Context) (names []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists++
	for name := range b.queues {
		names = append(names, name)
	}
	return names, b.fail
}

func (b *broker) Only(name string) (engine.Input, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "orders-bad" {
		return nil, errors.New("its name is no good")
	}
	return b.queues[name], nil
}

func listing1(t *testing.T, b *broker) *input {
	t.Helper()
	in := newPoll(roundRobin{}, enginetest.Env())
	in.refresh = time.Minute
	if err := in.add("first", 1, newQueue("first")); err != nil {
		t.Fatal(err)
	}
	if err := in.add("orders", 3, b); err != nil {
		t.Fatal(err)
	}
	if err := in.add("last", 1, newQueue("last")); err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *input) names() (all []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.sources {
		all = append(all, s.polled.Name)
	}
	return all
}

// reading reads in the background until the test ends, and reports messages.
func reading(t *testing.T, in *input) (got func() []string) {
	var mu sync.Mutex
	var all []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b := engine.NewBatch(10)
			acker, err := in.Read(ctx, b)
			if err != nil {
				t.Error(err)
				return
			}
			for m := range b.All() {
				source, _ := m.Meta.Get("source")
				mu.Lock()
				all = append(all, source.(string)+" "+string(m.Bytes()))
				mu.Unlock()
				if _, err := acker.Ack(ctx, []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestQueuesByPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker("orders-b", "orders-a")
		in := running(t, listing1(t, b))
		if got, want := in.names(), []string{"first", "orders/orders-a", "orders/orders-b", "last"}; !slices.Equal(got,
			want) {
			t.Errorf("sources %q, want %q", got, want)
		}
		got := reading(t, in)
		b.queues["orders-b"].put("b0")
		late := b.add("orders-aa")
		late.put("aa0")
		time.Sleep(2 * time.Minute)
		if got, want := got(), []string{"orders b0", "orders aa0"}; !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
		if got, want := in.names(), []string{"first", "orders/orders-a", "orders/orders-aa", "orders/orders-b",
			"last"}; !slices.Equal(got, want) {
			t.Errorf("sources %q, want %q", got, want)
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, s := range in.sources {
			if s.label == "orders" && s.polled.Weight != 3 {
				t.Errorf("%s has weight %d", s.polled.Name, s.polled.Weight)
			}
		}
	})
}

func TestAQueueThatIsGoneIsClosedWhenItsMessagesAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker("orders-a", "orders-b")
		gone := b.queues["orders-a"]
		gone.msgs = []string{"a0"}
		in := running(t, listing1(t, b))
		batch := engine.NewBatch(5)
		acker, err := in.Read(t.Context(), batch)
		if err != nil || batch.Len() != 1 {
			t.Fatal(err, batch.Len())
		}
		b.remove("orders-a")
		time.Sleep(5 * time.Minute)
		if got := gone.did(); slices.Contains(got, "close") {
			t.Errorf("closed under its message: %q", got)
		}
		if _, err := acker.Ack(t.Context(), []engine.Result{{Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got, want := gone.did(), []string{"open", "stop", "close"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := in.names(), []string{"first", "orders/orders-b", "last"}; !slices.Equal(got, want) {
			t.Errorf("sources %q, want %q", got, want)
		}
		again := b.add("orders-a")
		again.put("a1")
		got := reading(t, in)
		time.Sleep(2 * time.Minute)
		if got := got(); !slices.Equal(got, []string{"orders a1"}) {
			t.Errorf("it is back, and read: %q", got)
		}
	})
}

func TestAListThatFailsLeavesWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker("orders-a")
		in := running(t, listing1(t, b))
		got := reading(t, in)
		b.failing(errors.New("throttled"))
		time.Sleep(5 * time.Minute)
		b.queues["orders-a"].put("a0")
		time.Sleep(time.Minute)
		if got := got(); !slices.Equal(got, []string{"orders a0"}) {
			t.Errorf("read %q", got)
		}
		b.add("orders-bad")
		b.add("orders-z").put("z0")
		b.failing(nil)
		time.Sleep(2 * time.Minute)
		if got := got(); !slices.Equal(got, []string{"orders a0", "orders z0"}) {
			t.Errorf("read %q", got)
		}
	})
	in := listing1(t, newBroker())
	in.listings[0].lister.(*broker).fail = errors.New("access denied")
	if err := in.Open(t.Context()); err == nil || err.Error() != "source orders: list of queues: access denied" {
		t.Errorf("at the start: %v", err)
	}
}

func TestAServiceThatIsAwayAtTheStartIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker("orders-a")
		b.failing(engine.Errorf(engine.Transient, "connection refused"))
		in := running(t, listing1(t, b))
		got := reading(t, in)
		b.queues["orders-a"].put("a0")
		time.Sleep(10 * time.Minute)
		if n := b.listed(); n < 10 || n > 600 {
			t.Errorf("listed %d times in ten minutes", n)
		}
		b.failing(nil)
		time.Sleep(mostBackoff)
		if got := got(); !slices.Equal(got, []string{"orders a0"}) {
			t.Errorf("read %q", got)
		}
		n := b.listed()
		time.Sleep(10 * time.Minute)
		if n = b.listed() - n; n < 9 || n > 12 {
			t.Errorf("listed %d times in the ten minutes after", n)
		}
	})
}

func TestAQueueOfAPatternThatDoesNotOpenHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker("orders-a", "orders-b")
		b.queues["orders-a"].opens = []error{errors.New("gone meanwhile")}
		b.queues["orders-a"].msgs, b.queues["orders-b"].msgs = []string{"a0"}, []string{"b0"}
		got := reading(t, running(t, listing1(t, b)))
		synctest.Wait() // no time passes, so there is no retry
		if got := got(); !slices.Equal(got, []string{"orders b0"}) {
			t.Errorf("read %q", got)
		}
		time.Sleep(time.Minute)
		if got := got(); !slices.Equal(got, []string{"orders b0", "orders a0"}) {
			t.Errorf("read %q", got)
		}
	})
}

// inOrder is a source that keeps the order of its messages.
type inOrder struct {
	*queue
	by string
}

func (o inOrder) Traits() engine.Traits {
	return engine.Traits{TakesBack: engine.TakesOne, OrderBy: o.by}
}

func TestTheOrderOfASourceIsThatOfThePoll(t *testing.T) {
	in := newPoll(roundRobin{}, enginetest.Env())
	for i, by := range []string{"", `meta("message_group_id")`, "other"} {
		if err := in.add(string(rune('a'+i)), 1, inOrder{newQueue("q"), by}); err != nil {
			t.Fatal(err)
		}
	}
	if got := in.Traits().OrderBy; got != `meta("message_group_id")` {
		t.Errorf("got %q", got)
	}
}

func TestAPatternWithoutQueuesWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		in := newPoll(roundRobin{}, enginetest.Env())
		in.refresh = time.Minute
		if err := in.add("orders", 3, b); err != nil {
			t.Fatal(err)
		}
		running(t, in)
		got := reading(t, in)
		time.Sleep(5 * time.Minute)
		if n := b.listed(); n < 4 {
			t.Errorf("listed %d times in five minutes", n)
		}
		b.add("orders-a").put("a0")
		time.Sleep(2 * time.Minute)
		if got := got(); !slices.Equal(got, []string{"orders a0"}) {
			t.Errorf("read %q", got)
		}
	})
}

func init() {
	engine.Register(engine.Inputs, "test_pattern", "For tests.", struct{}{},
		func(struct{}, engine.Env) (engine.Input, error) {
			return newBroker(), nil
		})
	engine.Register(engine.Inputs, "test_failing", "For tests.", struct{}{},
		func(struct{}, engine.Env) (engine.Input, error) {
			q := newQueue("q", "x")
			q.fails, q.end = []error{errors.New("lost")}, engine.ErrEnd
			return q, nil
		})
	engine.Register(polling.Strategies, "test_last", "The last one first. For tests.", struct{}{},
		func(struct{}, engine.Env) (polling.Strategy, error) {
			return lastFirst{}, nil
		})
}

// lastFirst is a strategy of a custom build that only has the method Next.
type lastFirst struct{ roundRobin }

func (lastFirst) Next(_ time.Time, open []*polling.Source) *polling.Source {
	for _, s := range slices.Backward(open) {
		if !s.Busy {
			return s
		}
	}
	return nil
}

func TestARegisteredStrategyDecides(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"poll": {"strategy": "test_last", "sources": {
		"a": {"generate": {"body": "'a'"}}, "b": {"generate": {"body": "'b'"}}}}}`).(*input)
	running(t, in)
	for range 20 {
		if got := read(t, in, 1); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("got %q", got)
		}
	}
}

func TestAStrategyThatPicksNobodyIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newPoll(&picky{}, enginetest.Env())
		if err := in.add("a", 1, newQueue("a", "x")); err != nil {
			t.Fatal(err)
		}
		running(t, in)
		if got := read(t, in, 1); !slices.Equal(got, []string{"x"}) {
			t.Errorf("got %q", got)
		}
	})
}

// picky picks no source at first, then an unknown one, then the first.
type picky struct {
	roundRobin
	calls int
}

func (p *picky) Next(_ time.Time, open []*polling.Source) *polling.Source {
	switch p.calls++; {
	case p.calls < 5:
		return nil
	case p.calls < 10:
		return &polling.Source{}
	}
	return open[0]
}

func TestAPatternIsOnlyForSources(t *testing.T) {
	_, problems := runtime.Build(&engine.Pipeline{
		Inputs:  enginetest.Named("in", engine.InputSpec{Use: engine.Plugin[engine.Input]{Name: "test_pattern"}}),
		Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()),
	}, runtime.Options{})
	if len(problems) != 1 || !strings.Contains(problems[0].Remedy, "make it a source of an input `poll`") {
		t.Errorf("got %v", problems)
	}
}

func TestEventsNameTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		hook := func(e engine.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == engine.EventLost || e.Kind == engine.EventConnected {
				events = append(events, string(e.Kind)+" "+e.Pipeline+" "+e.Name)
			}
		}
		c := Config{Strategy: weighted}
		c.Sources = enginetest.Named("bulk", sourceSpec{Use: engine.Plugin[engine.Input]{Name: "test_failing"}})
		plan, problems := runtime.Build(&engine.Pipeline{
			Name: "p",
			Inputs: enginetest.Named("work", engine.InputSpec{Use: engine.Plugin[engine.Input]{Name: "poll",
				Config: c}}),
			Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()),
		}, runtime.Options{Log: slog.New(slog.DiscardHandler), Hooks: []engine.Hook{hook}})
		if plan == nil {
			t.Fatal(problems)
		}
		if rep := plan.Run(t.Context(), t.Context()); rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 1 {
			t.Fatalf("%+v", rep)
		}
		if want := []string{"lost p work.bulk", "connected p work.bulk"}; !slices.Equal(events, want) {
			t.Errorf("got %q, want %q", events, want)
		}
	})
}

func TestDifferentPollsPauseAsEachSays(t *testing.T) {
	in := enginetest.New(t, engine.Inputs,
		`{"poll": {"empty_pause": "3s", "sources": {"a": {"generate": {"body": "1"}}}}}`).(*input)
	other := enginetest.New(t, engine.Inputs, `{"poll": {"sources": {"a": {"generate": {"body": "1"}}}}}`).(*input)
	if in.pause != 3*time.Second || other.pause != 0 || other.refresh != time.Minute {
		t.Errorf("got %v, %v, %v", in.pause, other.pause, other.refresh)
	}
	if _, ok := other.strategy.(roundRobin); !ok {
		t.Errorf("unset, the strategy is %T", other.strategy)
	}
}
