package kafka

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	kafkaout "github.com/flowd-io/flowd/outputs/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
)

// relays turns a pipeline into one that copies a topic to another in transactions.
func relays(c *kafkatest.Cluster, to string, steps ...engine.StepSpec) func(p *engine.Pipeline) {
	return func(p *engine.Pipeline) {
		p.Engine.ExactlyOnce = true
		p.Engine.Drain.Timeout = 5 * time.Second
		p.Processors = steps
		p.Outputs = enginetest.Named("out", engine.OutputSpec{Concurrency: 4, Use: output(c, to)})
	}
}

func output(c *kafkatest.Cluster, to string) engine.Plugin[engine.Output] {
	cfg := engine.Outputs.Lookup("kafka").Type.New().(kafkaout.Config)
	cfg.Brokers, cfg.Topic = strings.Split(c.Brokers, ","), expr.MustTemplate(to)
	return engine.Plugin[engine.Output]{Name: "kafka", Config: cfg}
}

// ids counts each numbered message in a topic, as a reader of committed records sees them.
func ids(t *testing.T, c *kafkatest.Cluster, topic string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, r := range c.Read(t, topic) {
		n[string(r.Value)]++
	}
	return n
}

// once checks that each numbered message is in a topic once.
func once(t *testing.T, c *kafkatest.Cluster, topic string, total int) {
	t.Helper()
	got := ids(t, c, topic)
	lost, more := 0, 0
	for i := range total {
		switch got[fmt.Sprintf(`{"id":%d}`, i)] {
		case 0:
			lost++
		case 1:
		default:
			more++
		}
	}
	if lost+more > 0 || len(got) != total {
		t.Errorf("of %d messages %d are lost and %d are there more than once; %d in all", total, lost, more, len(got))
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	in, out := c.Topic(t, 3), c.Topic(t, 3)
	c.Send(t, kafkatest.Numbered(in, 3, 0, 5000)...)
	cfg := config(c, in)
	m := start(t, cfg, relays(c, out), nil)
	until(t, "all settled", func() bool { return c.Committed(t, "g", in) == 5000 })
	rep := m.end()
	once(t, c, out, 5000)
	if rep.Err != nil || rep.Stats.Roots.Ended[engine.Delivered] != 5000 {
		t.Errorf("%+v", rep)
	}
}

// TestWritesOfAnAbortedTransactionAreInvisible makes a step fail permanently in the middle of a transaction. The pipeline stops,
// and readers see none of the transaction's writes. Once the step works, each message is there once.
func TestWritesOfAnAbortedTransactionAreInvisible(t *testing.T) {
	t.Parallel()
	c := kafkatest.Any(t)
	in, out := c.Topic(t, 1), c.Topic(t, 1)
	c.Send(t, kafkatest.Numbered(in, 1, 0, 500)...)
	cfg := config(c, in)
	cfg.Transaction.Size = 200
	bad := enginetest.Step("bad", func(_ context.Context, m *engine.Message) error {
		if string(m.Bytes()) == `{"id":300}` {
			return engine.Errorf(engine.Permanent, "poison")
		}
		return nil
	})
	m := start(t, cfg, relays(c, out, bad), nil)
	<-m.done
	m.end()
	if n := c.Committed(t, "g", in); n != 200 {
		t.Errorf("committed %d, want 200", n)
	}
	once(t, c, out, 200)
	again := start(t, cfg, relays(c, out), nil)
	until(t, "the rest", func() bool { return c.Committed(t, "g", in) == 500 })
	again.end()
	once(t, c, out, 500)
}

// TestTransactionsWhileMembersComeGoAndCrash lets three members join, leave and crash at random, and brokers move partitions and
// coordinators. A reader of committed records sees each message once.
func TestTransactionsWhileMembersComeGoAndCrash(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			c := kafkatest.Start(t, kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{
				"group.consumer.heartbeat.interval.ms": "100", "group.consumer.session.timeout.ms": "2000",
				"group.consumer.min.session.timeout.ms": "1000"}), kfake.GroupMinSessionTimeout(time.Second))
			const partitions = 6
			in, out := c.Topic(t, partitions), c.Topic(t, partitions)
			seed := cmp.Or(*seeds, uint64(time.Now().UnixNano()))
			t.Logf("-seed %d -rounds %d", seed, *rounds)
			random := rand.New(rand.NewPCG(seed, 1))
			cfg := config(c, in)
			cfg.Protocol, cfg.SessionTimeout = protocol, 2*time.Second
			cfg.RebalanceTimeout, cfg.RevokeTimeout = 3*time.Second, time.Second
			cfg.Transaction = transaction{Size: 100, Interval: 20 * time.Millisecond, Timeout: 3 * time.Second}
			slow := enginetest.Step("slow", func(context.Context, *engine.Message) error {
				time.Sleep(100 * time.Microsecond)
				return nil
			})
			total := 0
			var members []*member
			for range 2 * *rounds {
				c.Send(t, kafkatest.Numbered(in, partitions, total, 120)...)
				total += 120
				switch n := random.IntN(6); {
				case len(members) < 3 && n < 3 || len(members) == 0:
					members = append(members, start(t, cfg, relays(c, out, slow), nil))
				case n == 3:
					i := random.IntN(len(members))
					members[i].end()
					members = slices.Delete(members, i, i+1)
				case n == 4:
					i := random.IntN(len(members))
					members[i].kill()
					members[i].stop()
					members = slices.Delete(members, i, i+1)
				case n == 5:
					c.Fake.ShufflePartitionLeaders()
				}
				time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
			}
			if len(members) == 0 {
				members = append(members, start(t, cfg, relays(c, out, slow), nil))
			}
			until(t, "all settled", func() bool { return c.Committed(t, "g", in) == int64(total) })
			for _, m := range members {
				m.end()
			}
			once(t, c, out, total)
		})
	}
}

// belated is an output that holds back its first write until its second is running.
type belated struct {
	engine.Output
	calls       atomic.Int32
	second, met chan struct{}
}

func (b *belated) Open(ctx context.Context) error  { return b.Output.(engine.Opener).Open(ctx) }
func (b *belated) Close(ctx context.Context) error { return b.Output.(engine.Closer).Close(ctx) }

func (b *belated) Write(ctx context.Context, batch *engine.Batch) error {
	switch b.calls.Add(1) {
	case 1:
		<-b.second
		defer close(b.met)
	case 2:
		close(b.second)
		<-b.met
	}
	return b.Output.Write(ctx, batch)
}

// TestALateWriteIsNotInALaterTransaction aborts a transaction while one of its writes hangs. The write continues when another
// transaction is open, in which the same message is read again.
func TestALateWriteIsNotInALaterTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	in, out := c.Topic(t, 1), c.Topic(t, 1)
	c.Send(t, kafkatest.Numbered(in, 1, 0, 1)...)
	cfg := config(c, in)
	cfg.Transaction.Timeout = time.Second
	late := &belated{second: make(chan struct{}), met: make(chan struct{})}
	m := start(t, cfg, func(p *engine.Pipeline) {
		relays(c, out)(p)
		use := output(c, out)
		made := engine.Use(func(env engine.Env) (_ engine.Output, err error) {
			late.Output, err = use.Build(env)
			return late, err
		})
		made.Config = use.Config
		p.Outputs = enginetest.Named("out", engine.OutputSpec{Concurrency: 2, Use: made})
	}, nil)
	until(t, "settled", func() bool { return c.Committed(t, "g", in) == 1 })
	m.end()
	once(t, c, out, 1)
}
