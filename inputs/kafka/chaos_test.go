package kafka

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	rounds  = flag.Int("rounds", 12, "`N` rounds of the chaos tests; 200 for a thorough run")
	session = flag.Duration("session", 3*time.Second, "session `TIMEOUT` of the chaos test; members may exceed a short one")
	seeds   = flag.Uint64("seed", 0, "`SEED` of the chaos tests; by default one from the clock")
)

// crash ends a member as a crash does: it neither commits nor leaves its group, so the group waits until its session times
// out. A member that is joining leaves nevertheless, since the fake broker would never end its session.
func (m *member) crash(c *kfake.Cluster) {
	id, _ := m.in.client.GroupMetadata()
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.LeaveGroup, kmsg.ConsumerGroupHeartbeat},
		Group: "g", Err: kerr.UnknownMemberID, Count: -1, TopLevel: false, When: func(r kmsg.Request) bool {
			switch r := r.(type) {
			case *kmsg.OffsetCommitRequest:
				return r.MemberID == id
			case *kmsg.LeaveGroupRequest:
				if _, _, joining := m.in.joins.waiting(); joining {
					return false
				}
				return len(r.Members) > 0 && r.Members[0].MemberID == id || r.MemberID == id
			case *kmsg.ConsumerGroupHeartbeatRequest:
				return r.MemberID == id
			}
			return false
		}})
	defer fault.Remove()
	m.kill()
	m.end()
}

// TestChaos lets three members of a group join, leave and crash at random under load, while leaders and coordinators move and
// connections are cut. No message is lost, and each member writes the messages of a key in order. A message is written twice only
// if a member crashed, or if another member has counted it as read again.
func TestChaos(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			chaos(t, protocol)
		})
	}
}

func chaos(t *testing.T, protocol string) {
	seed := cmp.Or(*seeds, uint64(time.Now().UnixNano()))
	t.Logf("-seed %d -rounds %d", seed, *rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	const partitions = 6
	c := kafkatest.Start(t, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100",
			"group.consumer.min.session.timeout.ms": "1000",
			"group.consumer.session.timeout.ms":     strconv.FormatInt(session.Milliseconds(), 10)}))
	topic := c.Topic(t, partitions)
	cfg := config(c, topic)
	cfg.Protocol, cfg.SessionTimeout = protocol, *session
	cfg.RevokeTimeout, cfg.RebalanceTimeout = 5*time.Second, 10*time.Second
	cfg.CommitInterval = time.Minute // messages of a partition that moves are committed then, or written twice
	join := func() *member {
		m := start(t, cfg, func(p *engine.Pipeline) { p.Engine.OrderBy = expr.MustCompile(`meta("key")`) },
			&enginetest.Sink{Delay: time.Millisecond, Ordered: true})
		until(t, "connected", func() bool { return strings.Contains(m.log.String(), "msg=reading") })
		return m
	}
	alive := []*member{join(), join(), join()}
	all, dead := slices.Clone(alive), []*member(nil)
	defer func() {
		if t.Failed() {
			for i, m := range all {
				t.Logf("member %d:\n%s", i, m.log.String())
			}
		}
	}()
	total := 0
	for range *rounds {
		c.Send(t, kafkatest.Numbered(topic, partitions, total, 600)...)
		total += 600
		i := random.IntN(len(alive))
		switch event := random.IntN(6); event {
		case 0, 1:
			if event == 0 {
				alive[i].end()
			} else {
				alive[i].crash(c.Fake)
				dead = append(dead, alive[i])
			}
			alive[i] = join()
			all = append(all, alive[i])
		case 2:
			c.Fake.ShufflePartitionLeaders()
		case 3:
			c.Fake.RehashCoordinators()
		case 4:
			c.Cut()
		}
		goal := total - random.IntN(600) // some are still in flight in the next round
		until(t, "most of a round", func() bool { return len(written(all)) >= goal })
	}
	until(t, "all", func() bool { return len(written(all)) == total })
	for _, m := range all {
		m.end() // a member counts the partitions that it has lost when it notices the loss
	}
	lost, times, twice := written(dead), written(all), 0
	for body, n := range times {
		if n > 1 && lost[body] == 0 {
			twice++
		}
	}
	counted := 0
	for i, m := range all {
		n := int(m.counted())
		if counted += n; n > 0 {
			t.Logf("member %d has counted %d messages that others read again; it has lost partitions: %t", i, n,
				strings.Contains(m.log.String(), "partitions were lost"))
		}
	}
	if twice > counted {
		t.Errorf("%d messages were written twice by members that did not crash, which have counted %d", twice, counted)
	}
	for _, m := range all {
		inOrder(t, m.sink, 7*partitions, func(body string) bool { return times[body] > 1 })
	}
}

// written counts how often members have written each message.
func written(members []*member) map[string]int {
	seen := map[string]int{}
	for _, m := range members {
		for _, b := range m.sink.Bodies() {
			seen[b]++
		}
	}
	return seen
}

// counted returns the number of messages that, as the member has counted, others read again.
func (m *member) counted() int64 {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	return m.in.takenAway
}
