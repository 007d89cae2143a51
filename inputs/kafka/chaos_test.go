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
	rounds  = flag.Int("rounds", 12, "`N` rounds of the chaos tests, 200 for the whole")
	session = flag.Duration("session", 3*time.Second, "session `TIMEOUT` of the chaos test; members outlive short ones")
	seeds   = flag.Uint64("seed", 0, "`SEED` of the chaos tests; by default one from the clock")
)

// dies ends a member as a crash does: it neither commits nor leaves its group, which waits for it until its session
// ends. One that is joining leaves all the same: the fake never ends its session.
func (m *member) dies(c *kfake.Cluster) {
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

// TestChaos has three members of a group join, leave and die at random under load, while leaders and coordinators
// move and connections are cut: nothing is lost, keys keep their order at each member, and what is written twice was
// written by members that died, or is no more than what the others have counted.
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
	dice := rand.New(rand.NewPCG(seed, 0))
	const partitions = 6
	c := kafkatest.Start(t, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100",
			"group.consumer.min.session.timeout.ms": "1000",
			"group.consumer.session.timeout.ms":     strconv.FormatInt(session.Milliseconds(), 10)}))
	topic := c.Topic(t, partitions)
	cfg := config(c, topic)
	cfg.Protocol, cfg.SessionTimeout = protocol, *session
	cfg.RevokeTimeout, cfg.RebalanceTimeout = 5*time.Second, 10*time.Second
	cfg.CommitInterval = time.Minute // what moves is committed when it moves, or is written twice
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
		i := dice.IntN(len(alive))
		switch event := dice.IntN(6); event {
		case 0, 1:
			if event == 0 {
				alive[i].end()
			} else {
				alive[i].dies(c.Fake)
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
		goal := total - dice.IntN(600) // some are under way in the next round
		until(t, "most of a round", func() bool { return len(written(all)) >= goal })
	}
	until(t, "all", func() bool { return len(written(all)) == total })
	for _, m := range all {
		m.end() // members count what they have lost when they notice
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
			t.Logf("member %d has counted %d that others read again, of partitions that were lost: %t", i, n,
				strings.Contains(m.log.String(), "partitions were lost"))
		}
	}
	if twice > counted {
		t.Errorf("%d messages were written twice, by members that had not died and have counted %d", twice, counted)
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

// counted is how many messages a member has counted that others read again.
func (m *member) counted() int64 {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	return m.in.takenAway
}
