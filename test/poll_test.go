package test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
)

// sortedLines returns the next n lines of a process, sorted.
func sortedLines(p *process, n int) (all []string) {
	p.T.Helper()
	for range n {
		all = append(all, p.Line())
	}
	slices.Sort(all)
	return all
}

// TestPollFindsSQSQueues reads all queues that match a pattern, one of which is always empty.
// New queues are found, and deleted ones are dropped.
func TestPollFindsSQSQueues(t *testing.T) {
	e := withSQS(t)
	a, b := e.queue(t, "found-a", nil), e.queue(t, "found-b", nil)
	e.queue(t, "found-empty", nil)
	e.queue(t, "other", nil)
	e.send(t, a, "a0", "a1")
	e.send(t, b, "b0")
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "poll.yaml", `
inputs:
  work:
    poll:
      refresh: 1s
      sources:
        all: {weight: 1, sqs: {queue: "found-*", wait: 20s}}
processors:
  - map: 'raw() + " of " + meta("queue") + " by " + meta("source")'
outputs:
  out: {stdout: {}}
`))
	if got, want := sortedLines(p, 3), []string{`"a0 of found-a by all"`, `"a1 of found-a by all"`,
		`"b0 of found-b by all"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c := e.queue(t, "found-c", nil)
	e.send(t, c, "c0")
	if got := p.Line(); got != `"c0 of found-c by all"` {
		t.Errorf("got %q from the new queue", got)
	}
	if _, err := e.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &b}); err != nil {
		t.Fatal(err)
	}
	p.Says("a queue no longer exists")
	e.send(t, a, "a2")
	if got := p.Line(); got != `"a2 of found-a by all"` {
		t.Errorf("got %q after another queue was deleted", got)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "5 received: 5 delivered")
	e.wantCounts(t, a, 0, 0)
	e.wantCounts(t, c, 0, 0)
}

// TestPollReturnsSQSMessages stops flowd with unfinished messages, which must become visible
// to others at once, in all queues.
func TestPollReturnsSQSMessages(t *testing.T) {
	e := withSQS(t)
	sources, urls := "", map[string]string{}
	for weight, name := range []string{"back-c", "back-b", "back-a"} {
		urls[name] = e.queue(t, name, map[string]string{"VisibilityTimeout": "600"})
		bodies := make([]string, 50)
		for i := range bodies {
			bodies[i] = fmt.Sprintf("%s %d", name, i)
		}
		e.send(t, urls[name], bodies...)
		sources += fmt.Sprintf("        %s: {weight: %d, sqs: %[1]s}\n", name, weight+1)
	}
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "poll.yaml", `
inputs:
  work:
    poll:
      sources:
`+sources+`processors:
  - log: arrived $(raw())
  - sleep: 1h
outputs:
  out: {drop: {}}
engine: {workers: 4, max_in_flight: {messages: 30}, timeout: 2h, drain: {timeout: 1s}}
`))
	p.Says("arrived back-")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 3, "returned")
	for _, url := range urls {
		e.wantCounts(t, url, 50, 0)
	}
}

// TestPollFindsRabbitMQQueues does the same as TestPollFindsSQSQueues, with RabbitMQ.
func TestPollFindsRabbitMQQueues(t *testing.T) {
	b := brokertest.Managed(t)
	base, ch := b.Name(), b.Channel(t)
	declare := func(name string, args amqp091.Table) string {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
		return name
	}
	one, two := declare(base+"-1", nil), declare(base+"-2", amqp091.Table{"x-queue-type": "quorum"})
	declare(base+"-empty", nil)
	declare(base+"-stream", amqp091.Table{"x-queue-type": "stream"})
	b.Send(t, one, "a0", "a1")
	b.Send(t, two, "b0")
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "poll.yaml", fmt.Sprintf(`
inputs:
  work:
    poll:
      refresh: 1s
      sources:
        all: {weight: 1, rabbitmq: {url: %q, management: %q, queue: "%s-*"}}
processors:
  - map: 'raw() + " of " + meta("queue") + " by " + meta("source")'
outputs:
  out: {stdout: {}}
`, b.URL, b.Management, base)))
	says := func(body, queue string) string { return fmt.Sprintf(`"%s of %s by all"`, body, queue) }
	if got, want := sortedLines(p, 3), []string{says("a0", one), says("a1", one), says("b0", two)}; !slices.Equal(got,
		want) {
		t.Errorf("got %q, want %q", got, want)
	}
	three := declare(base+"-3", nil)
	b.Send(t, three, "c0")
	if got := p.Line(); got != says("c0", three) {
		t.Errorf("got %q from the new queue", got)
	}
	if _, err := ch.QueueDelete(two, false, false, false); err != nil {
		t.Fatal(err)
	}
	p.Says("a queue no longer exists")
	b.Send(t, one, "a2")
	if got := p.Line(); got != says("a2", one) {
		t.Errorf("got %q after another queue was deleted", got)
	}
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(t, 0, "5 received: 5 delivered")
	if u, _, _ := strings.Cut(strings.TrimPrefix(b.Management, "http://"), "@"); strings.Contains(got.Stderr, u) {
		t.Errorf("the log contains the password: %s", got.Stderr)
	}
	for _, q := range []string{one, three} {
		if n := b.Ready(t, q); n != 0 {
			t.Errorf("%d messages are left in %s", n, q)
		}
	}
}

// TestPollLeavesDeadLettersToRabbitMQ retries a failing message and then rejects it. The broker
// moves it to the dead-letter queue, with its history.
func TestPollLeavesDeadLettersToRabbitMQ(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	dead := b.Queue(t, nil)
	in := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	other := b.Queue(t, nil)
	b.Publish(t, in, amqp091.Publishing{Body: []byte(`{"id":1}`)},
		amqp091.Publishing{Body: []byte(`{"id":2,"poison":true}`), MessageId: "m2",
			Headers: amqp091.Table{"tenant": "t1"}})
	b.Send(t, other, `{"id":3}`)
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "poll.yaml", fmt.Sprintf(`
inputs:
  work:
    poll:
      sources:
        a: {weight: 2, rabbitmq: {url: %q, queue: %q, on_return: reject}}
        b: {rabbitmq: {url: %[1]q, queue: %[3]q}}
processors:
  - name: check
    exec: {command: [sh, -c, "echo once >> tries; exit 75"]}
    when: poison == true
outputs:
  out: {stdout: {}}
engine:
  on_failure: {retry: {intervals: [10ms, 20ms], max_attempts: 3}, then: return}
`, b.URL, in, other)))
	if got := sortedLines(p, 2); !slices.Equal(got, []string{`{"id":1}`, `{"id":3}`}) {
		t.Errorf("delivered %q", got)
	}
	d := b.Take(t, dead, 1)[0]
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(t, 0, "3 received: 2 delivered, 1 returned")
	if n := strings.Count(read(t, dir, "tries"), "once"); n != 3 {
		t.Errorf("%d attempts, want 3:\n%s", n, got.Stderr)
	}
	history, _ := d.Headers["x-death"].([]any)
	if len(history) != 1 || d.MessageId != "m2" || d.Headers["tenant"] != "t1" {
		t.Fatalf("the dead letter is %s with the headers %+v", d.Body, d.Headers)
	}
	if death := history[0].(amqp091.Table); death["queue"] != in || death["reason"] != "rejected" ||
		death["count"] != int64(1) {
		t.Errorf("the dead letter has the history %v", death)
	}
	for _, q := range []string{in, other} {
		if n := b.Ready(t, q); n != 0 {
			t.Errorf("%d messages are left in %s", n, q)
		}
	}
}
