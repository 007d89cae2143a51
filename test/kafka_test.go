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

// settledIn waits until the group g has settled n messages of a topic.
func settledIn(t *testing.T, c *kafkatest.Cluster, topic string, n int64) {
	t.Helper()
	settledBy(t, c, "g", topic, n)
}

func settledBy(t *testing.T, c *kafkatest.Cluster, group, topic string, n int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for c.Committed(t, group, topic) < n {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after a minute %d of %d messages are settled", c.Committed(t, group, topic), n)
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

// TestKafkaKilled kills flowd in mid-stream, again and again: each message arrives, and in transactions once.
func TestKafkaKilled(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, quickGroups)
			in, out := c.Topic(t, 4), c.Topic(t, 4)
			n := 1500 * (*kills + 1)
			c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
			dir := t.TempDir()
			file := write(t, dir, "relay.yaml", fmt.Sprintf(kafkaRelay, c.Brokers, in, out, once))
			for i := range *kills {
				p := start(t, dir, "-c", file)
				settledIn(t, c, in, int64(1000*(i+1)))
				p.Signal(syscall.SIGKILL)
				_ = p.Cmd.Wait()
			}
			p := start(t, dir, "-c", file)
			settledIn(t, c, in, int64(n))
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0)
			distinct, repeated := arrived(t, c, out)
			if distinct != n || once && repeated > 0 {
				t.Errorf("%d of %d messages arrived, %d of them more than once", distinct, n, repeated)
			}
			t.Logf("%d messages, %d kills, %d came twice", n, *kills, repeated)
		})
	}
}

// TestKafkaNetwork cuts all connections while messages flow.
func TestKafkaNetwork(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, quickGroups)
			in, out := c.Topic(t, 4), c.Topic(t, 4)
			const n = 6000
			c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
			dir := t.TempDir()
			file := write(t, dir, "relay.yaml", fmt.Sprintf(kafkaRelay, c.Brokers, in, out, once))
			p := start(t, dir, "-c", file)
			for i := range 5 {
				settledIn(t, c, in, int64(800*(i+1)))
				c.Cut()
			}
			settledIn(t, c, in, n)
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0)
			distinct, repeated := arrived(t, c, out)
			if distinct != n || once && repeated > 0 {
				t.Errorf("%d of %d messages arrived, %d of them more than once", distinct, n, repeated)
			}
		})
	}
}

// TestKafkaReloaded replaces the plan in mid-stream: the connection stays, and so does the transaction.
func TestKafkaReloaded(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, quickGroups)
			in, out := c.Topic(t, 4), c.Topic(t, 4)
			const n = 6000
			c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
			dir := t.TempDir()
			text := fmt.Sprintf(kafkaRelay, c.Brokers, in, out, once)
			file := write(t, dir, "relay.yaml", text)
			p := start(t, dir, "-c", file)
			for i := range 3 {
				settledIn(t, c, in, int64(1000*(i+1)))
				write(t, dir, "relay.yaml", strings.Replace(text, "engine: {", fmt.Sprintf("engine: {timeout: %ds, ", 20+i), 1))
				p.Signal(syscall.SIGHUP)
			}
			settledIn(t, c, in, n)
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0)
			distinct, repeated := arrived(t, c, out)
			if distinct != n || repeated > 0 {
				t.Errorf("%d of %d messages arrived, %d of them more than once", distinct, n, repeated)
			}
		})
	}
}

// TestKafkaGone says what is wrong when there is no broker, and when it is the wrong one.
func TestKafkaGone(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "relay.yaml", fmt.Sprintf(kafkaRelay, "127.0.0.1:1", "in", "out", false))
	p := start(t, dir, "-c", file)
	p.Says("check that the broker runs")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}
