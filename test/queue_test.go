package test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
)

// onRabbitMQ makes `flowd queue` use the broker.
func onRabbitMQ(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	address := b.URL
	if b.Management != "" {
		address += "?management=" + url.QueryEscape(b.Management)
	}
	t.Setenv("FLOWD_QUEUE_URL", address)
}

// queue runs `flowd queue`. Without an address, it uses FLOWD_QUEUE_URL.
func queue(t *testing.T, args ...string) result {
	t.Helper()
	return flowd(t, t.TempDir(), "", append([]string{"queue"}, args...)...)
}

// amqpMessages makes n messages with all properties and header types that metadata can represent.
func amqpMessages(n int) (all []amqp091.Publishing) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		all = append(all, amqp091.Publishing{
			Body: []byte(fmt.Sprintf("%d\x00\xff\n", i)), DeliveryMode: uint8(1 + i%2), MessageId: strconv.Itoa(i),
			CorrelationId: "c", ReplyTo: "r",
			ContentType: "text/plain", ContentEncoding: "x", Type: "t", AppId: "a", Priority: uint8(i % 5),
			Timestamp: at,
			Headers: amqp091.Table{"n": int64(i), "ok": i%2 == 0, "f": 1.5, "text": "é", "none": nil, "at": at,
				"list": []any{int64(1), "x"}, "deep": amqp091.Table{"k": "v"}},
		})
	}
	return all
}

// withExactTypes adds headers of types that metadata can't distinguish.
func withExactTypes(all []amqp091.Publishing) []amqp091.Publishing {
	for i := range all {
		h := all[i].Headers
		h["small"], h["single"], h["bytes"], h["money"], h["priority"] = int16(7), float32(0.1), []byte{0xff, 0},
			amqp091.Decimal{Scale: 2, Value: 314}, "a header"
	}
	return all
}

// wantAsSent compares deliveries with the messages that were sent, in order.
func wantAsSent(t *testing.T, got []amqp091.Delivery, want []amqp091.Publishing) {
	t.Helper()
	for i, w := range want {
		d := got[i]
		p := amqp091.Publishing{
			Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
			DeliveryMode: d.DeliveryMode, Priority: d.Priority,
			CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
			Timestamp: d.Timestamp.UTC(), Type: d.Type, AppId: d.AppId, Body: d.Body,
		}
		for name, v := range p.Headers {
			if at, is := v.(time.Time); is {
				p.Headers[name] = at.UTC()
			}
		}
		if delete(p.Headers, "x-delivery-count"); !reflect.DeepEqual(p, w) {
			t.Fatalf("message %d has the id %s, redelivered %t\ngot  %#v\nwant %#v", i, p.MessageId, d.Redelivered,
				p, w)
		}
	}
}

func TestQueueOnRabbitMQ(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	onRabbitMQ(t, b)
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			const n = 1100
			args := amqp091.Table{"x-queue-type": kind}
			one, two, three := b.Queue(t, args), b.Queue(t, args), b.Queue(t, args)
			file := filepath.Join(t.TempDir(), "saved.jsonl")

			b.Publish(t, one, withExactTypes(amqpMessages(n))...)
			queue(t, "mv", one, two, "--yes").Want(t, 0, ": 1,100 moved in ")
			wantAsSent(t, b.Take(t, two, n), withExactTypes(amqpMessages(n)))

			b.Publish(t, one, amqpMessages(n)...)
			queue(t, "dump", one, file).Want(t, 0, ": 1,100 written in ")
			queue(t, "load", two, file).Want(t, 0, ": 1,100 sent in ")
			wantAsSent(t, b.Take(t, two, n), amqpMessages(n))
			wantAsSent(t, b.Take(t, one, n), amqpMessages(n))

			b.Send(t, three, "a", "b", "c")
			queue(t, "mv", three, two, "--yes", "-n", "1").Want(t, 0, ": 1 moved in ")
			queue(t, "purge", three).Want(t, 2, "Permanently remove 2 messages from "+three+"? (add --yes)")
			queue(t, "purge", three, "--yes").Want(t, 0, three+": 2 messages removed")
			if got := brokertest.Bodies(b.Take(t, two, 1)); got[0] != "a" || b.Ready(t, three) != 0 {
				t.Errorf("moved %q, want a; %d messages are left, want 0", got, b.Ready(t, three))
			}
		})
	}
}

