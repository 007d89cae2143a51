package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/polling"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/components/timing"
)

// queue is a fake input: a queue that is polled. A Read returns at most ten messages. If there are none, it waits for one, and may
// return none.
type queue struct {
	name   string
	wait   time.Duration // how long a Read waits (long polling); 0: it returns at once
	takes  time.Duration // duration of a Read that returns messages
	fifo   bool
	early  bool
	back   engine.TakesBack
	delays time.Duration
	again  bool  // returned messages are in the queue again
	end    error // error of a Read when there are no messages left

	mu      sync.Mutex // guards the fields below
	msgs    []string
	arrived chan struct{} // closed when messages arrive
	fails   []error       // errors of the next Reads
	opens   []error       // errors of the next Opens
	rooms   []int         // rooms of all Reads
	at      []time.Time
	given   []string // messages that were read, by Ref
	log     []string
	results map[string]engine.Fate
	panics  bool
}

func newQueue(name string, msgs ...string) *queue {
	return &queue{name: name, msgs: msgs, back: engine.TakesOne, arrived: make(chan struct{}),
		results: map[string]engine.Fate{}}
}

func numbered(name string, n int) *queue {
	q := newQueue(name)
	for i := range n {
		q.msgs = append(q.msgs, fmt.Sprintf("%s%d", name, i))
	}
	return q
}

func (q *queue) put(msgs ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.msgs = append(q.msgs, msgs...)
	close(q.arrived)
	q.arrived = make(chan struct{})
}

func (q *queue) note(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = append(q.log, what)
}

func (q *queue) Traits() engine.Traits {
	return engine.Traits{TakesBack: q.back, Delays: q.delays, AcksEarly: q.early, Withholds: q.fifo}
}

func (q *queue) Open(context.Context) error {
	q.note("open")
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.opens) > 0 {
		err := q.opens[0]
		q.opens = q.opens[1:]
		return err
	}
	return nil
}

func (q *queue) Stop(context.Context) error {
	q.note("stop")
	return nil
}

func (q *queue) Close(context.Context) error {
	q.note("close")
	return nil
}

func (q *queue) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	q.mu.Lock()
	q.rooms, q.at = append(q.rooms, min(10, b.Room())), append(q.at, time.Now())
	var err error
	if len(q.fails) > 0 {
		err, q.fails = q.fails[0], q.fails[1:]
	}
	panics, arrived := q.panics, q.arrived
	q.panics = false
	q.mu.Unlock()
	if panics {
		panic("the driver broke")
	}
	if err != nil {
		return q.acker(), err
	}
	if q.takes > 0 && timing.Sleep(ctx, q.takes) != nil {
		return q.acker(), ctx.Err()
	}
	if q.give(b) {
		return q.acker(), nil
	}
	if q.end != nil {
		return q.acker(), q.end
	}
	if q.wait > 0 {
		t := time.NewTimer(q.wait)
		defer t.Stop()
		select {
		case <-arrived:
			q.give(b)
		case <-t.C:
		case <-ctx.Done():
			return q.acker(), ctx.Err()
		}
	}
	return q.acker(), nil
}

func (q *queue) acker() engine.Acker {
	if q.back == engine.TakesNothing {
		return nil
	}
	return q
}

func (q *queue) give(b *engine.Batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(b.Room(), 10, len(q.msgs))
	for _, body := range q.msgs[:n] {
		m := b.Add([]byte(body))
		m.Ref = uint64(len(q.given))
		m.Meta = m.Meta.WithOwn("queue", q.name).With("header", "x")
		q.given = append(q.given, body)
	}
	q.msgs = q.msgs[n:]
	return n > 0
}

func (q *queue) Ack(_ context.Context, rs []engine.Result) ([]engine.Result, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range rs {
		q.results[q.given[r.Ref]] = r.Fate
		if q.again && r.Fate == engine.Returned {
			q.msgs = append(q.msgs, q.given[r.Ref])
		}
	}
	return nil, nil
}

func (q *queue) reads() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.rooms)
}

func (q *queue) times() []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.at)
}

func (q *queue) did() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.log)
}

func (q *queue) fates() map[string]engine.Fate {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[string]engine.Fate{}
	for k, v := range q.results {
		all[k] = v
	}
	return all
}

func (q *queue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.msgs)
}

// weights has the weights of sources, by their queue.
type weights []struct {
	q *queue
	w int
}

// polling makes a poll input for queues, without configuration.
func pollOf(t *testing.T, strategy string, pause time.Duration, of weights) *input {
	t.Helper()
	s, err := polling.Name(strategy).New(enginetest.Env())
	if err != nil {
		t.Fatal(err)
	}
	in := newPoll(s, enginetest.Env())
	in.pause, in.refresh = pause, time.Minute
	for _, x := range of {
		if err := in.add(x.q.name, x.w, x.q); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// read calls Read once, with room for a number of messages.
func read(t *testing.T, in *input, room int) (bodies []string) {
	t.Helper()
	b := engine.NewBatch(room)
	if _, err := in.Read(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		bodies = append(bodies, string(m.Bytes()))
	}
	return bodies
}

// running opens a poll input. It is closed when the test ends.
func running(t *testing.T, in *input) *input {
	t.Helper()
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Stop(context.Background()), in.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return in
}

// carry runs a pipeline from a poll input to a sink until stop ends.
func carry(t *testing.T, in engine.Input, sink *enginetest.Sink, spec engine.EngineSpec, stop context.Context,
	steps ...engine.StepSpec) runtime.Report {
	t.Helper()
	return enginetest.Run(t, &engine.Pipeline{
		Name: "p",
		Inputs: enginetest.Named("work",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: enginetest.Named("out", sink.Output()),

		Processors: steps,
		Engine:     spec,
	}, stop)
}
