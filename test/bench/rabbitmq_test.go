package bench

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/brokertest"
)

const relayed = 30_000 // messages of about 500 bytes

const relayPipeline = `
inputs:
  in: {rabbitmq: {url: %q, queue: %q}}
processors:
  - set: {severity: '"critical"'}
outputs:
  out: {rabbitmq: {url: %[1]q, routing_key: %[3]q}}
`

// BenchmarkRabbitMQ relays persistent messages from queue to queue with one `set`,
// confirmed, and acknowledged after that. x_relay is how many times faster flowd is
// than a Go relay with one channel each way, which runs beside it.
func BenchmarkRabbitMQ(b *testing.B) {
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind, func(b *testing.B) { relayQueues(b, kind) })
	}
}

func relayQueues(b *testing.B, kind string) {
	broker := brokertest.RabbitMQ(b)
	dir := b.TempDir()
	flowd := buildFlowd(b, dir)
	conn, err := amqp091.Dial(broker.URL)
	check(b, err)
	defer conn.Close()
	ch, err := conn.Channel()
	check(b, err)
	check(b, ch.Confirm(false))
	in, out := "bench.in."+kind, "bench.out."+kind
	for _, q := range []string{in, out} {
		_, err := ch.QueueDeclare(q, true, false, false, false, amqp091.Table{"x-queue-type": kind})
		check(b, err)
		defer ch.QueueDelete(q, false, false, false)
	}
	file := filepath.Join(dir, "relay.yaml")
	writeFile(b, file, fmt.Sprintf(relayPipeline, broker.URL, in, out))
	var byHand, byFlowd time.Duration
	for b.Loop() {
		load(b, ch, in)
		byHand += until(b, ch, out, relayed, func() func() { return relayByHand(b, broker.URL, in, out) })
		load(b, ch, in)
		byFlowd += until(b, ch, out, relayed, func() func() { return startFlowd(b, flowd, file) })
	}
	n := float64(b.N) * relayed
	b.ReportMetric(n/byFlowd.Seconds(), "messages/s")
	b.ReportMetric(n/byHand.Seconds(), "relay_messages/s")
	b.ReportMetric(byHand.Seconds()/byFlowd.Seconds(), "x_relay")
	b.ReportMetric(0, "ns/op")
}

// load fills a queue.
func load(b *testing.B, ch *amqp091.Channel, queue string) {
	_, err := ch.QueuePurge(queue, false)
	check(b, err)
	var last *amqp091.DeferredConfirmation
	for i := range relayed {
		body := fmt.Appendf(nil, `{"id":%d,"status":503,"pad":%q}`, i, strings.Repeat("x", 460))
		last, err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body})
		check(b, err)
		if i%1000 == 999 {
			last.Wait()
		}
	}
	last.Wait()
	for held(b, ch, queue) < relayed {
		time.Sleep(10 * time.Millisecond)
	}
}

func held(b *testing.B, ch *amqp091.Channel, queue string) int {
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	check(b, err)
	return q.Messages
}

// until is how long it takes from the first message in a queue to the n-th. The queue
// is emptied then.
func until(b *testing.B, ch *amqp091.Channel, queue string, n int, start func() (stop func())) time.Duration {
	stop := start()
	late := time.Now().Add(2 * time.Minute)
	var began time.Time
	for got := 0; got < n; time.Sleep(2 * time.Millisecond) {
		if got = held(b, ch, queue); got > 0 && began.IsZero() {
			began = time.Now()
		}
		if time.Now().After(late) {
			b.Fatalf("%d of %d messages came in two minutes", got, n)
		}
	}
	took := time.Since(began)
	stop()
	if got, err := ch.QueuePurge(queue, false); err != nil || got != n {
		b.Fatalf("%d messages came out of %d: %v", got, n, err)
	}
	return took
}

func startFlowd(b *testing.B, flowd, file string) (stop func()) {
	cmd := exec.Command(flowd, "-c", file)
	var errs strings.Builder
	cmd.Stderr = &errs
	check(b, cmd.Start())
	return func() {
		check(b, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil {
			b.Fatalf("flowd: %v\n%s", err, errs.String())
		}
	}
}

// relayByHand consumes on one channel and publishes on another, of two connections,
// and acknowledges what is confirmed, several at a time where it can.
func relayByHand(b *testing.B, url, in, out string) (stop func()) {
	from, err := amqp091.Dial(url)
	check(b, err)
	to, err := amqp091.Dial(url)
	check(b, err)
	source, err := from.Channel()
	check(b, err)
	check(b, source.Qos(1000, 0, false))
	sink, err := to.Channel()
	check(b, err)
	check(b, sink.Confirm(false))
	deliveries, err := source.Consume(in, "", false, false, false, false, nil)
	check(b, err)
	type pending struct {
		confirm *amqp091.DeferredConfirmation
		tag     uint64
	}
	published := make(chan pending, 1000)
	done := make(chan struct{})
	go func() {
		defer close(published)
		for d := range deliveries {
			var m map[string]any
			if err := json.Unmarshal(d.Body, &m); err != nil {
				return
			}
			m["severity"] = "critical"
			body, err := json.Marshal(m)
			if err != nil {
				return
			}
			confirm, err := sink.PublishWithDeferredConfirm("", out, true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body})
			if err != nil {
				return
			}
			published <- pending{confirm, d.DeliveryTag}
		}
	}()
	go func() {
		defer close(done)
		n := 0
		for p := range published {
			if !p.confirm.Wait() {
				return
			}
			if n++; n >= 100 || len(published) == 0 {
				if source.Ack(p.tag, true) != nil {
					return
				}
				n = 0
			}
		}
	}()
	return func() {
		from.Close()
		to.Close()
		<-done
	}
}