func TestQueueLsOnRabbitMQ(t *testing.T) {
	b := brokertest.Managed(t)
	onRabbitMQ(t, b)
	dead := b.Queue(t, nil)
	q := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	b.Send(t, q, "a", "b", "c")
	var all []struct {
		Name, Kind  string
		Ready       int
		DeadLetters string `json:"dead_letters"`
	}
	r := queue(t, "ls", q[:len(q)-1]+"*", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
		t.Fatal(err, r)
	}
	for _, one := range all {
		if one.Name == q && (one.Kind != "classic" || one.Ready != 3 || one.DeadLetters != dead) {
			t.Errorf("got %+v", one)
		}
	}
	if !strings.Contains(r.Stdout, q) {
		t.Errorf("ls does not list %s: %s", q, r.Stdout)
	}
}

func TestQueueRedriveOnRabbitMQ(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	onRabbitMQ(t, b)
	dead := b.Queue(t, nil)
	args := amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
	one, two := b.Queue(t, args), b.Queue(t, args)
	for _, q := range []string{one, two} {
		b.Publish(t, q, amqpMessages(150)...)
		ch := b.Channel(t)
		for range 150 {
			d, ok, err := ch.Get(q, false)
			if err != nil || !ok || d.Reject(false) != nil {
				t.Fatal(ok, err)
			}
		}
	}
	b.Take(t, dead, 1) // waits until all have arrived
	b.Send(t, dead, "of nowhere")
	queue(t, "redrive", dead, "-n", "10").Want(t, 0, dead+": 10 sent back in ")
	queue(t, "redrive", dead).Want(t, 1, "message 290: the message has no x-death header", dead+": 289 sent back, 1 failed in ")
	back := b.Take(t, one, 149)
	if got := append(brokertest.Bodies(back),
		brokertest.Bodies(b.Take(t, two, 150))...); len(slices.Compact(got)) != 299 {
		t.Errorf("%d different messages were sent back, want 299", len(got))
	}
	if back[0].MessageId != "1" || back[148].Headers["n"] != int64(149) || back[0].Headers["x-death"] == nil {
		t.Errorf("sent back %+v and %+v, want unchanged messages with x-death", back[0], back[148])
	}
	queue(t, "redrive", dead, "--to", two).Want(t, 0, dead+": 1 sent back in ")
}

// stopMove starts to move n messages, and sends a signal to the command once the first has arrived.
func stopMove(t *testing.T, b *brokertest.Broker, s os.Signal, n int) (from, to string, r result) {
	t.Helper()
	quorum := amqp091.Table{"x-queue-type": "quorum"}
	from, to = b.Queue(t, quorum), b.Queue(t, quorum)
	b.Publish(t, from, amqpMessages(n)...)
	ch := b.Channel(t)
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	arrived, err := ch.Consume(to, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, t.TempDir(), "queue", "mv", from, to, "--yes")
	select {
	case <-arrived:
	case <-time.After(brokertest.Patience):
		t.Fatal("no message was moved")
	}
	p.Signal(s)
	ch.Close() // requeues the message that was consumed
	return from, to, p.Wait()
}

