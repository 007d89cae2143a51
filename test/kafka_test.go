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

// quickGroups allows short session timeouts, so that brokers notice dead members soon.
var quickGroups = kfake.GroupMinSessionTimeout(time.Second)

// waitForCommits waits until a consumer group has committed n messages of a topic.
func waitForCommits(t *testing.T, c *kafkatest.Cluster, group, topic string, n int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(deadline)
	for c.Committed(t, group, topic) < n {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d of %d messages are committed after %v", c.Committed(t, group, topic), n, deadline)
		}
	}
}

// countArrived counts different messages in a topic, and duplicates.
func countArrived(t *testing.T, c *kafkatest.Cluster, topic string) (distinct, repeated int) {
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

// testKafkaRelay copies n messages from a topic to another, with and without transactions, and calls disturb meanwhile.
// Each message must arrive, and with transactions exactly once.
func testKafkaRelay(t *testing.T, n int, disturb func(r *kafkaRelaying)) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("exactly once %t", once), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, quickGroups, kfake.DataDir(t.TempDir()))
			in, out := c.Topic(t, 4), c.Topic(t, 4)
			c.Send(t, kafkatest.Numbered(in, 4, 0, n)...)
			r := &kafkaRelaying{T: t, c: c, in: in, dir: t.TempDir(), text: fmt.Sprintf(kafkaRelay, c.Brokers, in, out, once)}
			r.start()
			disturb(r)
			r.waitForCommits(n)
			r.Signal(syscall.SIGTERM)
			r.Wait().Want(t, 0)
			distinct, repeated := countArrived(t, c, out)
			if distinct != n || (once || r.never) && repeated > 0 {
				t.Errorf("%d of %d messages arrived, with %d duplicates", distinct, n, repeated)
			}
			t.Logf("%d messages, %d duplicates", n, repeated)
		})
	}
}

// kafkaRelaying is a flowd that copies a topic.
type kafkaRelaying struct {
	*testing.T
	*process
	c             *kafkatest.Cluster
	in, dir, text string
	never         bool // duplicates are an error even without transactions
}

func (r *kafkaRelaying) start() {
	r.process = start(r.T, r.dir, "-c", write(r.T, r.dir, "relay.yaml", r.text))
}

// waitForCommits waits until n messages are committed.
func (r *kafkaRelaying) waitForCommits(n int) { waitForCommits(r.T, r.c, "g", r.in, int64(n)) }

// TestKafkaKilled kills flowd several times while messages flow.
func TestKafkaKilled(t *testing.T) {
	t.Parallel()
	testKafkaRelay(t, 1500*(*kills+1), func(r *kafkaRelaying) {
		for i := range *kills {
			r.waitForCommits(1000 * (i + 1))
			r.Signal(syscall.SIGKILL)
			_ = r.Cmd.Wait()
			r.start()
		}
	})
}

// TestKafkaNetwork cuts all connections while messages flow.
func TestKafkaNetwork(t *testing.T) {
	t.Parallel()
	testKafkaRelay(t, 6000, func(r *kafkaRelaying) {
		for i := range 5 {
			r.waitForCommits(800 * (i + 1))
			r.c.Cut()
		}
	})
}

// TestKafkaRestarted restarts the brokers with their data while messages flow.
func TestKafkaRestarted(t *testing.T) {
	t.Parallel()
	testKafkaRelay(t, 6000, func(r *kafkaRelaying) {
		for i := range 3 {
			r.waitForCommits(1200 * (i + 1))
			r.c.Restart(r.T)
		}
	})
}

// TestKafkaReloaded reloads the pipeline while messages flow. The connection and the transaction continue.
func TestKafkaReloaded(t *testing.T) {
	t.Parallel()
	testKafkaRelay(t, 6000, func(r *kafkaRelaying) {
		r.never = true
		for i := range 3 {
			r.waitForCommits(1000 * (i + 1))
			write(r.T, r.dir, "relay.yaml",
				strings.Replace(r.text, "engine: {", fmt.Sprintf("engine: {timeout: %ds, ", 20+i), 1))
			r.Signal(syscall.SIGHUP)
		}
	})
}

// TestKafkaUnavailable checks the error when no broker is reachable.
func TestKafkaUnavailable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, dir, "relay.yaml", fmt.Sprintf(kafkaRelay, "127.0.0.1:1", "in", "out", false))
	p := start(t, dir, "-c", file)
	p.Says("check that the broker runs")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}
