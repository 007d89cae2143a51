package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// virtual runs a test in virtual time, with an output on the fake service. The queue is named orders or orders.fifo.
func virtual(t *testing.T, queue fakesqs.Queue, config string, f func(t *testing.T, s *fakesqs.Server, o *output)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakesqs.Start(t)
		o := enginetest.New(t, engine.Outputs, `{"sqs": `+config+`}`).(*output)
		s.Create(o.queue.Name, queue)
		o.http = s.Client()
		if err := o.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, s, o)
	})
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"n":%d,"g":"g%d"}`, i, i%3))
	}
	return all
}

// write calls Write once, and returns the errors of the messages.
func write(t *testing.T, o *output, b *engine.Batch) (errs []error) {
	t.Helper()
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Err() != nil {
			errs = append(errs, m.Err())
		} else {
			errs = append(errs, nil)
		}
	}
	return errs
}

// fails returns the indexes of failed messages.
func fails(errs []error) (which []int) {
	for i, err := range errs {
		if err != nil {
			which = append(which, i)
		}
	}
	return which
}

func TestOutput(t *testing.T) {
	enginetest.Output(t, func(t *testing.T) engine.Output {
		s := fakesqs.Start(t)
		s.Create("orders", fakesqs.Queue{})
		o := enginetest.New(t, engine.Outputs, `{"sqs": "orders"}`).(*output)
		o.http = s.Client()
		return closing{o, s}
	}, `{"a":1}`, "text", `{"b":2}`)
}

func TestAServerThatIsAway(t *testing.T) {
	var s *fakesqs.Server
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			s = fakesqs.Start(t)
			s.Create("orders", fakesqs.Queue{})
			t.Setenv("AWS_ENDPOINT_URL", wire.Over(s.Listen()))
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, `{"sqs": "orders"}`)
			}
		},
		Arrived:  func(*testing.T) []string { return s.Bodies("orders") },
		Payloads: []string{"1", "2", "3", "4", "5"},
		Headers: func(*testing.T) map[string]string {
			all := map[string]string{}
			for name, a := range s.Messages("orders")[0].Attributes {
				all[name] = a.StringValue
			}
			return all
		},
	}.Run(t)
}

// closing also stops the service, since the suite counts goroutines.
type closing struct {
	*output
	s *fakesqs.Server
}

func (c closing) Close(ctx context.Context) error {
	defer c.s.Close()
	return c.output.Close(ctx)
}

func TestLint(t *testing.T) {
	tests := []struct {
		name, config, want string
	}{
		{"a queue", `{"sqs": {"queue": "orders", "delay": "seconds"}}`, ""},
		{"a FIFO queue", `{"sqs": {"queue": "orders.fifo", "group_id": "customer", "dedupe_id": "id"}}`, ""},
		{"a group without FIFO: a fair queue", `{"sqs": {"queue": "orders", "group_id": "customer"}}`, ""},
		{"no group", `{"sqs": {"queue": "orders.fifo"}}`, "each message of a FIFO queue needs a group"},
		{"delay in a FIFO queue", `{"sqs": {"queue": "orders.fifo", "group_id": "g", "delay": "\"5s\""}}`,
			"a FIFO queue can't delay single messages"},
		{"901 seconds", `{"sqs": {"queue": "orders", "delay": "901"}}`,
			"is more than the 15m0s that a queue can delay"},
		{"no duration", `{"sqs": {"queue": "orders", "delay": "\"soon\""}}`, "is not a duration such as 90s"},
		{"duplicates without FIFO", `{"sqs": {"queue": "orders", "dedupe_id": "id"}}`,
			"only a FIFO queue removes duplicates"},
		{"no ARN", `{"sqs": {"queue": "arn:orders"}}`, "is not a queue ARN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := fmt.Sprint(enginetest.Problems(t, engine.Outputs, tt.config))
			if tt.want == "" && problems != "[]" || !strings.Contains(problems, tt.want) {
				t.Errorf("got %s, want %q", problems, tt.want)
			}
		})
	}
}

func TestTenMessagesGoInARequest(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		if bad := fails(write(t, o, enginetest.Batch(numbers(95)...))); bad != nil {
			t.Errorf("failed: %v", bad)
		}
		if calls := s.Calls("SendMessageBatch"); len(calls) != 10 || len(s.Bodies("orders")) != 95 {
			t.Errorf("%d requests for 95 messages, %d arrived", len(calls), len(s.Bodies("orders")))
		}
	})
}

func TestRequestsAreBoundedBySizeWithAttributes(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		body := strings.Repeat("x", 300<<10)
		b := enginetest.Batch(body, body, body, body, strings.Repeat("y", 1<<20-9), strings.Repeat("z", 1<<20-8))
		for m := range b.All() {
			m.Meta = m.Meta.With("k", "v") // 1 + 6 + 1 bytes
		}
		errs := write(t, o, b)
		if bad := fails(errs); !slices.Equal(bad, []int{}) && bad != nil {
			t.Errorf("failed: %v %v", bad, errs[bad[0]])
		}
		var entries []int
		for _, c := range s.Calls("SendMessageBatch") {
			entries = append(entries, c.Entries)
		}
		slices.Sort(entries)
		if !slices.Equal(entries, []int{1, 1, 1, 3}) {
			t.Errorf("requests of %v entries", entries)
		}
		errs = write(t, o, enginetest.Batch("ok", strings.Repeat("x", 1<<20+1)))
		if !slices.Equal(fails(errs), []int{1}) ||
			!strings.Contains(errs[1].Error(), "more than the allowed 1048576") {
			t.Errorf("got %v", errs)
		}
	})
}

func TestOnlyTheEntriesThatTheQueueFailsFail(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InternalError",
			Entry: func(body string) bool { return strings.Contains(body, `"n":3`) }})
		s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InvalidMessageContents", Sender: true,
			Entry: func(body string) bool { return strings.Contains(body, `"n":4`) }})
		first := write(t, o, enginetest.Batch(numbers(10)...))
		second := write(t, o, enginetest.Batch(numbers(10)...))
		for _, tt := range []struct {
			errs  []error
			at    int
			class engine.Class
		}{{first, 3, engine.Transient}, {second, 4, engine.Rejected}} {
			var e *engine.Error
			if !slices.Equal(fails(tt.errs), []int{tt.at}) || !errors.As(tt.errs[tt.at], &e) || e.Class != tt.class {
				t.Errorf("got %v, want only %d, %s", tt.errs, tt.at, tt.class)
			}
		}
	})
}

func TestARefusedRequestIsSplitUntilTheGuiltyIsFound(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		s.Fault("SendMessageBatch", fakesqs.Fault{Code: "BatchRequestTooLong", Times: 3}) // of 8, 4 and 2
		if bad := fails(write(t, o, enginetest.Batch(numbers(8)...))); bad != nil {
			t.Errorf("failed: %v", bad)
		}
		if n := len(s.Bodies("orders")); n != 8 {
			t.Errorf("%d arrived", n)
		}
	})
}

func TestFailuresOfARequestHaveTheirClass(t *testing.T) {
	tests := []struct {
		name  string
		fault fakesqs.Fault
		class engine.Class
		delay time.Duration
		calls int // for 50 messages
		want  string
	}{
		{"denied: nothing more is tried", fakesqs.Fault{Code: "AccessDenied", Message: "not authorized", Status: 403,
			Times: -1}, engine.Auth, 0, 1, "sqs:SendMessageBatch: AccessDenied: not authorized (allow these credentials this action)"},
		{"an expired token", fakesqs.Fault{Code: "ExpiredToken", Status: 403, Times: -1}, engine.Auth, 0, 1,
			"check AWS_ACCESS_KEY_ID"},
		{"throttled with a hint", fakesqs.Fault{Code: "RequestThrottled", Times: -1,
			Header: map[string]string{"Retry-After": "7"}}, engine.Transient, 7 * time.Second, 1, "RequestThrottled"},
		{"throttled", fakesqs.Fault{Code: "ThrottlingException", Times: -1}, engine.Transient, 0, 5,
			"ThrottlingException"},
		{"a bad day", fakesqs.Fault{Code: "InternalFailure", Status: 500, Times: -1}, engine.Transient, 0, 5,
			"InternalFailure"},
		{"no queue", fakesqs.Fault{Code: "QueueDoesNotExist", Times: -1}, engine.Transient, 0, 1,
			"queue orders: it does not exist (create it"},
		{"answers that are cut off", fakesqs.Fault{Cut: true, Times: -1}, engine.Transient, 0, 5, "queue orders: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, fakesqs.Queue{}, `{"queue": "orders", "parallel": 1}`,
				func(t *testing.T, s *fakesqs.Server, o *output) {
					s.Fault("SendMessageBatch", tt.fault)
					errs := write(t, o, enginetest.Batch(numbers(50)...))
					var e *engine.Error
					if len(fails(errs)) != 50 || !errors.As(errs[49], &e) || e.Class != tt.class ||
						e.Delay != tt.delay ||
						!strings.Contains(e.Error(), tt.want) {
						t.Errorf("got %+v", errs[49])
					}
					if n := len(s.Calls("SendMessageBatch")); n != tt.calls {
						t.Errorf("%d requests, want %d", n, tt.calls)
					}
				})
		})
	}
}

func TestMetadataGoesAlongTyped(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		b := enginetest.Batch("x")
		for m := range b.All() {
			m.Meta = m.Meta.With("path", "own").Own().With("text", "é").With("n", 7).With("f", 0.5).With("yes",
				true).With("list", []any{"a", 1}).
				With("raw", "\x00\xff").With("empty", "").With("none", nil).With("bad name", "x").With("aws.x",
				"x").With("at", time.Unix(0, 0).UTC())
		}
		write(t, o, b)
		text := func(kind, value string) fakesqs.Attribute {
			return fakesqs.Attribute{DataType: kind, StringValue: value}
		}
		want := map[string]fakesqs.Attribute{
			"text": text("String", "é"), "n": text("Number", "7"), "f": text("Number", "0.5"),
			"yes": text("String", "true"), "list": text("String", `["a",1]`),
			"raw": {DataType: "Binary", BinaryValue: []byte{0, 255}}, "at": text("String", "1970-01-01T00:00:00Z"),
		}
		if diff := cmp.Diff(want, s.Messages("orders")[0].Attributes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAMessageTakesTenAttributes(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		b := enginetest.Batch("ten", "eleven", "dead")
		i := 0
		for m := range b.All() {
			for n := range []int{10, 11, 8}[i] {
				m.Meta = m.Meta.With(fmt.Sprintf("m%d", n), n)
			}
			if i == 2 {
				m.Meta = m.Meta.With("error_class", "decode").With("error_message", "x").With("error_step", "y")
			}
			i++
		}
		errs := write(t, o, b)
		if !slices.Equal(fails(errs), []int{1, 2}) ||
			!strings.Contains(errs[1].Error(), "11 metadata values would be sent, but a message may have 10") {
			t.Errorf("got %v", errs)
		}
	})
}

func TestADeadLetterWithTooMuchMetadataIsStillTaken(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		src := &enginetest.Source{Payloads: []string{"x"}, Takes: engine.TakesOne,
			Prepare: func(_ int, m *engine.Message) {
				for n := range 8 {
					m.Meta = m.Meta.With(fmt.Sprintf("m%d", n), n)
				}
			}}
		p := &engine.Pipeline{
			Inputs: enginetest.Named("in", src.Input()),
			Processors: engine.Steps{enginetest.Step("boom",
				func(context.Context, *engine.Message) error { return errors.New("no") })},
			Outputs: two(o),
		}
		p.Engine.OnFailure.DeadLetter = "dead"
		rep := enginetest.Run(t, p, nil)
		if rep.Stats.Roots.Ended[engine.DeadLettered] != 1 {
			t.Fatalf("%+v", rep)
		}
		got := s.Messages("orders")[0].Attributes
		if _, first := got["error_class"]; len(got) != 10 || !first {
			t.Errorf("attributes %v", got)
		}
	})
}

func TestBodiesThatAreNoTextAreRejected(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `"orders"`, func(t *testing.T, s *fakesqs.Server, o *output) {
		errs := write(t, o, enginetest.Batch("a", "", "\x00", "\xff", "\ufffe", "tab\tline\n🙂"))
		if !slices.Equal(fails(errs), []int{1, 2, 3, 4}) {
			t.Errorf("got %v", errs)
		}
		if !strings.Contains(errs[2].Error(), "write `encode: base64` before the output") {
			t.Errorf("got %v", errs[2])
		}
	})
}

func TestDelays(t *testing.T) {
	virtual(t, fakesqs.Queue{}, `{"queue": "orders", "delay": "d"}`, func(t *testing.T, s *fakesqs.Server, o *output) {
		errs := write(t, o, enginetest.Batch(`{"d":60}`, `{"d":"2m"}`, `{"d":1.5}`, `{"d":null}`, `{"d":-5}`,
			`{"d":901}`, `{"d":"soon"}`, `{"d":true}`))
		if !slices.Equal(fails(errs), []int{5, 6, 7}) {
			t.Errorf("got %v", errs)
		}
		var got []time.Duration
		for _, m := range s.Messages("orders") {
			got = append(got, m.Delay)
		}
		if want := []time.Duration{time.Minute, 2 * time.Minute, 2 * time.Second, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("delays %v, want %v", got, want)
		}
	})
	virtual(t, fakesqs.Queue{}, `{"queue": "orders", "delay": "now() + duration(\"90s\")"}`,
		func(t *testing.T, s *fakesqs.Server, o *output) {
			errs := write(t, o, enginetest.Batch("{}"))
			if m := s.Messages("orders"); len(m) != 1 || m[0].Delay != 90*time.Second {
				t.Errorf("got %v, %v", m, errs)
			}
		})
}

func groups(n int, names ...string) (all []string) {
	for i := range n {
		for _, g := range names {
			all = append(all, fmt.Sprintf(`{"g":%q,"n":%d}`, g, i))
		}
	}
	return all
}

const fifo = `{"queue": "orders.fifo", "group_id": "g"}`

func TestInAFIFOQueueGroupsKeepTheirOrder(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		sent := groups(10, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
		for range 5 { // slow answers let requests of one round overtake each other
			s.Fault("SendMessageBatch", fakesqs.Fault{Delay: time.Second})
			s.Fault("SendMessageBatch", fakesqs.Fault{})
		}
		if bad := fails(write(t, o, enginetest.Batch(sent...))); bad != nil {
			t.Fatalf("failed: %v", bad)
		}
		wantOrder(t, s.Messages("orders.fifo"), 120)
		if n := len(s.Calls("SendMessageBatch")); n != 20 {
			t.Errorf("%d requests, want 2 for each round of 12 groups", n)
		}
	})
}

// wantOrder checks that the messages of each group are there once, in order.
func wantOrder(t *testing.T, got []fakesqs.Message, n int) {
	t.Helper()
	next := map[string]int{}
	for _, m := range got {
		var doc struct {
			G string
			N int
		}
		if err := json.Unmarshal([]byte(m.Body), &doc); err != nil || doc.G != m.Group || doc.N != next[doc.G] {
			t.Errorf("%s in group %s, want number %d", m.Body, m.Group, next[doc.G])
		}
		next[doc.G]++
	}
	if len(got) != n {
		t.Errorf("%d messages, want %d", len(got), n)
	}
}

func TestMessagesBehindAFailedMessageOfTheirGroupFail(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		s.Fault("SendMessageBatch", fakesqs.Fault{})
		s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InternalError",
			Entry: func(body string) bool { return strings.Contains(body, `"a"`) }})
		b := enginetest.Batch(append(groups(3, "a", "b"), `{"n":0}`, strings.Repeat("x", 5))...)
		errs := write(t, o, b)
		if !slices.Equal(fails(errs), []int{2, 4, 6, 7}) || errors.Is(errs[2], engine.ErrBehind) ||
			!errors.Is(errs[4], engine.ErrBehind) {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("also where it could not be sent at all", func(t *testing.T) {
		virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
			errs := write(t, o, enginetest.Batch(`{"g":"a"}`, `{"g":"a","x":"`+"\x01"+`"}`, `{"g":"a"}`, `{"g":"b"}`))
			if !slices.Equal(fails(errs), []int{1}) { // JSON has no control characters, so the message has no group
				t.Errorf("got %v", errs)
			}
			errs = write(t, o, enginetest.Batch(`{"g":"a"}`, `{"g":"a","x":"`+strings.Repeat("x", 1<<20)+`"}`,
				`{"g":"a"}`, `{"g":"b"}`))
			if !slices.Equal(fails(errs), []int{1, 2}) || !errors.Is(errs[2], engine.ErrBehind) {
				t.Errorf("got %v", errs)
			}
		})
	})
}

func TestAPipelineKeepsTheOrderOfGroupsThroughFailures(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		for range 6 {
			s.Fault("SendMessageBatch", fakesqs.Fault{})
			s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InternalError",
				Entry: func(body string) bool { return strings.Contains(body, "a") || strings.Contains(body, "c") }})
			s.Fault("SendMessageBatch", fakesqs.Fault{Code: "RequestThrottled",
				Header: map[string]string{"Retry-After": "2"}})
			s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InternalFailure", Status: 500, Delay: time.Second})
		}
		src := &enginetest.Source{Payloads: groups(30, "a", "b", "c", "d"), Takes: engine.TakesOne, PerRead: 25}
		p := &engine.Pipeline{
			Inputs: enginetest.Named("in", src.Input()),
			Outputs: enginetest.Named("out", engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) {
				return o, nil
			}), Concurrency: 4}),
			Engine: engine.EngineSpec{Workers: 4, OrderBy: expr.MustCompile("g")},
		}
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 100}
		rep := enginetest.Run(t, p, nil)
		if rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 120 {
			t.Errorf("%+v", rep.Stats.Roots)
		}
		wantOrder(t, s.Messages("orders.fifo"), 120)
	})
}

func TestEqualMessagesAreSentUnlessAnIDSaysOtherwise(t *testing.T) {
	tests := []struct {
		name, config string
		queue        fakesqs.Queue
		want         int
	}{
		{"without an id", fifo, fakesqs.Queue{}, 3},
		{"with an id", `{"queue": "orders.fifo", "group_id": "g", "dedupe_id": "id"}`, fakesqs.Queue{}, 2},
		{"where the queue goes by content", fifo, fakesqs.Queue{ContentDedupe: true}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, tt.queue, tt.config, func(t *testing.T, s *fakesqs.Server, o *output) {
				errs := write(t, o, enginetest.Batch(`{"g":"a","id":1}`, `{"g":"a","id":1}`, `{"g":"a","id":2}`))
				if n := len(s.Messages("orders.fifo")); n != tt.want || fails(errs) != nil {
					t.Errorf("%d messages, want %d (%v)", n, tt.want, errs)
				}
			})
		})
	}
}

func TestMessagesSentAgainAfterATimeoutAreStoredOnce(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		s.Fault("SendMessageBatch", fakesqs.Fault{Cut: true, Times: 5}) // the requests are carried out, but their answers are lost
		sent := slices.Repeat([]string{`{"g":"a"}`, `{"g":"b"}`, `{"g":"c"}`}, 10)
		src := &enginetest.Source{Payloads: sent, Takes: engine.TakesOne}
		p := &engine.Pipeline{
			Inputs: enginetest.Named("in", src.Input()),
			Outputs: enginetest.Named("out",
				engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return o, nil })}),
			Batchers: enginetest.Named("all", batches(t)),
			Engine:   engine.EngineSpec{Workers: 4, OrderBy: expr.MustCompile("g")},
		}
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 100}
		rep := enginetest.Run(t, p, nil)
		ids := map[string]bool{}
		for _, m := range s.Messages("orders.fifo") {
			ids[m.Dedupe] = true
		}
		if n := len(s.Messages("orders.fifo")); n != 30 || len(ids) != 30 ||
			rep.Stats.Roots.Ended[engine.Delivered] != 30 {
			t.Errorf("%d messages with %d ids, want 30: %+v", n, len(ids), rep.Stats.Roots)
		}
	})
}

func TestABatchGoesInOneRequestForEachTenGroups(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		src := &enginetest.Source{Payloads: groups(3, strings.Split("abcdefghij", "")...), Takes: engine.TakesOne}
		p := &engine.Pipeline{
			Inputs: enginetest.Named("in", src.Input()),
			Outputs: enginetest.Named("out",
				engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return o, nil })}),
			Batchers: enginetest.Named("all", batches(t)),
			Engine:   engine.EngineSpec{Workers: 4, OrderBy: expr.MustCompile("g")},
		}
		enginetest.Run(t, p, nil)
		if n := len(s.Calls("SendMessageBatch")); n != 3 || len(s.Messages("orders.fifo")) != 30 {
			t.Errorf("%d requests for three messages of each of ten groups", n)
		}
		wantOrder(t, s.Messages("orders.fifo"), 30)
	})
}

// batches returns a batcher that sends batches at the end only.
func batches(t *testing.T) engine.BatcherSpec {
	return engine.BatcherSpec{
		Use: engine.Use(func(engine.Env) (engine.Batcher, error) {
			return enginetest.New(t, engine.Batchers, `{"batch": {"size": 30}}`), nil
		}),
		Output: engine.Names{"out"},
	}
}

func TestGroupsThatTheQueueWouldRefuseAreRejected(t *testing.T) {
	virtual(t, fakesqs.Queue{}, fifo, func(t *testing.T, s *fakesqs.Server, o *output) {
		errs := write(t, o, enginetest.Batch(`{"g":"a b"}`, `{"g":"é"}`, `{"g":"`+strings.Repeat("x", 129)+`"}`,
			`{"g":""}`, `{}`, `{"g":7}`))
		if !slices.Equal(fails(errs), []int{0, 1, 2, 3, 4}) || s.Messages("orders.fifo")[0].Group != "7" {
			t.Errorf("got %v", errs)
		}
	})
}

// two returns two outputs: one for messages, and o for dead letters.
func two(o *output) schema.Map[engine.OutputSpec] {
	return schema.MapOf(
		schema.Entry[engine.OutputSpec]{Key: "out", Value: (&enginetest.Sink{}).Output()},
		schema.Entry[engine.OutputSpec]{Key: "dead",
			Value: engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return o, nil })}})
}

func TestPayloadsOfAllKinds(t *testing.T) {
	s := fakesqs.Start(t)
	s.Create("orders", fakesqs.Queue{})
	o := enginetest.New(t, engine.Outputs, `{"sqs": "orders"}`).(*output)
	o.http = s.Client()
	enginetest.Carries(t, o, func(*testing.T, int) (all [][]byte) {
		for _, body := range s.Bodies("orders") {
			all = append(all, []byte(body))
		}
		return all
	})
}
