package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kfake"
)

const kafkaRelay = `
inputs:
  in:
    kafka: {brokers: %[1]q, topics: %[2]s, group: g, session_timeout: 1s, commit_interval: 50ms,
            transaction: {size: 300, interval: 50ms, timeout: 3s}}
outputs:
  out: {kafka: {brokers: %[1]q, topic: %[3]s}}
engine: {order_by: 'meta("key")', exactly_once: %[4]t, rate_limit: {messages: 400, per: 50ms}}
`

// quickGroups lets members be missed soon.
var quickGroups = kfake.GroupMinSessionTimeout(time.Second)

// settledBy waits until a group has settled n messages of a topic.
func settledBy(t *testing.T, c *kafkatest.Cluster, group, topic string, n int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(deadline)
	for c.Committed(t, group, topic) < n {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after %v %d of %d messages are settled", deadline, c.Committed(t, group, topic), n)
		}
	}
}

// arrived is how many messages are in a topic, and how many of them are repetitions.
func arrived(t *testing.T, c *kafkatest.Cluster, topic string) (distinct, repeated int) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range c.Read(t, topic) {
		if seen[string(r.Value)] {
			repeated++
		}
		seen[string(r.Value)] = true
	}
	return len(seen), repeated
}

// relayed has flowd relay n messages from a topic to another, with and without transactions. disturb does something
// meanwhile. Each message arrives, and in transactions once.
func relayed(t *testing.T, n int, disturb func(r *kafkaRelaying)) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, quickGroups, kfake.DataDir(t.TempDir()))
			in, out := c.Topic(t, 4), c.Topic(t, 4)
			c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
			r := &kafkaRelaying{T: t, c: c, in: in, dir: t.TempDir(), text: fmt.Sprintf(kafkaRelay, c.Brokers, in, out, once)}
			r.start()
			disturb(r)
			r.settled(n)
			r.Signal(syscall.SIGTERM)
			r.Wait().Want(t, 0)
			distinct, repeated := arrived(t, c, out)
			if distinct != n || (once || r.never) && repeated > 0 {
				t.Errorf("%d of %d messages arrived, %d of them more than once", distinct, n, repeated)
			}
			t.Logf("%d messages, %d came twice", n, repeated)
		})
	}
}

// kafkaRelaying is a flowd that relays.
type kafkaRelaying struct {
	*testing.T
	*process
	c             *kafkatest.Cluster
	in, dir, text string
	never         bool // not even without transactions is a message repeated
}

func (r *kafkaRelaying) start() {
	r.process = start(r.T, r.dir, "-c", write(r.T, r.dir, "relay.yaml", r.text))
}

// settled waits until n messages are.
func (r *kafkaRelaying) settled(n int) { settledBy(r.T, r.c, "g", r.in, int64(n)) }

// TestKafkaKilled kills flowd in mid-stream, again and again.
func TestKafkaKilled(t *testing.T) {
	t.Parallel()
	relayed(t, 1500*(*kills+1), func(r *kafkaRelaying) {
		for i := range *kills {
			r.settled(1000 * (i + 1))
			r.Signal(syscall.SIGKILL)
			_ = r.Cmd.Wait()
			r.start()
		}
	})
}

// TestKafkaNetwork cuts all connections while messages flow.
func TestKafkaNetwork(t *testing.T) {
	t.Parallel()
	relayed(t, 6000, func(r *kafkaRelaying) {
		for i := range 5 {
			r.settled(800 * (i + 1))
			r.c.Cut()
		}
	})
}

// TestKafkaRestarted ends the brokers while messages flow, and starts them with what they have on disk.
func TestKafkaRestarted(t *testing.T) {
	t.Parallel()
	relayed(t, 6000, func(r *kafkaRelaying) {
		for i := range 3 {
			r.settled(1200 * (i + 1))
			r.c.Restart(r.T)
		}
	})
}

// TestKafkaReloaded replaces the plan in mid-stream: the connection stays, and so does the transaction.
func TestKafkaReloaded(t *testing.T) {
	t.Parallel()
	relayed(t, 6000, func(r *kafkaRelaying) {
		r.never = true
		for i := range 3 {
			r.settled(1000 * (i + 1))
			write(r.T, r.dir, "relay.yaml",
				strings.Replace(r.text, "engine: {", fmt.Sprintf("engine: {timeout: %ds, ", 20+i), 1))
			r.Signal(syscall.SIGHUP)
		}
	})
}

// TestKafkaGone says what is wrong when there is no broker, and when it is the wrong one.
func TestKafkaGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, dir, "relay.yaml", fmt.Sprintf(kafkaRelay, "127.0.0.1:1", "in", "out", false))
	p := start(t, dir, "-c", file)
	p.Says("check that the broker runs")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}
