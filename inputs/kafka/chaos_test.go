package kafka

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
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
	rounds = flag.Int("rounds", 12, "`N` rounds of the chaos tests, 200 for the whole")
	seeds  = flag.Uint64("seed", 0, "`SEED` of the chaos tests; by default one from the clock")
)

// dies ends a member as a crash does: it neither commits nor leaves its group, which waits for it until its session ends.
func (m *member) dies(c *kfake.Cluster) {
	id, _ := m.in.client.GroupMetadata()
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.LeaveGroup, kmsg.ConsumerGroupHeartbeat},
		Group: "g", Err: kerr.UnknownMemberID, Count: -1, TopLevel: false, When: func(r kmsg.Request) bool {
			switch r := r.(type) {
			case *kmsg.OffsetCommitRequest:
				return r.MemberID == id
			case *kmsg.LeaveGroupRequest:
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

// TestChaos has three members of a group join, leave and die at random under load, while leaders and coordinators move
// and connections are cut: nothing is lost, keys keep their order at each member, and only what members had that died, or
// that the group took for dead, is written twice.
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
	c := kafkatest.Start(t, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(3*time.Second),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100",
			"group.consumer.session.timeout.ms": "3000"}))
	topic := c.Topic(t, partitions)
	cfg := config(c, topic)
	cfg.Protocol, cfg.SessionTimeout, cfg.RevokeTimeout, cfg.RebalanceTimeout = protocol, 3*time.Second, 5*time.Second, 10*time.Second
	cfg.CommitInterval = time.Minute // what moves is committed when it moves, or is written twice
	join := func() *member {
		m := start(t, cfg, func(p *engine.Pipeline) { p.Engine.OrderBy = expr.MustCompile(`meta("key")`) },
			&enginetest.Sink{Delay: time.Millisecond, Ordered: true})
		until(t, "connected", func() bool { return strings.Contains(m.log.String(), "msg=reading") })
		return m
	}
	alive := []*member{join(), join(), join()}
	all, dead := slices.Clone(alive), []*member(nil)
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
	for i, m := range all {
		// What others have now can't be committed, nor waited for.
		if strings.Contains(m.log.String(), "partitions were lost") && !slices.Contains(dead, m) {
			dead = append(dead, m)
			t.Logf("member %d was shut out", i)
		}
	}
	lost, twice := written(dead), 0
	for body, times := range written(all) {
		if times > 1 && lost[body] == 0 {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d messages were written twice, by members that the group had never lost", twice)
		for i, m := range all {
			t.Logf("member %d:\n%s", i, m.log.String())
		}
	}
	for _, m := range all {
		inOrder(t, m.sink, 7*partitions)
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
