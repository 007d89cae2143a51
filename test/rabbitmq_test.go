package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
)

var kills = flag.Int("kills", 3, "how often TestRabbitMQKilled kills flowd")

const rabbitPipeline = `
name: relay
inputs:
  in: {rabbitmq: {url: %q, queue: %q, prefetch: %d, heartbeat: 1s}}
processors:
  - set: {seen: "true"}
outputs:
  out: {rabbitmq: {url: %[1]q, routing_key: %[4]q, heartbeat: 1s}, timeout: 5s, breaker: {backoff: 200ms, max_backoff: 500ms}}
engine:
  restart: {backoff: 100ms, max_backoff: 500ms}
  drain: {timeout: 10s}
`

const inFlight = 200

// relay is a flowd that copies messages from a queue to another.
type relay struct {
	t       *testing.T
	b       *brokertest.Broker
	in, out string
	dir     string
	file    string
	p       *process // the latest process
	arrived *arrivals
}

// newRelay creates the queues, and a pipeline that connects to the broker at an address.
func newRelay(t *testing.T, b *brokertest.Broker, address string) *relay {
	t.Helper()
	r := &relay{t: t, b: b, in: b.Queue(t, nil), out: b.Queue(t, nil), dir: t.TempDir()}
	r.file = write(t, r.dir, "relay.yaml", fmt.Sprintf(rabbitPipeline, address, r.in, inFlight, r.out))
	return r
}

func (r *relay) start(more ...string) *process {
	r.t.Helper()
	r.p = start(r.t, r.dir, append([]string{"-c", r.file}, more...)...)
	return r.p
}

// send publishes n messages to the first queue, with numbers starting at from.
func (r *relay) send(from, n int) {
	r.t.Helper()
	payloads := make([]string, n)
	for i := range n {
		payloads[i] = fmt.Sprintf(`{"id":%d,"pad":%q}`, from+i, strings.Repeat("x", 200))
	}
	r.b.Send(r.t, r.in, payloads...)
}

// arrivals counts the messages in the second queue, by number.
type arrivals struct {
	r *relay

	mu   sync.Mutex // guards the fields below
	more *sync.Cond
	by   map[int]int
	all  int
	over bool // the consumer's channel is closed, or waitFor has lost patience
}

// countArrivals starts to count messages in the second queue.
func (r *relay) countArrivals() *arrivals {
	r.t.Helper()
	a := &arrivals{r: r, by: map[int]int{}}
	a.more = sync.NewCond(&a.mu)
	r.arrived = a
	a.consume()
	return a
}

// consume starts a consumer. It acknowledges what it has counted: the broker forgets a message
// that it sends to a consumer without acks, even if its shutdown cuts the message off.
func (a *arrivals) consume() {
	a.r.t.Helper()
	deliveries, err := a.r.b.Channel(a.r.t).Consume(a.r.out, "", false, false, false, false, nil)
	if err != nil {
		a.r.t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			id, seen := idOf(d)
			if !seen {
				id = -1
			}
			a.mu.Lock()
			a.by[id]++
			a.all++
			a.more.Broadcast()
			a.mu.Unlock()
			_ = d.Ack(false) // a message whose ack gets lost arrives again
		}
		a.end()
	}()
}

// idOf returns the number of a message, and whether the relay has seen it.
func idOf(d amqp091.Delivery) (id int, seen bool) {
	m := struct {
		ID   int
		Seen bool
	}{ID: -1}
	_ = json.Unmarshal(d.Body, &m)
	return m.ID, m.Seen
}

// again counts messages that were left in the first queue. They must have arrived already: their connection was lost after that.
func (a *arrivals) again(t *testing.T, left []amqp091.Delivery) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range left {
		if id, _ := idOf(d); a.by[id] == 0 {
			t.Errorf("message %d is left in the first queue", id)
		}
		a.all++
	}
}

// consumeAgain goes on after a restart of the broker, which has ended the consumer.
func (a *arrivals) consumeAgain() {
	a.r.t.Helper()
	a.mu.Lock()
	for !a.over {
		a.more.Wait()
	}
	a.over = false
	a.mu.Unlock()
	a.consume()
}

