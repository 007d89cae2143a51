package amqp

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
)

func readerOf(t *testing.T, s queue.Server, name string) queue.Reader {
	t.Helper()
	r, err := s.Reader(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll reads until the end, two messages at a time.
func readAll(t *testing.T, r queue.Reader) (all []queue.Message) {
	t.Helper()
	for {
		ms, err := r.Read(t.Context(), 2)
		if err == engine.ErrEnd {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ms...)
	}
}

func payloads(ms []queue.Message) (all []string) {
	for _, m := range ms {
		all = append(all, string(m.Payload))
	}
	return all
}

func TestQueueReader(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b", "c", "d", "e")
	s := queuetest.Dial(t, b.URL)
	r := readerOf(t, s, q)
	all := readAll(t, r)
	if got := strings.Join(payloads(all), ""); got != "abcde" {
		t.Errorf("read %q", got)
	}
	if err := errors.Join(r.Done(t.Context(), []uint64{all[0].Ref, all[3].Ref}),
		r.Return(t.Context(), []uint64{all[4].Ref})); err != nil {
		t.Fatal(err)
	}
	if n := b.Ready(t, q); n != 1 {
		t.Errorf("%d messages are ready, want the one that was returned", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r = readerOf(t, s, q)
	if got := strings.Join(payloads(readAll(t, r)), ""); got != "bce" {
		t.Errorf("left are %q, want the messages that are not done, in order", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n, err := s.Purge(t.Context(), q); n != 3 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
}

func TestQueueWriterSendsMessagesUnchanged(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	dead, back := b.Queue(t, nil), b.Queue(t, nil)
	q := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	b.Publish(t, q, amqp091.Publishing{Body: []byte("x"), MessageId: "m", Priority: 3, DeliveryMode: 1, UserId: "guest",
		Headers: amqp091.Table{"n": int64(1), "CC": []any{}}})
	in := b.Channel(t)
	d, ok, err := in.Get(q, false)
	if err != nil || !ok || d.Reject(false) != nil {
		t.Fatalf("get: %v %v", ok, err)
	}
	d = b.Take(t, dead, 1)[0] // dead letters have an expiration of their own
	b.Publish(t, dead, amqp091.Publishing{Body: d.Body, MessageId: d.MessageId, Priority: d.Priority,
		DeliveryMode: d.DeliveryMode, Headers: d.Headers, Expiration: "900000"})

	s := queuetest.Dial(t, b.URL)
	r := readerOf(t, s, dead)
	defer r.Close()
	ms := readAll(t, r)
	if len(ms) != 1 {
		t.Fatalf("read %d messages", len(ms))
	}
	if from, err := s.(queue.Origin).Origin(t.Context(), dead, ms[0]); from != q || err != nil {
		t.Errorf("it came from %q (%v), want %q", from, err, q)
	}
	w, err := s.Writer(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	bad := queue.Message{Payload: []byte("bad"), Meta: map[string]any{"message_id": strings.Repeat("x", 300)}}
	errs := w.Write(t.Context(), []queue.Message{bad, ms[0], bad})
	if len(errs) != 3 || errs[0] == nil || errs[1] != nil || errs[2] == nil {
		t.Errorf("errors %v, want one for the first and the last", errs)
	}
	if errs := w.Write(t.Context(), ms); errs != nil {
		t.Errorf("errors %v, want none", errs)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	got := b.Take(t, back, 2)[0]
	if string(got.Body) != "x" || got.MessageId != "m" || got.Priority != 3 || got.DeliveryMode != 1 ||
		got.Expiration != "900000" || brokertest.DiedIn(got.Headers) != q || got.Headers["n"] != int64(1) {
		t.Errorf("got %+v", got)
	}
	if _, err := s.(queue.Origin).Origin(t.Context(), back, queue.Message{}); err == nil {
		t.Error("a message without history has an origin")
	}
}

func TestQueueList(t *testing.T) {
	b := brokertest.Managed(t)
	dead := b.Queue(t, nil)
	q := b.Queue(t, amqp091.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": dead})
	s := queuetest.Dial(t, b.URL+"?management="+url.QueryEscape(b.Management))
	all, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Ready, all[i].InFlight = 0, 0 // the interface's counts lag behind
	}
	if diff := cmp.Diff([]queue.Info{{Name: q, Kind: "quorum", DeadLetters: dead}}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, err := s.List(t.Context(), "flowd.test.*"); err != nil || len(all) < 2 {
		t.Errorf("by pattern: %v %v", all, err)
	}
	if all, err := s.List(t.Context(), "nothing*"); err != nil || len(all) != 0 {
		t.Errorf("by another: %v %v", all, err)
	}
}

func TestQueueListWithoutManagement(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b")
	s := queuetest.Dial(t, b.URL+"?management="+url.QueryEscape("http://u:s3cret@127.0.0.1:1"))
	if all, err := s.List(t.Context(), q); err != nil || len(all) != 1 || all[0].Ready != 2 || all[0].InFlight != -1 {
		t.Errorf("one by its name: %+v %v", all, err)
	}
	_, err := s.List(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "rabbitmq-plugins enable rabbitmq_management") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("all: %v", err)
	}
}

func TestQueueErrors(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	s := queuetest.Dial(t, b.URL)
	_, readErr := s.Reader(t.Context(), "nope")
	_, writeErr := s.Writer(t.Context(), "nope")
	_, purgeErr := s.Purge(t.Context(), "nope")
	for _, err := range []error{readErr, writeErr, purgeErr} {
		if err == nil || !strings.Contains(err.Error(), "no queue 'nope'") {
			t.Errorf("got %v", err)
		}
	}
	stream := b.Queue(t, amqp091.Table{"x-queue-type": "stream"})
	r := readerOf(t, s, stream)
	if _, err := r.Read(t.Context(), 1); err == nil {
		t.Error("a stream was read")
	}
	if _, err := openServer(t.Context(), &url.URL{Scheme: "amqp", Host: ":5672"}); err == nil ||
		!strings.Contains(err.Error(), "has no host") {
		t.Errorf("no host: %v", err)
	}
	bad, err := url.Parse(strings.Replace(b.URL, "guest:guest", "guest:s3cret", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openServer(context.Background(), bad); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a wrong password: %v", err)
	}
}
