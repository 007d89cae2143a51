package brokertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Patience is how long a test waits for what is sure to arrive.
const Patience = 2 * time.Minute

// Channel is a channel in confirm mode, on its own connection, until the test ends.
func (b *Broker) Channel(t testing.TB) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

var names atomic.Int64

// Name is a name that nothing else in the broker has.
func (b *Broker) Name() string {
	return fmt.Sprintf("flowd.test.%d.%d.%d", os.Getpid(), time.Now().UnixNano(), names.Add(1))
}

// Queue makes a durable queue and deletes it when the test ends.
func (b *Broker) Queue(t testing.TB, args amqp091.Table) (name string) {
	t.Helper()
	name = b.Name()
	ch := b.Channel(t)
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if conn, err := amqp091.Dial(b.URL); err == nil { // the test may have cut the other one
			defer conn.Close()
			if ch, err := conn.Channel(); err == nil {
				_, _ = ch.QueueDelete(name, false, false, false)
			}
		}
	})
	return name
}

// Send publishes payloads, persistent, to a queue and waits until the broker has them.
func (b *Broker) Send(t testing.TB, queue string, payloads ...string) {
	t.Helper()
	pubs := make([]amqp091.Publishing, len(payloads))
	for i, p := range payloads {
		pubs[i] = amqp091.Publishing{Body: []byte(p), DeliveryMode: amqp091.Persistent}
	}
	b.Publish(t, queue, pubs...)
}

// Publish is Send for messages with properties.
func (b *Broker) Publish(t testing.TB, queue string, pubs ...amqp091.Publishing) {
	t.Helper()
	ch := b.Channel(t)
	var all []*amqp091.DeferredConfirmation
	for _, p := range pubs {
		c, err := ch.PublishWithDeferredConfirm("", queue, true, false, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for i, c := range all {
		select {
		case <-c.Done():
		case <-time.After(Patience):
		}
		if !c.Acked() {
			t.Fatalf("message %d of %d to %s is not confirmed", i, len(all), queue)
		}
	}
}

// Take waits until n messages have arrived from a queue and takes them.
func (b *Broker) Take(t testing.TB, queue string, n int) (all []amqp091.Delivery) {
	t.Helper()
	ch := b.Channel(t)
	if err := ch.Qos(n, 0, false); err != nil { // what follows them stays there
		t.Fatal(err)
	}
	defer ch.Close()
	const tag = "take"
	deliveries, err := ch.Consume(queue, tag, false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(Patience)
	for len(all) < n {
		select {
		case d, ok := <-deliveries:
			if !ok {
				t.Fatalf("%d of %d messages have come from %s, and the channel is closed", len(all), n, queue)
			}
			all = append(all, d)
		case <-late:
			t.Fatalf("%d of %d messages have come from %s within %v", len(all), n, queue, Patience)
		}
	}
	if err := ch.Cancel(tag, false); err != nil {
		t.Fatal(err)
	}
	if err := all[n-1].Ack(true); err != nil {
		t.Fatal(err)
	}
	return all
}

// Bodies are the payloads of deliveries.
func Bodies(all []amqp091.Delivery) []string {
	bodies := make([]string, len(all))
	for i := range all {
		bodies[i] = string(all[i].Body)
	}
	return bodies
}

// Ready is how many messages of a queue wait to be delivered.
func (b *Broker) Ready(t testing.TB, queue string) int {
	t.Helper()
	q, err := b.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// Holds waits until n messages of a queue wait to be delivered.
func (b *Broker) Holds(t testing.TB, queue string, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(Patience); b.Ready(t, queue) != n; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d messages wait in %s after %v, want %d", b.Ready(t, queue), queue, Patience, n)
		}
	}
}

// API calls the management interface, only of [Managed] and [Own], and reads its answer into v
// unless that is nil.
func (b *Broker) API(t testing.TB, method, path string, body string, v any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.Management+"/api/"+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && v != nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, res.Status, text, err)
	}
}

// Knows waits until the management interface knows of a definition of the policies of a
// queue: it learns of them some seconds after they are in force.
func (b *Broker) Knows(t testing.TB, queue, definition string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(Patience); ; {
		var q struct {
			Policy map[string]any `json:"effective_policy_definition"`
		}
		b.API(t, "GET", "queues/%2F/"+url.PathEscape(queue), "", &q)
		if _, known := q.Policy[definition]; known {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the management interface knows no %s of queue %s", definition, queue)
		}
	}
}

// User makes a user with permissions, each a regular expression, and gives the URL
// under which it logs in.
func (b *Broker) User(t testing.TB, configure, write, read string) (address string) {
	t.Helper()
	name := b.Name()
	b.API(t, "PUT", "users/"+name, `{"password": "p", "tags": ""}`, nil)
	b.Permit(t, name, configure, write, read)
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "p")
	return u.String()
}

// Permit sets a user's permissions.
func (b *Broker) Permit(t testing.TB, name, configure, write, read string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"configure": configure, "write": write, "read": read})
	if err != nil {
		t.Fatal(err)
	}
	b.API(t, "PUT", "permissions/%2F/"+name, string(body), nil)
}

// CloseConnections closes all connections whose name begins so, as an operator does.
func (b *Broker) CloseConnections(t testing.TB, prefix string) (n int) {
	t.Helper()
	// The management interface learns of connections late; the node itself knows.
	out := b.Eval(t,
		fmt.Sprintf(`lists:sum([begin rabbit_networking:close_connection(P, "closed by a test"), 1 end || `+
			`[{pid, P}, {client_properties, C}] <- rabbit_networking:connection_info_all([pid, client_properties]), `+
			`{<<"connection_name">>, _, N} <- C, string:prefix(N, <<%q>>) =/= nomatch]).`, prefix))
	if _, err := fmt.Sscan(strings.TrimSpace(out), &n); err != nil {
		t.Fatalf("closing connections: %v: %s", err, out)
	}
	return n
}

// DiedIn is the queue in which a message was dead-lettered last, or "".
func DiedIn(h amqp091.Table) string {
	list, _ := h["x-death"].([]any)
	if len(list) == 0 {
		return ""
	}
	newest, _ := list[0].(amqp091.Table) // the broker puts it first
	queue, _ := newest["queue"].(string)
	return queue
}
