package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// finite ends an input after some messages.
type finite struct {
	engine.Input
	left int
}

func (f *finite) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.left == 0 {
		return nil, engine.ErrEnd
	}
	a, err := f.Input.Read(ctx, b)
	f.left -= b.Len()
	return a, err
}
func (f *finite) Open(ctx context.Context) error  { return f.Input.(engine.Opener).Open(ctx) }
func (f *finite) Close(ctx context.Context) error { return f.Input.(engine.Closer).Close(ctx) }
func (f *finite) Stop(ctx context.Context) error  { return f.Input.(engine.Stopper).Stop(ctx) }
func (f *finite) Traits() engine.Traits           { return engine.TraitsOf(f.Input) }

// build returns an input with conf, which is a configuration without its braces.
func build(t testing.TB, s *natstest.Server, conf string) engine.Input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"nats": {"url": %q, %s}}`, s.URL, conf))
}

// opened returns an open input. It is closed when the test ends.
func opened(t testing.TB, s *natstest.Server, conf string) *input {
	t.Helper()
	in := build(t, s, conf).(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// orderly is like opened, for a pipeline with order_by.
func orderly(t testing.TB, s *natstest.Server, conf string) *input {
	t.Helper()
	in := build(t, s, conf).(*input)
	in.order = true
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

// got is a message that was read.
type got struct {
	body    string
	ref     uint64
	attempt int
	meta    map[string]any
}

// read reads at least n messages.
func read(t testing.TB, in *input, n int) (all []got, acker engine.Acker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(all) < n {
		b := engine.NewBatch(64)
		a, err := in.Read(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatalf("only %d of %d messages can be read: %v", len(all), n, all)
		}
		acker = cmp.Or(acker, a)
		for m := range b.All() {
			all = append(all, got{string(m.Bytes()), m.Ref, m.Attempt, m.Meta.Map()})
		}
	}
	return all, acker
}

// settle reports how messages ended.
func settle(t testing.TB, a engine.Acker, fate engine.Fate, why *engine.Error, all ...got) {
	t.Helper()
	var rs []engine.Result
	for _, g := range all {
		rs = append(rs, engine.Result{Ref: g.ref, Fate: fate, Err: why})
	}
	if again, err := a.Ack(t.Context(), rs); err != nil || len(again) > 0 {
		t.Fatalf("%v, again %v", err, again)
	}
}

func bodies(all []got) string {
	var text []string
	for _, g := range all {
		text = append(text, g.body)
	}
	return strings.Join(text, " ")
}

const durable = `"stream": "S", "consumer": "c", "declare": {"consumer": {"start": "all"}}`

// streams starts a server with a stream S of the subjects s.>.
func streams(t testing.TB, change func(o *server.Options)) *natstest.Server {
	t.Helper()
	s := natstest.Start(t, change)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	return s
}

func TestInput(t *testing.T) {
	s := streams(t, nil)
	payloads := enginetest.Awkward()
	s.Send(t, "s.a", payloads...)
	for i := range 6 { // before the suite counts the goroutines of the server
		c := jetstream.ConsumerConfig{Durable: fmt.Sprint("c", i), AckPolicy: jetstream.AckExplicitPolicy}
		if _, err := s.JS.CreateConsumer(t.Context(), "S", c); err != nil {
			t.Fatal(err)
		}
	}
	n := -1
	enginetest.Input(t, func(t *testing.T) engine.Input {
		n++
		return &finite{build(t, s, fmt.Sprintf(`"stream": "S", "consumer": "c%d"`, n)), len(payloads)}
	}, payloads...)
}

func TestMetadata(t *testing.T) {
	s := streams(t, nil)
	m := client.NewMsg("s.a")
	m.Header = client.Header{"Kind": {"order"}, "tag": {"x", "y"}, "stream": {"forged"}}
	if _, err := s.JS.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.Send(t, "s.b", "more")
	all, _ := read(t, opened(t, s, durable), 1)
	meta := all[0].meta
	if _, ok := meta["timestamp"].(time.Time); !ok {
		t.Errorf("timestamp is %v", meta["timestamp"])
	}
	delete(meta, "timestamp")
	if text, want := fmt.Sprint(meta), "map[Kind:order consumer:c deliveries:1 delivery:1 header_stream:forged pending:1 sequence:1 "+
		"stream:S subject:s.a tag:[x y]]"; text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

// A settled message is not redelivered. Returned messages are redelivered in order, with their attempts. A dead-lettered message
// is terminated.
func TestFates(t *testing.T) {
	s := streams(t, nil)
	advisories, err := s.Conn.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>")
	if err != nil {
		t.Fatal(err)
	}
	s.Send(t, "s.a", "0", "1", "2", "3", "4")
	in := opened(t, s, durable)
	all, a := read(t, in, 5)
	settle(t, a, engine.Delivered, nil, all[0])
	settle(t, a, engine.DeadLettered, engine.Errorf(engine.Decode, "bad"), all[1])
	settle(t, a, engine.Returned, nil, all[4], all[2], all[3])
	again, _ := read(t, in, 3)
	if text := bodies(again); text != "2 3 4" || again[0].attempt != 2 {
		t.Errorf("returned are %s, with attempt %d", text, again[0].attempt)
	}
	settle(t, a, engine.Filtered, nil, again...)
	if i := s.Info(t, "S", "c"); i.NumAckPending != 0 || i.AckFloor.Stream != 5 {
		t.Errorf("%d are pending, all up to %d are acknowledged", i.NumAckPending, i.AckFloor.Stream)
	}
	adv, err := advisories.NextMsg(time.Minute)
	if err != nil || !strings.Contains(string(adv.Data), "flowd: dead_lettered, decode") {
		t.Errorf("the advisory is %v, %v", adv, err)
	}
}

// A failed message is redelivered after its delay, not before.
func TestADelayIsKept(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "failed")
	in := opened(t, s, durable)
	all, a := read(t, in, 1)
	began := time.Now()
	rs := []engine.Result{{Ref: all[0].ref, Fate: engine.Returned, Delay: 300 * time.Millisecond,
		Err: engine.Errorf(engine.Transient, "x")}}
	if _, err := a.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	if read(t, in, 1); time.Since(began) < 300*time.Millisecond {
		t.Errorf("it was redelivered after %v", time.Since(began))
	}
}

// Renew extends the ack_wait of messages in flight, and of those that wait to be read.
func TestRenew(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "0", "1")
	in := opened(t, s, `"stream": "S", "consumer": "c", "declare": {"consumer": {"ack_wait": "1s"}}`)
	b := engine.NewBatch(1)
	a, err := in.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var ref uint64
	for m := range b.All() {
		ref = m.Ref
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		lost, next, err := a.(engine.Leaser).Renew(t.Context(), []uint64{ref})
		if len(lost) > 0 || err != nil || next <= 0 || next > time.Second/2 {
			t.Fatalf("lost %v, next %v, %v", lost, next, err)
		}
		<-time.After(next)
	}
	rest, _ := read(t, in, 1)
	if rest[0].attempt != 1 || rest[0].body != "1" {
		t.Errorf("read %+v", rest)
	}
	settle(t, a, engine.Delivered, nil, got{ref: ref}, rest[0])
	if n := s.Info(t, "S", "c").NumRedelivered; n != 0 {
		t.Errorf("%d were redelivered", n)
	}
}

// A message is lost if its ack_wait is over and the server redelivers it.
func TestARedeliveredMessageIsLost(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "0")
	in := opened(t, s, `"stream": "S", "consumer": "c", "declare": {"consumer": {"ack_wait": "1s"}}`)
	first, a := read(t, in, 1)
	second, _ := read(t, in, 1)
	lost, _, err := a.(engine.Leaser).Renew(t.Context(), []uint64{first[0].ref, second[0].ref})
	if err != nil || !slices.Equal(lost, []uint64{first[0].ref}) || second[0].attempt != 2 {
		t.Errorf("lost %v, %v, attempt %d", lost, err, second[0].attempt)
	}
}

// A message at its last delivery is kept here until its retry. If it has failed permanently, it is terminated.
func TestLastDelivery(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "0", "1")
	in := opened(t, s, `"stream": "S", "consumer": "c", "declare": {"consumer": {"max_deliver": 1}}`)
	all, a := read(t, in, 2)
	failed := engine.Errorf(engine.Transient, "x")
	if _, err := a.Ack(t.Context(), []engine.Result{{Ref: all[0].ref, Fate: engine.Returned, Err: failed,
		Delay: time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	again, _ := read(t, in, 1)
	if again[0].body != "0" || again[0].attempt != 2 {
		t.Errorf("tried again is %+v", again)
	}
	settle(t, a, engine.Returned, failed, again[0], all[1])
	if i := s.Info(t, "S", "c"); i.NumAckPending != 0 {
		t.Errorf("%d are pending", i.NumAckPending)
	}
}

// A stop returns unread messages. Another reader gets them at once, in order.
func TestAStopReturnsUnreadMessages(t *testing.T) {
	s := streams(t, nil)
	s.Fill(t, 100, "s.a")
	in := opened(t, s, durable)
	b := engine.NewBatch(1)
	a, err := in.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "prefetched", func() bool { return s.Info(t, "S", "c").NumAckPending == 100 })
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		settle(t, a, engine.Delivered, nil, got{ref: m.Ref})
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rest, _ := read(t, orderly(t, s, durable), 99)
	for i, g := range rest {
		if want := fmt.Sprintf(`{"id": %d}`, i+1); g.body != want {
			t.Fatalf("message %d is %s, want %s", i, g.body, want)
		}
	}
}

// Reading continues after a lost connection, and after a restart of the server. Acknowledgements that failed meanwhile are repeated
// and arrive.
func TestOutages(t *testing.T) {
	s := streams(t, nil)
	s.Fill(t, 10, "s.a")
	in := opened(t, s, durable)
	all, a := read(t, in, 10)
	s.Cut(t)
	settleWithRetries(t, a, all[:5])
	s.Stop()
	natstest.Until(t, "in trouble", func() bool { return in.Trouble() != nil })
	if again, err := a.Ack(t.Context(), []engine.Result{{Ref: all[5].ref, Fate: engine.Delivered}}); err == nil || len(again) != 1 {
		t.Errorf("without a server: %v, %v", again, err)
	}
	s.Restart(t, nil)
	settleWithRetries(t, a, all[5:])
	s.Fill(t, 1, "s.a")
	more, _ := read(t, in, 1)
	settleWithRetries(t, a, more)
	if i := s.Info(t, "S", "c"); i.NumAckPending != 0 || i.NumRedelivered != 0 || i.AckFloor.Stream != 11 {
		t.Errorf("%+v", i)
	}
}

// settleWithRetries reports messages as delivered until that succeeds.
func settleWithRetries(t testing.TB, a engine.Acker, all []got) {
	t.Helper()
	var rs []engine.Result
	for _, g := range all {
		rs = append(rs, engine.Result{Ref: g.ref, Fate: engine.Delivered})
	}
	natstest.Until(t, "acknowledged", func() bool {
		again, err := a.Ack(t.Context(), rs)
		return err == nil && len(again) == 0
	})
}

// New messages wait until those of a reader that has crashed are redelivered.
func TestAfterACrashNothingOvertakes(t *testing.T) {
	s := streams(t, nil)
	s.Fill(t, 20, "s.a")
	const quick = `"stream": "S", "consumer": "c", "prefetch": 10, "declare": {"consumer": {"ack_wait": "2s"}}`
	crashed := opened(t, s, quick)
	all, _ := read(t, crashed, 10)
	crashed.Conn().conn.Close()
	again, _ := read(t, orderly(t, s, quick), 20)
	for i, g := range again {
		if want := fmt.Sprintf(`{"id": %d}`, i); g.body != want {
			t.Fatalf("message %d is %s: %v", i, g.body, bodies(again))
		}
	}
	if len(all) < 10 {
		t.Errorf("read %d before the crash, want 10 or more", len(all))
	}
}

// The bytes of prefetched messages are limited, however large messages are.
func TestBytesAreLimited(t *testing.T) {
	s := streams(t, nil)
	for range 60 {
		s.Send(t, "s.a", strings.Repeat("x", 100<<10))
	}
	in := opened(t, s, durable)
	for range 20 {
		b := engine.NewBatch(1)
		if _, err := in.Read(t.Context(), b); err != nil || b.Len() != 1 {
			t.Fatalf("read %d: %v", b.Len(), err)
		}
		ahead := int(s.Info(t, "S", "c").Delivered.Stream) - int(in.Conn().reader.(*pull).next)
		if ahead > in.maxBytes/(100<<10) {
			t.Fatalf("%d messages of 100 KiB wait, want %d bytes at most", ahead, in.maxBytes)
		}
	}
}

func TestStart(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "0", "1")
	s.Send(t, "s.b", "2", "3")
	for i, tt := range []struct{ consumer, want string }{
		{`"start": "all"`, "0 1 2 3"},
		{`"start": "3"`, "2 3"},
		{`"start": "last"`, "3"},
		{`"start": "last_per_subject"`, "1 3"},
		{`"start": "1h"`, "0 1 2 3"},
		{`"start": "all", "filter": "s.b"`, "2 3"},
		{`"start": "all", "filter": ["s.b", "s.c"]`, "2 3"},
	} {
		in := opened(t, s, fmt.Sprintf(`"stream": "S", "consumer": "c%d", "declare": {"consumer": {%s}}`, i, tt.consumer))
		all, _ := read(t, in, strings.Count(tt.want, " ")+1)
		if text := bodies(all); text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.consumer, text, tt.want)
		}
	}
	in := opened(t, s, `"stream": "S", "consumer": "new", "declare": {"consumer": {"start": "new"}}`)
	s.Send(t, "s.a", "4")
	if all, _ := read(t, in, 1); bodies(all) != "4" {
		t.Errorf("new: got %s", bodies(all))
	}
}

// A consumer that is deleted while it is read is recreated, without a loss.
func TestDeletedConsumer(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "0", "1", "2")
	in := opened(t, s, durable)
	all, a := read(t, in, 3)
	settle(t, a, engine.Delivered, nil, all[:2]...)
	if err := s.JS.DeleteConsumer(t.Context(), "S", "c"); err != nil {
		t.Fatal(err)
	}
	_, err := in.Read(t.Context(), engine.NewBatch(1))
	if err == nil || !strings.Contains(err.Error(), "consumer c of stream S was deleted (create it, or write `declare`)") {
		t.Fatalf("%v", err)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	refs := []uint64{all[2].ref} // it comes again, so what the end of this one is does not count
	if lost, _, err := a.(engine.Leaser).Renew(t.Context(), refs); err != nil || !slices.Equal(lost, refs) {
		t.Errorf("lost %v: %v", lost, err)
	}
	settle(t, a, engine.Delivered, nil, all[2])
	s.Send(t, "s.a", "3")
	rest, _ := read(t, in, 1)
	for len(rest) < 4 && rest[len(rest)-1].body != "3" { // what was read before may come again
		more, _ := read(t, in, 1)
		rest = append(rest, more...)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	s := streams(t, nil)
	for _, c := range []jetstream.ConsumerConfig{
		{Durable: "none", AckPolicy: jetstream.AckNonePolicy},
		{Durable: "other", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "s.x", MaxAckPending: 5},
	} {
		if _, err := s.JS.CreateConsumer(t.Context(), "S", c); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		conf  string
		class engine.Class
		want  string
	}{
		{`"stream": "NOPE", "consumer": "c"`, engine.Transient, "look for stream NOPE: stream not found (create the stream"},
		{`"stream": "S", "consumer": "nope"`, engine.Transient, "consumer nope of stream S: consumer not found (create the consumer"},
		{`"stream": "S", "consumer": "none"`, engine.Permanent, "its ack policy is AckNone (name a consumer whose policy is explicit)"},
		{`"stream": "S", "consumer": "other", "declare": {"consumer": {"filter": "s.y", "max_ack_pending": 6}}`, engine.Permanent,
			"was created with other settings: filter is s.x, not s.y, max_ack_pending is 5, not 6 (change `declare`"},
		{`"stream": "S", "consumer": "c", "declare": {"stream": {"subjects": ["t.>"], "retention": "work_queue"}}`, engine.Permanent,
			"stream S was created with other settings: subjects is s.>, not t.>, retention is limits, not work_queue"},
		{`"stream": "S", "consumer": "c", "declare": {"stream": {"storage": "memory", "discard": "new", "max_msgs": 5}}`,
			engine.Permanent, "storage is file, not memory, max_msgs is unlimited, not 5, discard is old, not new (change"},
		{`"stream": "T", "consumer": "c", "declare": {"stream": {"subjects": ["s.a"]}}`, engine.Permanent,
			"create stream T: subjects overlap with an existing stream (one of the subjects belongs to another stream"},
	} {
		in := build(t, s, tt.conf).(*input)
		err := in.Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || engine.ErrorOf(err, "").Class != tt.class {
			t.Errorf("%s: class %v: %v", tt.conf, engine.ErrorOf(err, "").Class, err)
		}
		_ = in.Close(t.Context())
	}
}

func TestServersThatCannot(t *testing.T) {
	plain := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	small := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore, o.JetStreamMaxMemory = 1<<20, 1<<20 })
	for _, tt := range []struct {
		s     *natstest.Server
		conf  string
		class engine.Class
		want  string
	}{
		{plain, durable, engine.Transient, "JetStream"},
		{small, `"stream": "S", "consumer": "c", "declare": {"stream": {"max_bytes": "1GiB"}}`, engine.Transient,
			"insufficient storage resources available (the server has no disk left for streams: make room"},
	} {
		in := build(t, tt.s, tt.conf).(*input)
		err := in.Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || engine.ErrorOf(err, "").Class != tt.class {
			t.Errorf("%s: class %v: %v", tt.conf, engine.ErrorOf(err, "").Class, err)
		}
	}
}

// Attempts that were made between two deliveries count. With four allowed, there is no fifth one.
func TestAttemptsContinueAfterADelay(t *testing.T) {
	s := streams(t, nil)
	s.Send(t, "s.a", "failed")
	in := opened(t, s, durable)
	all, a := read(t, in, 1)
	rs := []engine.Result{{Ref: all[0].ref, Fate: engine.Returned, Delay: time.Millisecond,
		Err: &engine.Error{Class: engine.Transient, Attempt: 3, Err: errors.New("not now")}}}
	if _, err := a.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	if again, _ := read(t, in, 1); again[0].attempt != 4 {
		t.Errorf("the next attempt is number %d, want 4", again[0].attempt)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var s *natstest.Server
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			s = streams(t, nil)
			return fmt.Sprintf(`{"nats": {"url": %q, "stream": "S", "consumer": "c", "timeout": "1s",
				"declare": {"consumer": {"start": "all", "ack_wait": "1s"}}}}`, wire.Over(s.URL)) // lost messages are redelivered soon
		},
		Send: func(t *testing.T, payloads ...string) { s.Send(t, "s.a", payloads...) },
		SendHeaders: func(t *testing.T, payload string, headers map[string]string) {
			m := &client.Msg{Subject: "s.a", Data: []byte(payload), Header: client.Header{}}
			for name, value := range headers {
				m.Header.Set(http.CanonicalHeaderKey(name), value) // as OpenTelemetry's carrier for HTTP does
			}
			if _, err := s.JS.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t *testing.T) int {
			info := s.Info(t, "S", "c")
			return info.NumAckPending + int(info.NumPending)
		},
		Shared: true, Answers: 3,
	}.Run(t)
}