func (a *arrivals) end() {
	a.mu.Lock()
	a.over = true
	a.more.Broadcast()
	a.mu.Unlock()
}

// waitFor waits until n different messages have arrived.
func (a *arrivals) waitFor(t *testing.T, n int) {
	t.Helper()
	defer time.AfterFunc(brokertest.Patience, a.end).Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.by) < n {
		if a.over {
			t.Fatalf("%d of %d messages have arrived; stderr:\n%.4000s", len(a.by), n, a.r.p.Stderr.Text())
		}
		a.more.Wait()
	}
}

// duplicates returns how many messages have arrived more than once.
func (a *arrivals) duplicates() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all - len(a.by)
}

// stopAndCheck stops flowd with SIGTERM, and checks its exit code, its stderr, and that all messages have left the first queue.
// Up to twice messages may have arrived more than once, or be left there although they have arrived.
func (r *relay) stopAndCheck(p *process, twice int, says ...string) result {
	r.t.Helper()
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(r.t, 0, says...)
	if lines := strings.Count(got.Stderr, "\n"); lines > 60 {
		r.t.Errorf("the log has %d lines, want at most 60:\n%.4000s", lines, got.Stderr)
	}
	if left := r.b.Ready(r.t, r.in); left > 0 {
		r.arrived.again(r.t, r.b.Take(r.t, r.in, left))
	}
	n := r.arrived.duplicates()
	if n > twice {
		r.t.Errorf("%d duplicates, want at most %d: so many were in flight", n, twice)
	}
	r.t.Logf("%d duplicates", n)
	return got
}

