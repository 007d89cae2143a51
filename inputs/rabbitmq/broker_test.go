package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	"github.com/flowd-io/flowd/internal/testing/brokertest"
	_ "github.com/flowd-io/flowd/outputs/rabbitmq"
	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// opened returns an open input with more configuration. It is closed when the test ends.
func opened(t *testing.T, b *brokertest.Broker, queue, more string) *input {
	t.Helper()
	in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"rabbitmq": {"url": %q, "queue": %q%s}}`, b.URL, queue,
		more)).(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(context.Background()) })
	return in
}

// got is a message as it was read.
type got struct {
	body    string
	attempt int
	meta    map[string]any
	ref     uint64
	acker   engine.Acker
}

// read reads n messages.
func read(t *testing.T, in *input, n int) (all []got) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for len(all) < n {
		b := engine.NewBatch(n - len(all))
		acker, err := in.Read(ctx, b)
		if err != nil {
			t.Fatalf("%d of %d messages: %v", len(all), n, err)
		}
		for m := range b.All() {
			all = append(all, got{string(m.Bytes()), m.Attempt, m.Meta.Map(), m.Ref, acker})
		}
	}
	return all
}

func bodies(all []got) (texts []string) {
	for _, g := range all {
		texts = append(texts, g.body)
	}
	return texts
}

// settle reports how messages ended.
func settle(t *testing.T, fate engine.Fate, err *engine.Error, all ...got) {
	t.Helper()
	results := make([]engine.Result, len(all))
	for i, g := range all {
		results[i] = engine.Result{Ref: g.ref, Fate: fate, Err: err}
	}
	if again, err := all[0].acker.Ack(t.Context(), results); len(again) > 0 || err != nil {
		t.Errorf("ack: %v, %v again", err, again)
	}
}

var broken = engine.Errorf(engine.Permanent, "no")

func TestAcknowledgedMessagesAreGone(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			q := b.Queue(t, amqp091.Table{"x-queue-type": kind})
			want := []string{"a", "b", "c", "d", "e"}
			b.Send(t, q, want...)
			in := opened(t, b, q, "")
			all := read(t, in, 5)
			if !slices.Equal(bodies(all), want) {
				t.Errorf("read %q, want %q", bodies(all), want)
			}
			for _, i := range []int{3, 0, 4, 2, 1} { // in any order
				settle(t, engine.Delivered, nil, all[i])
			}
			if err := in.Close(t.Context()); err != nil || b.Ready(t, q) != 0 {
				t.Errorf("close: %v; %d messages are back", err, b.Ready(t, q))
			}
		})
	}
}

func TestUnacknowledgedMessagesAreRedelivered(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b", "c")
	in := opened(t, b, q, "")
	first := read(t, in, 3)
	settle(t, engine.Delivered, nil, first[1])
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, engine.Delivered, nil, first[0], first[2]) // of a closed connection: its tags are not valid on the new one
	again := read(t, in, 2)
	if !slices.Equal(bodies(again), []string{"a", "c"}) || again[0].attempt != 2 ||
		again[0].meta["redelivered"] != true {
		t.Errorf("read %+v again", again)
	}
	settle(t, engine.Delivered, nil, again...)
	if err := in.Close(t.Context()); err != nil || b.Ready(t, q) != 0 {
		t.Errorf("close: %v; %d messages are back", err, b.Ready(t, q))
	}
}

func TestReturns(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	unfinished := handedBack(t)
	tests := []struct {
		name, how string
		why       []*engine.Error // of each delivery
		attempts  []int
		dead      bool
	}{
		{"a message is requeued, again and again", "requeue", []*engine.Error{broken, broken, broken}, []int{1, 2, 2},
			false},
		{"once", "requeue_once", []*engine.Error{broken, broken}, []int{1, 2}, true},
		{"never", "reject", []*engine.Error{broken}, []int{1}, true},
		{"an unfinished message that a stop returns is requeued in any case", "reject", []*engine.Error{unfinished, unfinished, broken},
			[]int{1, 2, 2}, true},
		{"also with requeue_once", "requeue_once", []*engine.Error{unfinished, unfinished, broken},
			[]int{1, 2, 2}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dead := b.Queue(t, nil)
			q := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
			b.Send(t, q, "a")
			in := opened(t, b, q, `, "return_delay": "10ms", "on_return": "`+tt.how+`"`)
			var attempts []int
			for _, why := range tt.why {
				m := read(t, in, 1)
				attempts = append(attempts, m[0].attempt)
				settle(t, engine.Returned, why, m...)
			}
			if !slices.Equal(attempts, tt.attempts) {
				t.Errorf("attempts %v, want %v", attempts, tt.attempts)
			}
			if !tt.dead {
				read(t, in, 1)
				return
			}
			d := b.Take(t, dead, 1)[0]
			if got := brokertest.DiedIn(d.Headers); got != q {
				t.Errorf("it died in %q, want %q", got, q)
			}
		})
	}
}

// handedBack returns the error of a message that a stop returns unfinished.
func handedBack(t *testing.T) *engine.Error {
	t.Helper()
	src := &enginetest.Source{Payloads: []string{"x"}, Takes: engine.TakesOne, Endless: true}
	dst := &enginetest.Sink{Block: make(chan struct{})}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	p := &engine.Pipeline{
		Inputs: enginetest.Named("in", src.Input()), Outputs: enginetest.Named("out", dst.Output()),
	}
	p.Engine.Drain.Timeout = 100 * time.Millisecond
	enginetest.Run(t, p, ctx)
	return src.Results()["x"].Err
}

func TestAReturnedMessageIsRequeuedAfterADelay(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "poison", "a", "b")
	in := opened(t, b, q, `, "return_delay": "400ms"`)
	first := read(t, in, 3)
	settle(t, engine.Returned, broken, first[0])
	settle(t, engine.Delivered, nil, first[1:]...)
	began := time.Now()
	for range 2 { // the first arrives at once, the next is delayed by half to all of the time
		settle(t, engine.Returned, broken, read(t, in, 1)...)
	}
	read(t, in, 1)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("it was redelivered twice within %v, want a delay of 200ms at least, each time", took)
	}
}

func TestAStopReturnsPrefetchedMessages(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b", "c", "d")
	in := opened(t, b, q, "")
	m := read(t, in, 1)
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, engine.Delivered, nil, m...) // acks still arrive
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rest := brokertest.Bodies(b.Take(t, q, 3)); !slices.Equal(rest, []string{"b", "c", "d"}) || b.Ready(t, q) != 0 {
		t.Errorf("others got %q; %d messages are left", rest, b.Ready(t, q))
	}
}

// TestStopsKeepTheOrder stops an input repeatedly, with messages in hand and others that are prefetched.
func TestStopsKeepTheOrder(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	const n = 400
	var sent []string
	for i := range n {
		sent = append(sent, strconv.Itoa(i))
	}
	for name, args := range map[string]amqp091.Table{
		"classic": nil, "quorum": {"x-queue-type": "quorum"},
		"quorum, with a delivery limit": {"x-queue-type": "quorum", "x-delivery-limit": int64(20)},
	} {
		t.Run(name, func(t *testing.T) {
			q := b.Queue(t, args)
			b.Send(t, q, sent...)
			var got []string
			for range 4 {
				in := opened(t, b, q, `, "prefetch": 150`)
				all := read(t, in, 40)
				settle(t, engine.Delivered, nil, all[:20]...)
				if err := in.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				settle(t, engine.Delivered, nil, all[20:30]...)
				settle(t, engine.Returned, nil, all[30:35]...)
				got = append(got, bodies(all[:30])...)
				if err := in.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.Holds(t, q, n-len(got)) // otherwise the next consumer may read before the broker has put them back
			}
			got = append(got, bodies(read(t, opened(t, b, q, ""), n-len(got)))...)
			if diff := cmp.Diff(sent, got); diff != "" {
				t.Errorf("-sent +got:\n%s", diff)
			}
		})
	}
}

func TestPrefetchLimitsUnacknowledgedMessages(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, strings.Split("abcdefghij", "")...)
	in := opened(t, b, q, `, "prefetch": 3`)
	for range 3 { // each ack brings one more
		all := read(t, in, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if b := engine.NewBatch(1); in.Conn().read(ctx, b) == nil {
			t.Error("a fourth message came")
		}
		cancel()
		settle(t, engine.Delivered, nil, all...)
	}
}

func TestQuorumQueuesCountAttemptsAndDeadLetter(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	dead := b.Queue(t, nil)
	q := b.Queue(t, amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(2), "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": dead})
	b.Send(t, q, "poison")
	in := opened(t, b, q, `, "return_delay": "1ms"`)
	for attempt := 1; attempt <= 3; attempt++ {
		m := read(t, in, 1)
		if m[0].attempt != attempt {
			t.Errorf("attempt %d, want %d", m[0].attempt, attempt)
		}
		settle(t, engine.Returned, broken, m...)
	}
	died := opened(t, b, dead, "")
	m := read(t, died, 1)[0]
	history, _ := m.meta["x-death"].([]any)
	if len(history) != 1 || m.meta["deaths"] != 1 || m.meta["x-first-death-queue"] != q {
		t.Errorf("its history is %v", m.meta)
	}
}

// TestAStreamContinuesAfterItsSettledMessages reads a stream, loses the connection, and continues.
func TestAStreamContinuesAfterItsSettledMessages(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, amqp091.Table{"x-queue-type": "stream"})
	b.Send(t, q, "a", "b", "c", "d", "e")
	in := opened(t, b, q, `, "consume": {"arguments": {"x-stream-offset": "first"}}`)
	all := read(t, in, 5)
	if m := all[4]; m.meta["x-stream-offset"] != 4 || m.attempt != 0 {
		t.Errorf("got %+v", m)
	}
	settle(t, engine.Delivered, nil, all[0], all[1], all[3])
	for range 2 {
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := bodies(read(t, in, 3)); !slices.Equal(again, []string{"c", "d", "e"}) {
			t.Errorf("it continued with %q", again)
		}
	}
}

func TestAStreamBeginsWhereItIsAskedTo(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, amqp091.Table{"x-queue-type": "stream"})
	b.Send(t, q, "a", "b", "c")
	yesterday := time.Now().Add(-24 * time.Hour)
	for _, from := range []string{
		strconv.Quote(yesterday.Format(time.RFC3339)), strconv.Quote(yesterday.Format(time.RFC3339Nano)),
		strconv.Quote(yesterday.Format(time.DateOnly)), `"2h"`, "0", `"first"`,
	} {
		in := opened(t, b, q, `, "consume": {"arguments": {"x-stream-offset": `+from+`}}`)
		if got := bodies(read(t, in, 3)); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("from %s: %q", from, got)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestRestartsDeadLetterNothingOfAQueueWithADeliveryLimit(t *testing.T) {
	b := brokertest.Managed(t)
	limit := amqp091.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-delivery-limit": int64(2)}
	plain := amqp091.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": ""}
	management := fmt.Sprintf(`, "management": %q`, b.Management)
	tests := []struct {
		name   string
		args   amqp091.Table
		policy bool
		more   string
		all    bool // all messages are prefetched, as without a limit
	}{
		{"the argument, from the management interface", limit, false, management, false},
		{"the argument, from declare", limit, false, "declared", false},
		{"a policy", plain, true, management, false},
		{"no limit", plain, false, management, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dead := b.Queue(t, nil)
			args := amqp091.Table{"x-dead-letter-routing-key": dead}
			maps.Copy(args, tt.args)
			q := b.Queue(t, args)
			if tt.policy {
				b.API(t, "PUT", "policies/%2F/"+q,
					fmt.Sprintf(`{"pattern": "^%s$", "definition": {"delivery-limit": 2}, "apply-to": "queues"}`,
						regexp.QuoteMeta(q)), nil)
				b.Knows(t, q, "delivery-limit")
			}
			more := tt.more
			if more == "declared" {
				text, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				more = fmt.Sprintf(`, "management": "http://127.0.0.1:1", "declare": {"arguments": %s}`, text)
			}
			b.Send(t, q, slices.Repeat([]string{"x"}, 200)...)
			for range 6 {
				in := enginetest.New(t, engine.Inputs,
					fmt.Sprintf(`{"rabbitmq": {"url": %q, "queue": %q%s}}`, b.URL, q, more)).(*input)
				in.hands = 5
				if err := in.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				settle(t, engine.Delivered, nil, read(t, in, 5)...)
				if err := errors.Join(in.Stop(t.Context()), in.Close(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if n := b.Ready(t, dead); n != 0 {
				t.Errorf("%d of 200 messages are dead letters after six restarts", n)
			}
			newest := b.Take(t, q, 170)[169]
			if _, redelivered := newest.Headers["x-delivery-count"]; redelivered != tt.all {
				t.Errorf("the newest message was prefetched: %v", redelivered)
			}
		})
	}
}

func TestPropertiesAndHeadersGoThrough(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	from, to := b.Queue(t, amqp091.Table{"x-max-priority": int64(9)}), b.Queue(t, nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sent := amqp091.Publishing{
		Body: []byte(`{"n":1}`), ContentType: "application/json", ContentEncoding: "utf-8", CorrelationId: "c",
		ReplyTo: "r", MessageId: "m", Type: "t", AppId: "a",
		Timestamp: at, Priority: 5, Expiration: "600000", DeliveryMode: 1, UserId: "guest",
		Headers: amqp091.Table{"s": "x", "i": int32(-5), "f": 1.5, "b": true, "t": at, "l": []any{int64(1), "y"},
			"m": amqp091.Table{"k": int64(2)}, "CC": []any{"elsewhere"}},
	}
	b.Publish(t, from, sent)
	out := enginetest.New(t, engine.Outputs,
		fmt.Sprintf(
			`{"rabbitmq": {"url": %q, "routing_key": %q, "headers": {"from": "$(meta(\"routing_key\"))"}, "expiration": "meta(\"expiration\")"}}`,
			b.URL, to))
	in := opened(t, b, from, "")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan runtime.Report, 1)
	go func() {
		done <- enginetest.Run(t, &engine.Pipeline{
			Inputs: enginetest.Named("in",
				engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return &started{in}, nil })}),
			Processors: engine.Steps{enginetest.Step("tag",
				func(_ context.Context, m *engine.Message) error { m.Meta = m.Meta.With("tenant", "t1"); return nil })},
			Outputs: enginetest.Named("out",
				engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })}),
		}, ctx)
	}()
	d := b.Take(t, to, 1)[0]
	stop()
	if rep := <-done; rep.Err != nil || b.Ready(t, from) != 0 {
		t.Errorf("the run: %+v", rep)
	}
	got := amqp091.Publishing{
		Body: d.Body, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, CorrelationId: d.CorrelationId,
		ReplyTo: d.ReplyTo, MessageId: d.MessageId, Type: d.Type, AppId: d.AppId,
		Timestamp: d.Timestamp.UTC(), Priority: d.Priority, Expiration: d.Expiration, DeliveryMode: d.DeliveryMode,
		UserId: d.UserId, Headers: d.Headers,
	}
	want := sent
	want.DeliveryMode, want.UserId = 2, "" // the output's own
	want.Headers = amqp091.Table{"s": "x", "i": int64(-5), "f": 1.5, "b": true, "t": at, "l": []any{int64(1), "y"},
		"m": amqp091.Table{"k": int64(2)}, "tenant": "t1", "from": from}
	if diff := cmp.Diff(want, got, cmp.Transformer("UTC", func(t time.Time) int64 { return t.Unix() })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// started is an input that is already open.
type started struct{ *input }

func (*started) Open(context.Context) error { return nil }

func TestEarlyAck(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b")
	src := opened(t, b, q, `, "early_ack": true`)
	ctx, stop := context.WithCancel(t.Context())
	dst := &enginetest.Sink{Fail: func(body string) error {
		if body == "b" {
			defer stop()
		}
		return broken
	}}
	enginetest.Run(t, &engine.Pipeline{
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return &started{src}, nil })}),
		Outputs: enginetest.Named("out", dst.Output()),
	}, ctx)
	if n := b.Ready(t, q); n != 0 {
		t.Errorf("%d messages are back, though they were acknowledged when they were read", n)
	}
}

func TestDeclare(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q, x := b.Name(), b.Name()
	ch := b.Channel(t)
	t.Cleanup(func() { _, _ = ch.QueueDelete(q, false, false, false); _ = ch.ExchangeDelete(x, false, false) })
	declare := fmt.Sprintf(`, "declare": {"arguments": {"x-max-length": 100}, "exchange": {"name": %q, "type": "topic"}, "bindings": `+
		`[{"routing_key": "a.*"}, {"exchange": "amq.fanout"}]}`, x)
	in := opened(t, b, q, declare)
	for _, to := range [][2]string{{x, "a.b"}, {x, "b.b"}, {"amq.fanout", ""}} {
		if err := ch.Publish(to[0], to[1], false, false, amqp091.Publishing{Body: []byte(to[0] + to[1])}); err != nil {
			t.Fatal(err)
		}
	}
	if all := bodies(read(t, in, 2)); !slices.Equal(all, []string{x + "a.b", "amq.fanout"}) {
		t.Errorf("read %q", all)
	}
	opened(t, b, q, declare) // again, as it is
	nameless := opened(t, b, "",
		`, "declare": {"queue": {"exclusive": true}, "bindings": [{"exchange": "amq.fanout"}]}`)
	if err := ch.Publish("amq.fanout", "", false, false, amqp091.Publishing{Body: []byte("c")}); err != nil {
		t.Fatal(err)
	}
	if m := read(t, nameless, 1); m[0].body != "c" || !strings.HasPrefix(m[0].meta["queue"].(string), "amq.gen-") {
		t.Errorf("read %+v", m)
	}
}

func TestErrorsOfOpen(t *testing.T) {
	b := brokertest.Managed(t)
	q := b.Queue(t, nil)
	nobody := b.User(t, "", "", "")
	tests := []struct {
		name, url, config string
		class             engine.Class
		want              string
	}{
		{"no such queue", b.URL, `"queue": "nope"`, engine.Transient,
			"no queue 'nope' in vhost '/' (create it, or write `declare`)"},
		{"a wrong password", strings.Replace(b.URL, "guest:guest", "guest:s3cret", 1), `"queue": "q"`, engine.Auth,
			"the broker refuses the login (check user and password"},
		{"no such vhost", b.URL, `"queue": "q", "vhost": "nope"`, engine.Auth, "(check"},
		{"no permission", nobody, fmt.Sprintf(`"queue": %q`, q), engine.Auth,
			"give the user the permission: rabbitmqctl set_permissions"},
		{"another queue of that name", b.URL, fmt.Sprintf(`"queue": %q, "declare": {"arguments": {"x-max-length": 5}}`,
			q), engine.Transient, "change `declare` to match the broker"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := enginetest.New(t, engine.Inputs,
				fmt.Sprintf(`{"rabbitmq": {"url": %q, %s}}`, tt.url, tt.config)).(*input)
			err := in.Open(t.Context())
			if err == nil {
				t.Fatal("it opened")
			}
			if amqp.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %s: %v\nwant %s: %s", amqp.ClassOf(err), err, tt.class, tt.want)
			}
		})
	}
}

func TestTheNextURLIsTried(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a")
	in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"rabbitmq": {"url": ["amqp://127.0.0.1:1", %q], "queue": %q}}`,
		b.URL, q)).(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer in.Close(t.Context())
	read(t, in, 1)
}

func TestABrokerThatIsDownAtTheStartIsWaitedFor(t *testing.T) {
	in := enginetest.New(t, engine.Inputs,
		`{"rabbitmq": {"url": "amqp://u:s3cret@127.0.0.1:1", "queue": "q"}}`).(*input)
	err := in.Open(t.Context())
	if !engine.Passes(err) || !strings.Contains(err.Error(), "connect to amqp://127.0.0.1:1/: dial tcp 127.0.0.1:1") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("open: %v", err)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	b := brokertest.RabbitMQ(t)
	q := ""
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			q = b.Queue(t, nil)
			return fmt.Sprintf(`{"rabbitmq": {"url": %q, "queue": %q}}`, wire.Over(b.URL), q)
		},
		Send: func(t *testing.T, payloads ...string) { b.Send(t, q, payloads...) },
		SendHeaders: func(t *testing.T, payload string, headers map[string]string) {
			p := amqp091.Publishing{Body: []byte(payload), Headers: amqp091.Table{}}
			for name, value := range headers {
				p.Headers[name] = value
			}
			b.Publish(t, q, p)
		},
		Left:   func(t *testing.T) int { return b.Ready(t, q) },
		Shared: true,
	}.Run(t)
}
