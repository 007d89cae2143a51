package s3

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/flowd-io/flowd/schema"
)

// notice returns an S3 event about keys.
func notice(t *testing.T, keys ...string) string {
	t.Helper()
	var records []any
	for _, key := range keys {
		records = append(records, map[string]any{"eventName": "ObjectCreated:Put", "s3": map[string]any{
			"bucket": map[string]any{"name": "bucket"}, "object": map[string]any{"key": url.QueryEscape(key)}}})
	}
	text, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// notified has a store, a queue of notices, and an input that reads both.
func notified(t *testing.T, fields string) (*fakes3.Server, *fakesqs.Server, engine.Input) {
	t.Helper()
	s, q := fakes3.Start(t), fakesqs.New()
	t.Cleanup(q.Close)
	q.Create("events", fakesqs.Queue{Visibility: 30 * time.Second})
	return s, q, made(t, s, fmt.Sprintf(`, "notify": {"queue": "events", "endpoint": %q}%s`, q.Listen(), fields))
}

// until runs a pipeline until a condition holds.
func until(t *testing.T, in engine.Input, dst *enginetest.Sink, dead *enginetest.Sink, done func() bool) {
	t.Helper()
	stop, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		for stop.Err() == nil && !done() {
			<-time.After(5 * time.Millisecond)
		}
		cancel()
	}()
	outputs := []schema.Entry[engine.OutputSpec]{{Key: "out", Value: dst.Output()}}
	p := &engine.Pipeline{Name: "test", Engine: engine.EngineSpec{Workers: 1},
		Inputs: enginetest.Named(
			"in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })},
		)}
	if dead != nil {
		outputs = append(outputs, schema.Entry[engine.OutputSpec]{Key: "dead", Value: dead.Output()})
		p.Engine.OnFailure.DeadLetter = "dead"
	}
	p.Outputs = schema.MapOf(outputs...)
	if rep := enginetest.Run(t, p, stop); rep.Err != nil {
		t.Error(rep.Err)
	}
}

func TestNoticesAreDeletedOnceAllTheirObjectsAreDone(t *testing.T) {
	t.Parallel()
	s, q, in := notified(t, `, "prefix": "in/", "after": {"move": "done/"}`)
	s.Put(t, "in/a b+é", "1\n2\n")
	s.Put(t, "in/c", "3\n")
	s.Put(t, "other/d", "4\n")
	q.Put("events", notice(t, "in/a b+é", "in/c"), notice(t, "other/d"), notice(t, "in/gone"), notice(t, "in/c"))
	dst := &enginetest.Sink{}
	until(t, in, dst, nil, func() bool { return len(q.Messages("events")) == 0 })
	got := dst.Bodies()
	slices.Sort(got)
	if want := []string{"1", "2", "3"}; !slices.Equal(slices.Compact(got), want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
	if left := q.Bodies("events"); len(left) != 0 {
		t.Errorf("the queue still has %q", left)
	}
	if keys := s.Keys(t); !slices.Equal(keys, []string{"done/a b+é", "done/c", "other/d"}) {
		t.Errorf("there are %q", keys)
	}
}

func TestNoticesThatMakeNoSenseBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	s, q, in := notified(t, "")
	s.Put(t, "a", "1\n")
	q.Put("events", "hello", notice(t, "a"))
	dst, dead := &enginetest.Sink{}, &enginetest.Sink{}
	until(t, in, dst, dead, func() bool { return len(q.Messages("events")) == 0 })
	if got := dead.Bodies(); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("dead letters %q", got)
	}
	if got := dst.Bodies(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("delivered %q", got)
	}
}

// TestNoticesWaitForTheLastOfTheirObjects settles the messages of one of two objects.
func TestNoticesWaitForTheLastOfTheirObjects(t *testing.T) {
	t.Parallel()
	s, q, in := notified(t, "")
	s.Put(t, "a", "1\n")
	s.Put(t, "b", "2\n")
	q.Put("events", notice(t, "a", "b"))
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refs []uint64
	var acker engine.Acker
	for len(refs) < 2 {
		b := engine.NewBatch(10)
		var err error
		if acker, err = in.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			refs = append(refs, m.Ref)
		}
	}
	settle := func(i int) {
		if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: refs[i], Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
	}
	deletions := func() int { return len(q.Calls("DeleteMessageBatch")) }
	settle(0)
	if n := deletions(); n != 0 {
		t.Errorf("%d deletions after the first object", n)
	}
	settle(1)
	for began := time.Now(); deletions() == 0 && time.Since(began) < 10*time.Second; { // a Read notices the end of the object
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := in.Read(ctx, engine.NewBatch(1)); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if n := deletions(); n != 1 {
		t.Errorf("%d deletions after both objects", n)
	}
	if err := in.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNoticesOfUnsettledObjectsGoBack stops an input with unsettled messages.
func TestNoticesOfUnsettledObjectsGoBack(t *testing.T) {
	t.Parallel()
	s, q, in := notified(t, "")
	s.Put(t, "a", "1\n2\n")
	q.Put("events", notice(t, "a"))
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := engine.NewBatch(10)
	acker, err := in.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for m := range b.All() { // the second message is not settled
		if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
		break
	}
	if next, err := renewed(t, acker); err != nil || next <= 0 || next > time.Minute {
		t.Errorf("the notice is renewed again in %s, %v", next, err)
	}
	if err := in.(engine.Stopper).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.(engine.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	hidden := q.Calls("ChangeMessageVisibilityBatch")
	if len(hidden) != 2 || len(q.Bodies("events")) != 1 {
		t.Errorf(
			"%d calls and %d notices in the queue, want a renewal, a release, and the notice",
			len(hidden),
			len(q.Bodies("events")),
		)
	}
}

func renewed(t *testing.T, acker engine.Acker) (time.Duration, error) {
	t.Helper()
	_, next, err := acker.(engine.Leaser).Renew(t.Context(), nil)
	return next, err
}
