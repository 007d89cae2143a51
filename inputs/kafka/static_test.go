package kafka

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAStaticMemberComesBack restarts a static member. It gets its partitions back. No other member reads them meanwhile, and the
// assignment of the other member does not change.
func TestAStaticMemberComesBack(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			c := kafkatest.Start(t, kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100"}))
			var left atomic.Int32
			c.Fake.ControlKey(int16(kmsg.LeaveGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
				c.Fake.KeepControl()
				left.Add(1)
				return nil, nil, false
			})
			topic := c.Topic(t, 4)
			join := func(name string) *member {
				cfg := config(c, topic)
				cfg.Protocol, cfg.InstanceID = protocol, name
				return start(t, cfg, nil, &enginetest.Sink{})
			}
			has := func(m *member, n int) func() bool {
				return func() bool { return m.in.count() == n }
			}
			one := join("one")
			until(t, "all partitions", has(one, 4))
			two := join("two")
			until(t, "half of the partitions", has(two, 2))
			until(t, "the other half", has(one, 2))
			c.Send(t, kafkatest.Numbered(topic, 4, 0, 40)...)
			until(t, "all", func() bool { n, _ := distinct(one.sink, two.sink); return n == 40 })
			moves := moved(two)
			one.end()
			c.Send(t, kafkatest.Numbered(topic, 4, 40, 40)...)
			until(t, "half of the second part", func() bool { n, _ := distinct(one.sink, two.sink); return n == 60 })
			back := join("one")
			until(t, "the rest", func() bool { n, _ := distinct(one.sink, two.sink, back.sink); return n == 80 })
			_, twice := distinct(one.sink, two.sink, back.sink)
			if twice > 0 || left.Load() > 0 || moved(two) != moves || back.in.count() != 2 {
				t.Errorf("%d messages were written twice, %d members left, and the other was disturbed:\n%s", twice, left.Load(),
					two.log.String())
			}
		})
	}
}

// moved counts how often partitions of a member have come or gone.
func moved(m *member) int { return strings.Count(m.log.String(), "partitions were ") }

// TestRequestsNameTheRack checks that brokers can choose the nearest replica.
func TestRequestsNameTheRack(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 1)
	var rack atomic.Value
	c.Fake.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		rack.Store(r.(*kmsg.FetchRequest).Rack)
		return nil, nil, false
	})
	cfg := config(c, topic)
	cfg.Rack = "eu-west-1a"
	m := start(t, cfg, nil, &enginetest.Sink{})
	defer m.end()
	until(t, "a request with the rack", func() bool { return rack.Load() == "eu-west-1a" })
}
