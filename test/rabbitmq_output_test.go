package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/brokertest"
	_ "github.com/flowd-io/flowd/outputs/rabbitmq"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

func rabbitOutput(t *testing.T, b *brokertest.Broker, more string) engine.Output {
	t.Helper()
	return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"rabbitmq": {"url": %q, %s}}`, b.URL, more))
}

// openedOutput opens an output, and closes it when the test ends.
func openedOutput(t *testing.T, b *brokertest.Broker, more string) engine.Output {
	t.Helper()
	o := rabbitOutput(t, b, more)
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.(engine.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return o
}

// writeFates writes payloads, and returns for each "safe" or its class and error.
func writeFates(t *testing.T, o engine.Output, payloads ...string) (fates []string) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	err := o.Write(t.Context(), b)
	fates = enginetest.WriteFates(b, err)
	i := 0
	for m := range b.Ended() {
		for fates[i] != "failed" {
			i++
		}
		fates[i] = fmt.Sprintf("%s: %s", m.Err().Class, m.Err())
	}
	if err != nil {
		t.Errorf("write: %v", err)
	}
	return fates
}

// TestRabbitMQOutput is not parallel: the suite looks for leaked goroutines, and other tests start goroutines.
func TestRabbitMQOutput(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	payloads := []string{`{"a":1}`, "text", "\x00\xff"}
	enginetest.Output(t, func(t *testing.T) engine.Output { return rabbitOutput(t, b, `"routing_key": "`+q+`"`) },
		payloads...)
	if got := brokertest.Bodies(b.Take(t, q, 2*len(payloads))); !slices.Equal(got,
		append(slices.Clone(payloads), payloads...)) {
		t.Errorf("the queue has %q", got)
	}
}

func TestRabbitMQOutages(t *testing.T) {
	t.Parallel()
	b := brokertest.RabbitMQ(t)
	q := ""
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			q = b.Queue(t, nil)
			return func() engine.Output {
				return rabbitOutput(t, &brokertest.Broker{URL: wire.Over(b.URL)}, `"routing_key": "`+q+`"`)
			}
		},
		Arrived: func(t *testing.T) []string {
			return brokertest.Bodies(b.Take(t, q, b.Ready(t, q)))
		},
		Payloads: []string{"1", "2", "3", "4", "5"},
		Greets:   true,
		Headers: func(t *testing.T) map[string]string {
			all := map[string]string{}
			for name, value := range b.Take(t, q, 1)[0].Headers {
				all[name], _ = value.(string)
			}
			return all
		},
	}.Run(t)
}

// TestRabbitMQMessagesFailIndividually writes one bad message among good ones. The broker
// reports each kind of failure differently.
func TestRabbitMQMessagesFailIndividually(t *testing.T) {
	t.Parallel()
	b := brokertest.Managed(t)
	q := b.Queue(t, nil)
	full := b.Queue(t, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	b.Send(t, full, "it is full")
	id := func(queue, pad string) string { return fmt.Sprintf(`{"q":%q,"pad":%q}`, queue, pad) }
	tests := []struct {
		name, config, bad, want string
	}{
		{"unroutable", `"routing_key": "$(q)"`, id("nowhere", ""),
			`rejected: queue "nowhere": it does not exist (create the queue`},
		{"unroutable, but not mandatory", `"routing_key": "$(q)", "mandatory": false`, id("nowhere", ""), "safe"},
		{"a full queue", `"routing_key": "$(q)"`, id(full, ""), "transient: the broker does not accept the message"},
		{"larger than the broker allows", `"routing_key": "$(q)"`, id(q, strings.Repeat("x", 1<<20)),
			"rejected: publish: the broker says 406 PRECONDITION_FAILED"},
		{"headers larger than a frame", `"routing_key": "$(q)", "headers": {"pad": "$(pad)"}`,
			id(q, strings.Repeat("x", 200<<10)), "rejected: the headers have"},
		{"a routing key that is too long", `"routing_key": "$(q)"`, id(strings.Repeat("x", 256), ""),
			"rejected: the routing key has 256 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := openedOutput(t, b, tt.config)
			good := []string{id(q, "1"), id(q, "2"), id(q, "3"), id(q, "4")}
			got := writeFates(t, o, good[0], good[1], tt.bad, good[2], good[3])
			for i, want := range []string{"safe", "safe", tt.want, "safe", "safe"} {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("message %d: got %q, want %q", i, got[i], want)
				}
			}
			b.Take(t, q, 4)
			if again := writeFates(t, o, good...); slices.ContainsFunc(again, func(s string) bool { return s != "safe" }) {
				t.Errorf("the next write: %q", again)
			}
			b.Take(t, q, 4)
		})
	}
	if _, err := b.Channel(t).QueuePurge(q, false); err != nil {
		t.Error(err)
	}
}

// TestRabbitMQManyUnroutable writes more unroutable messages at once than a channel may have
// in flight.
func TestRabbitMQManyUnroutable(t *testing.T) {
	t.Parallel()
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	o := openedOutput(t, b, `"routing_key": "$(q)"`)
	payloads := make([]string, 2500)
	for i := range payloads {
		payloads[i] = fmt.Sprintf(`{"q":%q,"id":%d}`, []string{q, "nowhere"}[i%2], i)
	}
	for i, got := range writeFates(t, o, payloads...) {
		if want := []string{"safe", `rejected: queue "nowhere": it does not exist`}[i%2]; !strings.HasPrefix(got,
			want) {
			t.Fatalf("message %d: got %q, want %q", i, got, want)
		}
	}
	b.Take(t, q, 1250)
}

func TestRabbitMQExchanges(t *testing.T) {
	t.Parallel()
	b := brokertest.RabbitMQ(t)
	x := b.Name()
	if err := rabbitOutput(t, b, `"exchange": "`+x+`"`).(engine.Opener).Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "look for exchange "+x+": the broker says 404 NOT_FOUND") {
		t.Errorf("open without the exchange: %v", err)
	}
	o := openedOutput(t, b, `"exchange": "`+x+`", "routing_key": "a.b", "declare": {"type": "topic"}`)
	ch := b.Channel(t)
	t.Cleanup(func() { _ = ch.ExchangeDelete(x, false, false) })
	q := b.Queue(t, nil)
	if err := ch.QueueBind(q, "a.*", x, false, nil); err != nil {
		t.Fatal(err)
	}
	if got := writeFates(t, o, "1"); got[0] != "safe" {
		t.Error(got)
	}
	b.Take(t, q, 1)
	if err := ch.ExchangeDelete(x, false, false); err != nil {
		t.Fatal(err)
	}
	batch := enginetest.Batch("2")
	err := o.Write(t.Context(), batch)
	if e, ok := err.(*engine.Error); !ok || !e.Holds || !strings.Contains(err.Error(), "404 NOT_FOUND") {
		t.Errorf("a write without the exchange: %v, want an error that holds the output", err)
	}
}
