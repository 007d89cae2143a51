package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// restartSoon makes failed inputs reopen after a short back-off.
func restartSoon(p *engine.Pipeline) { p.Engine.Restart.Backoff = 10 * time.Millisecond }

// TestOutagesLoseNothing starts without brokers, and stops them for a while.
func TestOutagesLoseNothing(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	c.Send(t, kafkatest.Numbered(topic, 2, 0, 100)...)
	c.Down()
	m := start(t, config(c, topic), restartSoon, &enginetest.Sink{})
	until(t, "the remedy", func() bool { return strings.Contains(m.log.String(), "check that the broker runs") })
	c.Up(t)
	until(t, "the first", func() bool { return c.Committed(t, "g", topic) == 100 })
	c.Down()
	until(t, "the outage", func() bool { return m.in.Trouble() != nil })
	c.Up(t)
	c.Send(t, kafkatest.Numbered(topic, 2, 100, 100)...)
	until(t, "the rest", func() bool { n, _ := distinct(m.sink); return n == 200 })
	until(t, "committed", func() bool { return c.Committed(t, "g", topic) == 200 })
	if _, twice := distinct(m.sink); twice > 0 {
		t.Errorf("%d messages were read twice", twice)
	}
}

// TestADeletedTopic deletes a topic while it is read. The log names it, and the topic is read from its beginning once it is
// recreated.
func TestADeletedTopic(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			c.Create(t, "orders", 1)
			c.Send(t, kafkatest.Numbered("orders", 1, 0, 3)...)
			cfg := config(c, "orders")
			cfg.Protocol = protocol
			m := start(t, cfg, restartSoon, &enginetest.Sink{})
			until(t, "committed", func() bool { return c.Committed(t, "g", "orders") == 3 })
			if err := c.Fake.DeleteTopic("orders"); err != nil {
				t.Fatal(err)
			}
			until(t, "the deletion in the log", func() bool { // with protocol consumer, brokers take its partitions away
				return strings.Contains(m.log.String(), "topic orders") || strings.Contains(m.log.String(), "were given up")
			})
			c.Create(t, "orders", 1)
			c.PurgeTopicsFromProducing("orders")
			c.Send(t, kafkatest.Numbered("orders", 1, 10, 2)...)
			until(t, "what is new", func() bool { n, _ := distinct(m.sink); return n == 5 })
		})
	}
}

// TestAStartByTimeWhereClocksHaveJumped begins with the first message that is new enough, and reads all after it, even older ones.
func TestAStartByTimeWhereClocksHaveJumped(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 1)
	for i, age := range []time.Duration{3 * time.Hour, 30 * time.Minute, 2 * time.Hour, -24 * time.Hour, 0} {
		c.Send(t, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: time.Now().Add(-age)})
	}
	cfg := config(c, topic)
	cfg.Start = "1h"
	m := start(t, cfg, nil, &enginetest.Sink{})
	until(t, "the last", func() bool { return strings.Contains(fmt.Sprint(m.sink.Bodies()), "4") })
	m.end()
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, m.sink.Bodies()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var c *kafkatest.Cluster
	topic, sent := "", 0
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			c = kafkatest.Behind(t, wire)
			topic, sent = c.Topic(t, 1), 0
			return fmt.Sprintf(`{"kafka": {"brokers": %q, "topics": %q, "group": "g", "start": "earliest", "commit_interval": "10ms", `+
				`"fetch": {"max_wait": "20ms"}}}`, wire.Address, topic)
		},
		Send: func(t *testing.T, payloads ...string) {
			for _, p := range payloads {
				sent++
				c.Send(t, &kgo.Record{Topic: topic, Value: []byte(p)})
			}
		},
		SendHeaders: func(t *testing.T, payload string, headers map[string]string) {
			r := &kgo.Record{Topic: topic, Value: []byte(payload)}
			for name, value := range headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			}
			sent++
			c.Send(t, r)
		},
		Left:   func(t *testing.T) int { return sent - int(c.Committed(t, "g", topic)) },
		Shared: true,
	}.Run(t)
}