// countInQueues counts n messages in two queues: left in from, moved to the other, and twice in both.
func countInQueues(t *testing.T, b *brokertest.Broker, from, to string, n int) (left, moved, twice int) {
	t.Helper()
	var arrived [2]<-chan amqp091.Delivery
	for i, q := range []string{from, to} {
		var err error
		if arrived[i], err = b.Channel(t).Consume(q, "", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for late := time.After(brokertest.Patience); ; {
		var d amqp091.Delivery
		select {
		case d = <-arrived[0]:
			left++
		case d = <-arrived[1]:
			moved++
		case <-time.After(300 * time.Millisecond):
			if len(seen) == n {
				return left, moved, left + moved - n
			}
			continue
		case <-late:
			t.Fatalf("found %d of %d messages: %d left, %d moved", len(seen), n, left, moved)
		}
		seen[d.MessageId] = true
	}
}

func TestAKilledMoveLosesNothing(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	onRabbitMQ(t, b)
	const n = 10000
	for range 2 {
		from, to, r := stopMove(t, b, syscall.SIGKILL, n)
		left, moved, twice := countInQueues(t, b, from, to, n)
		if r.Code != -1 || left == 0 || twice > 2000 { // 2000 messages are sent at once
			t.Errorf("%d left, %d moved, %d in both\n%s", left, moved, twice, r.Stderr)
		}
		t.Logf("%d left, %d moved, %d in both", left, moved, twice)
	}
}

func TestAnInterruptedMoveReturnsMessages(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	onRabbitMQ(t, b)
	const n = 10000
	from, to, r := stopMove(t, b, syscall.SIGINT, n)
	left, moved, twice := countInQueues(t, b, from, to, n)
	r.Want(t, 3, fmt.Sprintf(": %s moved in ", thousands(moved)),
		"interrupted: the other messages that were taken are handed back")
	if left == 0 || twice != 0 {
		t.Errorf("%d left, %d moved, %d in both", left, moved, twice)
	}
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func TestQueueErrorsOfRabbitMQ(t *testing.T) {
	b := brokertest.Managed(t)
	onRabbitMQ(t, b)
	q := b.Queue(t, nil)
	b.Send(t, q, "a")
	user := b.User(t, "^$", "^$", "^$")
	wrong := strings.Replace(b.URL, "guest:guest", "guest:s3cr%2Fet", 1)
	for _, tt := range []struct {
		broker string // "" is FLOWD_QUEUE_URL
		args   []string
		says   string
	}{
		{"", []string{"mv", "nope", q, "--yes"},
			"flowd: queue nope: look for queue nope: the broker says 404 NOT_FOUND - no queue 'nope' in vhost '/' (create it"},
		{"", []string{"mv", q, "nope", "--yes"}, "flowd: queue nope: "},
		{"", []string{"purge", "nope", "--yes"}, "flowd: queue nope: "},
		{"", []string{"dump", "nope", "-"}, "flowd: queue nope: "},
		{"", []string{"redrive", q, "--to", "nope"}, "flowd: queue nope: "},
		{user, []string{"dump", q, "-"}, "(give the user the permission: rabbitmqctl set_permissions"},
		{user, []string{"mv", q, "amq.x", "--yes"}, "404"},
		{user, []string{"purge", q, "--yes"}, "(give the user the permission: rabbitmqctl set_permissions"},
		{user, []string{"ls"}, "(rabbitmq-plugins enable rabbitmq_management"},
		{user + "?management=" + url.QueryEscape(strings.Replace(b.Management, "guest:guest@", "", 1)), []string{"ls"},
			"(give it the tag management: rabbitmqctl set_user_tags USER management)"},
		{wrong, []string{"mv", q, q + "2", "--yes"}, "the broker refuses the login (check user and password"},
		{"amqp://guest:s3cr%2Fet@127.0.0.1:1/", []string{"ls"}, "connect to amqp://127.0.0.1:1/: "},
		{"amqp://guest:s3cr%2Fet@:x/", []string{"ls"}, "is not a URL"},
	} {
		args := tt.args
		if tt.broker != "" {
			args = append([]string{args[0], tt.broker}, args[1:]...)
		}
		r := queue(t, args...)
		r.Want(t, 1, tt.says)
		if strings.Contains(r.Stderr, "s3cr") || strings.Count(r.Stderr, "\n") > 2 {
			t.Errorf("%q prints the password, or more than two lines:\n%s", args, r.Stderr)
		}
	}
	if n := b.Ready(t, q); n != 1 {
		t.Errorf("the queue has %d messages, want 1", n)
	}
}

func TestPurgeAsksOnATerminal(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	onRabbitMQ(t, b)
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("script(1), which provides a terminal, is missing")
	}
	q := b.Queue(t, nil)
	b.Send(t, q, "a", "b")
	for _, tt := range []struct {
		answer, says string
		code, left   int
	}{
		{"n\n", "nothing was done", 1, 2},
		{"y\n", "2 messages removed", 0, 0},
	} {
		dir := t.TempDir()
		r := command(t, dir, tt.answer, script, "-q", "-e", "-c", binary+" queue purge "+q,
			filepath.Join(dir, "typescript"))
		if r.Code != tt.code || !strings.Contains(r.Stdout, "Permanently remove 2 messages from "+q+"? [y/N]") ||
			!strings.Contains(r.Stdout, tt.says) {
			t.Errorf("%q: %+v", tt.answer, r)
		}
		if left := b.Ready(t, q); left != tt.left {
			t.Errorf("%q: %d messages are left, want %d", tt.answer, left, tt.left)
		}
	}
}