func addressOf(t *testing.T, b *brokertest.Broker) string {
	t.Helper()
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// urlThrough returns the broker's URL with the address of a proxy.
func urlThrough(b *brokertest.Broker, t *testing.T, p *proxy) string {
	return strings.Replace(b.URL, addressOf(t, b), p.addr, 1)
}

// TestRabbitMQKilled kills flowd several times while messages flow. Each message must arrive,
// and there are no more duplicates than messages in flight.
func TestRabbitMQKilled(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	r := newRelay(t, b, b.URL)
	n := 1000 * (*kills + 1)
	r.send(0, n)
	a := r.countArrivals()
	for i := range *kills {
		p := r.start()
		a.waitFor(t, 1000*(i+1))
		p.Signal(syscall.SIGKILL)
		_ = p.Cmd.Wait()
	}
	p := r.start()
	a.waitFor(t, n)
	r.stopAndCheck(p, *kills*inFlight)
}

// TestRabbitMQRestarted restarts the broker while messages flow.
func TestRabbitMQRestarted(t *testing.T) {
	b := brokertest.Own(t)
	r := newRelay(t, b, b.URL)
	const n = 3000
	r.send(0, n)
	a := r.countArrivals()
	p := r.start("-s", "engine.rate_limit.messages=100", "-s", "engine.rate_limit.per=50ms")
	a.waitFor(t, 500)
	b.Ctl(t, "stop_app") // either the input or the output notices first, and only that one logs it
	b.Ctl(t, "start_app")
	b.Ctl(t, "await_startup")
	a.consumeAgain()
	a.waitFor(t, n)
	r.stopAndCheck(p, 2*inFlight, "consuming "+r.in)
}

// TestRabbitMQConnectionsClosed closes flowd's connections on the broker.
func TestRabbitMQConnectionsClosed(t *testing.T) {
	b := brokertest.Own(t)
	r := newRelay(t, b, b.URL)
	const n = 2000
	a := r.countArrivals()
	p := r.start("-s", "engine.rate_limit.messages=100", "-s", "engine.rate_limit.per=50ms")
	for i := range 2 {
		r.send(i*n, n)
		a.waitFor(t, i*n+n/4) // new messages have arrived, so both are connected
		if closed := b.CloseConnections(t, "relay."); closed != 2 {
			t.Errorf("%d connections were closed, want 2", closed)
		}
		a.waitFor(t, (i+1)*n)
	}
	r.stopAndCheck(p, 2*2*inFlight, "CONNECTION_FORCED")
}

// TestRabbitMQNetwork slows the network down, cuts connections, refuses new ones, and stops all traffic.
func TestRabbitMQNetwork(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	net := startProxy(t, addressOf(t, b))
	r := newRelay(t, b, urlThrough(b, t, net))
	const n = 4000
	r.send(0, n)
	a := r.countArrivals()
	p := r.start("-s", "engine.rate_limit.messages=100", "-s", "engine.rate_limit.per=50ms")
	a.waitFor(t, 300)
	net.set(false, 20*time.Millisecond)
	a.waitFor(t, 500)
	net.set(true, 0) // refuses connections
	net.cut()
	p.Says("input failed and is restarted")
	net.set(false, 0)
	a.waitFor(t, 1500)
	net.cut()
	a.waitFor(t, 2500)
	net.silence() // only missing heartbeats reveal this
	p.Says("i/o timeout")
	net.endSilence()
	a.waitFor(t, n)
	r.stopAndCheck(p, 3*2*inFlight)
}

// TestRabbitMQCutWhileQuiet cuts the connection of a quiet queue more often than it may fail in
// a row. An established connection, as shown by /ready, resets the count of failures.
func TestRabbitMQCutWhileQuiet(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	net := startProxy(t, addressOf(t, b))
	r := newRelay(t, b, urlThrough(b, t, net))
	a := r.countArrivals()
	s := &service{process: r.start("-s", "engine.restart.max_attempts=3", "-s", "service.listen=127.0.0.1:0")}
	_, at, _ := strings.Cut(s.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	s.admin = "http://" + at
	stands := func(cuts int) {
		t.Helper()
		s.eventually("the input is back", func() bool {
			restarts := s.metricFamilies()["flowd_input_restarts_total"]
			return restarts != nil && restarts.GetMetric()[0].GetCounter().GetValue() == float64(cuts) &&
				s.failingIndicators("/ready") == nil
		})
	}
	for cuts := range 5 {
		stands(cuts)
		net.cut()
	}
	stands(5)
	r.send(0, 10)
	a.waitFor(t, 10)
	r.stopAndCheck(s.process, 0)
}

// TestRabbitMQQueueDeleted deletes the queue and recreates it.
func TestRabbitMQQueueDeleted(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	r := newRelay(t, b, b.URL)
	r.send(0, 10)
	a := r.countArrivals()
	p := r.start()
	a.waitFor(t, 10)
	ch := b.Channel(t)
	if _, err := ch.QueueDelete(r.in, false, false, false); err != nil {
		t.Fatal(err)
	}
	p.Says("the broker has cancelled the consumer: the queue was deleted")
	p.Says("create it, or write `declare`")
	if _, err := ch.QueueDeclare(r.in, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	r.send(10, 10)
	a.waitFor(t, 20)
	r.stopAndCheck(p, 0)
}

// TestRabbitMQPermissions starts with a user who may not publish, and grants the permission later.
func TestRabbitMQPermissions(t *testing.T) {
	b := brokertest.Managed(t)
	address := b.User(t, "", "", ".*")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, b, address)
	r.send(0, 50)
	a := r.countArrivals()
	p := r.start("-s", "outputs.out.breaker.max_backoff=1s")
	p.Says("ACCESS_REFUSED")
	b.Permit(t, u.User.Username(), "", ".*", ".*")
	a.waitFor(t, 50)
	r.stopAndCheck(p, 0, "output is up again")
}

func TestRabbitMQBadCredentials(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	r := newRelay(t, b, strings.Replace(b.URL, "://guest:", "://guest:s3cret", 1))
	got := flowd(t, r.dir, "", "-c", r.file)
	got.Want(t, 1, "output out: connect to amqp://127.0.0.1:", "the broker refuses the login (check user and password")
	if strings.Contains(got.Stderr, "s3cret") {
		t.Errorf("the log contains the password:\n%s", got.Stderr)
	}
}

// TestRabbitMQBlocked sets a memory alarm, so that the broker accepts no messages for a while.
func TestRabbitMQBlocked(t *testing.T) {
	b := brokertest.Own(t)
	r := newRelay(t, b, b.URL)
	r.send(0, 50)
	a := r.countArrivals()
	b.Eval(t, `rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).`)
	p := r.start("-s", "outputs.out.timeout=1s", "-s", "outputs.out.retry.max_attempts=2")
	p.Says("the broker accepts nothing at present: low on memory")
	p.Says("output is down: nothing is written until a probe succeeds")
	b.Eval(t, `rabbit_alarm:clear_alarm({resource_limit, memory, node()}).`)
	a.waitFor(t, 50)
	r.stopAndCheck(p, 50, "output is up again") // a write that timed out may have succeeded
}

// TestRabbitMQBlockedIsReportedAtOnce sets a memory alarm. flowd must report this long before the
// write times out.
func TestRabbitMQBlockedIsReportedAtOnce(t *testing.T) {
	b := brokertest.Own(t)
	r := newRelay(t, b, b.URL)
	r.send(0, 50)
	a := r.countArrivals()
	b.Eval(t, `rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).`)
	p := r.start("-s", "outputs.out.timeout=5m", "-s", "service.listen=127.0.0.1:0")
	_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	p.Says(`the broker accepts no messages until it has memory and disk space again" pipeline=relay name=out ` +
		`reason="low on memory"`)
	svc := &service{process: p, admin: "http://" + at}
	// If the write starts after the alarm, it fails at once and the output is held.
	if got := svc.failingIndicators("/ready"); !slices.Equal(got, []string{"output_stalled output out"}) &&
		!slices.Equal(got, []string{"output_breaker_open output out"}) {
		t.Errorf("ready fails with %q", got)
	}
	b.Eval(t, `rabbit_alarm:clear_alarm({resource_limit, memory, node()}).`)
	a.waitFor(t, 50)
	svc.eventually("/ready succeeds again", func() bool { return svc.failingIndicators("/ready") == nil })
	r.stopAndCheck(p, 0, "the broker accepts messages again")
}

// TestRabbitMQMissingQueue starts without the output queue and the dead-letter queue. Both
// outputs are held until the queues are created.
func TestRabbitMQMissingQueue(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	in, out, dead := b.Queue(t, nil), b.Name(), b.Name()
	dir := t.TempDir()
	file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {rabbitmq: {url: %q, queue: %q, return_delay: 0s}}
processors:
  - name: check
    fail: no good
    when: poison == true
outputs:
  out: {rabbitmq: {url: %[1]q, routing_key: %[3]q}, breaker: {backoff: 200ms, max_backoff: 1s}}
  dead: {rabbitmq: {url: %[1]q, routing_key: %[4]q}, breaker: {backoff: 200ms, max_backoff: 1s}}
engine:
  on_failure: {dead_letter: dead}
`, b.URL, in, out, dead))
	b.Send(t, in, `{"id":1}`, `{"id":2,"poison":true}`, `{"id":3}`)
	p := start(t, dir, "-c", file)
	p.Says(fmt.Sprintf(`err="queue \"%s\": it does not exist (create the queue, or correct routing_key)"`, out))
	p.Says(fmt.Sprintf(
		`err="no good; its dead letter can't be written: queue \"%s\": it does not exist (create the queue, or correct routing_key)"`, dead))
	ch := b.Channel(t)
	for _, name := range []string{out, dead} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
	}
	b.Take(t, out, 2)
	if d := b.Take(t, dead, 1)[0]; d.Headers["error_message"] != "no good" {
		t.Errorf("the dead letter has the headers %+v", d.Headers)
	}
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(t, 0, "2 delivered, 1 dead-lettered")
	if strings.Contains(got.Stderr, "mandatory") || strings.Count(got.Stderr, "\n") > 20 {
		t.Errorf("the log is too long or mentions the flag mandatory:\n%s", got.Stderr)
	}
}

// TestRabbitMQPoison sends a message that always fails. It becomes a dead letter with its
// history, and the others are delivered.
func TestRabbitMQPoison(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	in, out, dead := b.Queue(t, nil), b.Queue(t, nil), b.Queue(t, nil)
	dir := t.TempDir()
	file := write(t, dir, "p.yaml", fmt.Sprintf(`
inputs:
  in: {rabbitmq: {url: %q, queue: %q}}
processors:
  - name: check
    fail: no good
    when: poison == true
outputs:
  out: {rabbitmq: {url: %[1]q, routing_key: %[3]q}}
  dead: {rabbitmq: {url: %[1]q, routing_key: %[4]q}}
engine:
  on_failure: {dead_letter: dead}
`, b.URL, in, out, dead))
	b.Publish(t, in,
		amqp091.Publishing{Body: []byte(`{"id":1}`)},
		amqp091.Publishing{Body: []byte(`{"id":2,"poison":true}`), MessageId: "m2",
			Headers: amqp091.Table{"tenant": "t1"}},
		amqp091.Publishing{Body: []byte(`{"id":3}`)},
	)
	p := start(t, dir, "-c", file)
	b.Take(t, out, 2)
	d := b.Take(t, dead, 1)[0]
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "2 delivered, 1 dead-lettered")
	if string(d.Body) != `{"id":2,"poison":true}` || d.MessageId != "m2" || d.Headers["tenant"] != "t1" ||
		d.Headers["error_step"] != "check" || d.Headers["error_class"] != "permanent" ||
		d.Headers["error_message"] != "no good" {
		t.Errorf("the dead letter is %s with the headers %+v", d.Body, d.Headers)
	}
	if n := b.Ready(t, in); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestRabbitMQExample lints the example, runs its tests, and runs it.
func TestRabbitMQExample(t *testing.T) {
	file := filepath.Join(repo, "examples", "rabbitmq", "pipeline.yaml")
	flowd(t, repo, "", "lint", file).Want(t, 0, "0 errors, 0 warnings")
	flowd(t, repo, "", "test", file).Want(t, 0)
	b := brokertest.RabbitMQ(t)
	t.Setenv("AMQP_URL", b.URL)
	p := start(t, t.TempDir(), "-c", file)
	p.Says("consuming orders")
	q, ch := b.Queue(t, nil), b.Channel(t)
	if err := ch.QueueBind(q, "order.large", "shop", false, nil); err != nil {
		t.Fatal(err)
	}
	b.Send(t, "orders", `{"id":1,"total":5}`, `{"id":2,"total":1500}`)
	if d := b.Take(t, q, 1)[0]; string(d.Body) != `{"id":2,"total":1500,"grade":"large"}` ||
		d.ContentType != "application/json" {
		t.Errorf("got %s %q", d.Body, d.ContentType)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "2 received: 2 delivered")
}

// TestRabbitMQDrained stops flowd while messages flow. Each message must be either delivered
// once or still in the queue.
func TestRabbitMQDrained(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	r := newRelay(t, b, b.URL)
	const n = 4000
	r.send(0, n)
	a := r.countArrivals()
	p := r.start("-s", "engine.rate_limit.messages=100", "-s", "engine.rate_limit.per=50ms", "-s",
		"outputs.out.concurrency=3")
	a.waitFor(t, 500)
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(t, 0)
	var delivered int
	if _, err := fmt.Sscanf(got.Stderr[strings.LastIndex(got.Stderr, "relay: "):], "relay: %d received: %d delivered",
		new(int), &delivered); err != nil {
		t.Fatalf("%v: %s", err, got.Stderr)
	}
	ids := map[int]bool{}
	for _, d := range b.Take(t, r.in, n-delivered) {
		var m struct{ ID int }
		if err := json.Unmarshal(d.Body, &m); err != nil {
			t.Fatal(err)
		}
		ids[m.ID] = true
	}
	a.waitFor(t, delivered)
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.by {
		ids[id] = true
	}
	if a.all != delivered || delivered == n || len(ids) != n {
		t.Errorf("%d messages arrived, flowd reports %d; with those in the queue, there are %d of %d", a.all, delivered, len(ids), n)
	}
}
