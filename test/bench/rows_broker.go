package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

var brokerRows = []row{
	rabbit("classic"),
	rabbit("quorum"),
	{
		name: "sqs", does: "SQS with a latency of 1 ms, one request at a time: ten messages per request, compared with one",
		data: small, run: runSQS, fixed: 500,
		contestants: []contestant{
			inFlowd("sqs"),
			{name: "one per request", command: "$flowd -c $conf/sqs-single.flowd.yaml", limit: true},
		},
		goals: []goal{{than: "one per request", atLeast: 5}},
	},
}

var small = data{"small", func(to []byte, i int) []byte {
	return fmt.Appendf(to, `{"id":%d,"name":"Customer %d"}`, i, i)
}}

// padded are messages of about 500 bytes.
var padded = data{"padded", func(to []byte, i int) []byte {
	return fmt.Appendf(to, `{"id":%d,"status":503,"pad":%q}`, i, strings.Repeat("x", 460))
}}

func rabbit(kind string) row {
	return row{
		name: "rabbitmq-" + kind, does: kind + " queue → set → " + kind + " queue, persistent and confirmed", data: padded,
		needs: rabbitmq, cap: 16_000,
		run: func(w *world, r *row, c *contestant, n int, all bool) (sample, error) {
			return runRabbitMQ(w, r, c, n, kind)
		},
		contestants: []contestant{inFlowd("rabbitmq"), theLimit("Go relay", "amqp-relay $url $from $to")},
		goals:       []goal{{atLeast: 12}, {than: "Go relay", atLeast: 1.14}},
	}
}

// skipRecorder is a testing.TB for packages that start servers. It records why a server was
// skipped.
type skipRecorder struct {
	testing.TB
	why string
}

func (t *skipRecorder) Helper()      {}
func (t *skipRecorder) Name() string { return "bench" }

func (t *skipRecorder) Skip(args ...any) {
	t.why = fmt.Sprint(args...)
	runtime.Goexit()
}

// rabbitmq starts a broker, which runs until this process exits, or says why it can't.
func rabbitmq(w *world) error {
	if w.broker != nil {
		return nil
	}
	var t skipRecorder
	done := make(chan struct{})
	go func() { // Skip ends this goroutine
		defer close(done)
		w.broker = brokertest.RabbitMQ(&t)
	}()
	<-done
	if w.broker == nil {
		return errors.New(t.why)
	}
	conn, err := amqp091.Dial(w.broker.URL) // a broker named by the variable may be down
	if err != nil {
		w.broker = nil
		return fmt.Errorf("RabbitMQ is not reachable: %w (check %s)", err, brokertest.Variable)
	}
	return conn.Close()
}

// runRabbitMQ is the runner of rows that move n messages from one queue to another. It measures
// the time between the arrival of the first and of the last message.
func runRabbitMQ(w *world, r *row, c *contestant, n int, kind string) (s sample, err error) {
	conn, ch, err := channel(w.broker.URL)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	if err := ch.Confirm(false); err != nil {
		return s, err
	}
	from, to := w.broker.Name(), w.broker.Name()
	for _, q := range []string{from, to} {
		if _, err := ch.QueueDeclare(q, true, false, false, false, amqp091.Table{"x-queue-type": kind}); err != nil {
			return s, err
		}
		defer ch.QueueDelete(q, false, false, false) //nolint:errcheck // the broker may be gone
	}
	if err := fill(ch, from, r.data, n); err != nil {
		return s, err
	}
	p, err := w.start(c.command, map[string]string{"url": w.broker.URL, "from": from, "to": to}, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	began, err := waitForMessages(ch, to, n, p.ended)
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, p.stderr.String())
	}
	took := max(time.Since(began), time.Millisecond)
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, took), checkQueue(ch, to, r.data, n)
}

// fill publishes n messages to a queue and waits until the queue has them.
func fill(ch *amqp091.Channel, queue string, d data, n int) error {
	var last *amqp091.DeferredConfirmation
	for i := range n {
		var err error
		last, err = ch.PublishWithDeferredConfirm("", queue, true, false,
			amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: d.line(nil, i)})
		if err != nil {
			return err
		}
		if i%1000 == 999 {
			last.Wait()
		}
	}
	last.Wait()
	_, err := waitForMessages(ch, queue, n, nil)
	return err
}

// waitForMessages waits until a queue has n messages, and returns when it saw the first. It
// fails if the process that publishes them ends.
func waitForMessages(ch *amqp091.Channel, queue string, n int, ended <-chan struct{}) (first time.Time, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return first, err
		}
		if q.Messages > 0 && first.IsZero() {
			first = time.Now()
		}
		if q.Messages >= n {
			return first, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return first, errors.New("the process exited")
		case <-late:
			return first, fmt.Errorf("%d of %d messages arrived in queue %s", q.Messages, n, queue)
		}
	}
}

// checkQueue consumes n messages from a queue, which must have one field more than the input.
func checkQueue(ch *amqp091.Channel, queue string, d data, n int) error {
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	seen, late := make(ids, n), time.After(patience)
	for range n {
		select {
		case m, ok := <-deliveries:
			if !ok {
				return errors.New("the broker closed the channel")
			}
			id, err := seen.mark(m.Body)
			if err != nil {
				return err
			}
			if err := compareDocuments(m.Body, d.line(nil, id), critical); err != nil {
				return err
			}
			if m.DeliveryMode != amqp091.Persistent {
				return fmt.Errorf("message %d is not persistent", id)
			}
		case <-late:
			return fmt.Errorf("queue %s does not deliver all of %d messages", queue, n)
		}
	}
	return nil
}

func critical(d document) document {
	d["severity"] = "critical"
	return d
}

// runSQS is the runner of the row that sends to a fake SQS in this process.
func runSQS(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	service := fakesqs.New()
	defer service.Close()
	service.Create("orders", fakesqs.Queue{})
	for _, op := range []string{"SendMessage", "SendMessageBatch"} {
		service.Fault(op, fakesqs.Fault{Times: -1, Delay: time.Millisecond})
	}
	maps.Copy(vars, map[string]string{
		"aws_endpoint_url": service.Listen(), "aws_region": "us-east-1", "aws_access_key_id": "bench",
		"aws_secret_access_key": "bench",
		"aws_config_file":       os.DevNull, "aws_shared_credentials_file": os.DevNull, "aws_profile": "",
	})
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return s, err
	}
	seen := make(ids, n)
	came := service.Messages("orders")
	for _, m := range came {
		if _, err := seen.mark([]byte(m.Body)); err != nil {
			return s, err
		}
	}
	if len(came) != n {
		return s, fmt.Errorf("%d of %d messages arrived", len(came), n)
	}
	return used.sample(data{}, n, used.wall), nil
}
