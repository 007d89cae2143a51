package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a pipeline whose input is a member of a group.
type member struct {
	t    *testing.T
	log  enginetest.Transcript
	sink *enginetest.Sink
	stop context.CancelFunc
	kill context.CancelFunc
	done chan struct{}
	rep  runtime.Report
	plan *runtime.Plan
	in   *input
}

// config returns a configuration with short intervals.
func config(c *kafkatest.Cluster, topics ...string) Config {
	cfg := defaults
	cfg.Brokers, cfg.Topics, cfg.Group = strings.Split(c.Brokers, ","), topics, "g"
	cfg.CommitInterval, cfg.Fetch.MaxWait = 50*time.Millisecond, 100*time.Millisecond
	return cfg
}

// start starts a pipeline.
func start(t *testing.T, cfg Config, edit func(*engine.Pipeline), sink *enginetest.Sink) *member {
	t.Helper()
	m := &member{t: t, sink: sink, done: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(&m.log, nil))
	use := engine.Use(func(env engine.Env) (engine.Input, error) {
		in, err := newInput(cfg, env)
		if err == nil {
			m.in = in.(*input)
		}
		return in, err
	})
	use.Config = cfg
	p := &engine.Pipeline{Name: "test", Inputs: enginetest.Named("in", engine.InputSpec{Use: use}),
		Engine: engine.EngineSpec{Workers: 4}}
	if sink != nil {
		p.Outputs = enginetest.Named("out", sink.Output())
	}
	if edit != nil {
		edit(p)
	}
	plan, problems := runtime.Build(p, runtime.Options{Log: log, Shared: &engine.Shared{}})
	if plan == nil {
		t.Fatal(problems)
	}
	stop, cancel := context.WithCancel(context.Background())
	hard, kill := context.WithCancel(context.Background())
	m.stop, m.kill, m.plan = cancel, kill, plan
	go func() {
		defer close(m.done)
		m.rep = plan.Run(stop, hard)
	}()
	t.Cleanup(func() { m.end() })
	return m
}

// end stops the pipeline and waits for it.
func (m *member) end() runtime.Report {
	m.stop()
	<-m.done
	if c := m.rep.Stats.Roots; !c.Balanced() || c.InFlight != 0 {
		m.t.Errorf("roots do not add up: %+v", c)
	}
	return m.rep
}

// until waits until f returns true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !f(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after a minute: not yet %s", what)
		}
	}
}

// distinct counts the distinct messages that sinks have received, and those received more than once.
func distinct(sinks ...*enginetest.Sink) (n, twice int) {
	seen := map[string]bool{}
	for _, s := range sinks {
		for _, b := range s.Bodies() {
			if seen[b] {
				twice++
			}
			seen[b] = true
		}
	}
	return len(seen), twice
}

func TestReadsAllAndCommits(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			c := kafkatest.Any(t)
			topic := c.Topic(t, 3)
			at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
			c.Send(t, &kgo.Record{Topic: topic, Partition: 2, Key: []byte("a"), Value: []byte("x"), Timestamp: at,
				Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("t1")}, {Key: "via", Value: []byte("b")},
					{Key: "via", Value: []byte("a")}, {Key: "topic", Value: []byte("forged")}}},
				&kgo.Record{Topic: topic, Partition: 2, Value: nil, Timestamp: at})
			cfg := config(c, topic)
			cfg.Protocol = protocol
			m := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "two messages", func() bool { return len(m.sink.Bodies()) == 2 })
			metas := map[string]map[string]any{}
			for _, w := range m.sink.Writes() {
				for i, b := range w.Bodies {
					metas[b] = w.Metas[i]
				}
			}
			want := map[string]map[string]any{
				"x": {"topic": topic, "partition": 2, "offset": 0, "timestamp": at, "key": "a", "tenant": "t1",
					"via": []any{"b", "a"}, "headers": []any{map[string]any{"name": "tenant", "value": "t1"},
						map[string]any{"name": "via", "value": "b"}, map[string]any{"name": "via", "value": "a"},
						map[string]any{"name": "topic", "value": "forged"}}, "header_topic": "forged"},
				"": {"topic": topic, "partition": 2, "offset": 1, "timestamp": at, "tombstone": true},
			}
			if diff := cmp.Diff(want, metas); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			c.Send(t, kafkatest.Numbered(topic, 3, 0, 1000)...)
			until(t, "all messages", func() bool { return len(m.sink.Bodies()) == 1002 })
			until(t, "all committed while it runs", func() bool { return c.Committed(t, "g", topic) == 1002 })
			c.Send(t, kafkatest.Numbered(topic, 3, 1000, 10)...)
			until(t, "the rest", func() bool { return len(m.sink.Bodies()) == 1012 })
			m.end()
			if got := c.Committed(t, "g", topic); got != 1012 {
				t.Errorf("committed %d at the end, want 1012", got)
			}
			c.Send(t, kafkatest.Numbered(topic, 3, 5000, 1)...)
			again := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "what is new", func() bool { return len(again.sink.Bodies()) > 0 })
			again.end()
			if diff := cmp.Diff([]string{`{"id":5000}`}, again.sink.Bodies()); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartitionsMoveWithoutRepetition lets members join and leave under load. Each message is written once, and those of a key in
// order, since messages in flight are finished before a partition moves.
func TestPartitionsMoveWithoutRepetition(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			c := kafkatest.Start(t, kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100"}))
			const partitions = 6
			topic := c.Topic(t, partitions)
			cfg := config(c, topic)
			cfg.Protocol = protocol
			join := func() *member {
				return start(t, cfg, func(p *engine.Pipeline) {
					p.Engine.OrderBy = expr.MustCompile(`meta("key")`)
					p.Processors = []engine.StepSpec{enginetest.Step("slow", func(ctx context.Context, m *engine.Message) error {
						time.Sleep(200 * time.Microsecond)
						return nil
					})}
				}, &enginetest.Sink{Delay: time.Millisecond, Ordered: true})
			}
			a := join()
			total, enough, sent := 0, make(chan struct{}), make(chan struct{})
			go func() {
				defer close(sent)
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for ; ; total += 60 {
					c.Send(t, kafkatest.Numbered(topic, partitions, total, 60)...)
					select {
					case <-tick.C:
					case <-enough:
						total += 60
						return
					}
				}
			}()
			until(t, "some", func() bool { return len(a.sink.Bodies()) > 100 })
			b := join()
			until(t, "some at the second", func() bool { return len(b.sink.Bodies()) > 50 })
			a.end()
			x := join()
			until(t, "some at the third", func() bool { return len(x.sink.Bodies()) > 50 })
			b.end()
			close(enough)
			<-sent
			until(t, "all", func() bool { n, _ := distinct(a.sink, b.sink, x.sink); return n == total })
			if _, twice := distinct(a.sink, b.sink, x.sink); twice > 0 {
				t.Errorf("%d messages were written twice", twice)
			}
			for _, m := range []*member{a, b, x} {
				inOrder(t, m.sink, 7*partitions, nil)
			}
		})
	}
}

// inOrder checks that a sink has received the messages of each key of kafkatest.Numbered in the order of their numbers, except for
// those that are read again.
func inOrder(t *testing.T, sink *enginetest.Sink, keys int, again func(body string) bool) {
	t.Helper()
	last := map[int]int{}
	for _, b := range sink.Bodies() {
		if again != nil && again(b) {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(b, `{"id":%d}`, &id); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[id%keys]; ok && before > id {
			t.Errorf("%d was written after %d", id, before)
		}
		last[id%keys] = id
	}
}

// TestUnfinishedMessagesAreTakenAway moves a partition while a write hangs. The other member gets its message, and this one never
// acknowledges it.
func TestUnfinishedMessagesAreTakenAway(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	cfg := config(c, topic)
	cfg.RevokeTimeout = 300 * time.Millisecond
	c.Send(t, kafkatest.Numbered(topic, 2, 0, 2)...)
	block := make(chan struct{})
	a := start(t, cfg, nil, &enginetest.Sink{Block: block})
	until(t, "both under way", func() bool { return a.plan.Snapshot().Messages == 2 })
	b := start(t, cfg, nil, &enginetest.Sink{})
	until(t, "the other member's", func() bool { return len(b.sink.Bodies()) == 1 })
	close(block)
	until(t, "the hanging write", func() bool { return a.plan.Snapshot().Messages == 0 })
	a.end()
	b.end()
	if !strings.Contains(a.log.String(), "unfinished=1") {
		t.Errorf("what was not finished is not counted:\n%s", a.log.String())
	}
	if n := c.Committed(t, "g", topic); n != 2 {
		t.Errorf("committed %d, want 2", n)
	}
}

// TestOpenBatchesAreFlushedWhenAPartitionMoves checks that a move does not wait for the timeout of a batch, an hour.
func TestOpenBatchesAreFlushedWhenAPartitionMoves(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*testing.T, *engine.Pipeline){"batch": batches, "group": groups} {
		t.Run(name, func(t *testing.T) {
			c := kafkatest.Start(t)
			topic := c.Topic(t, 2)
			cfg := config(c, topic)
			c.Send(t, kafkatest.Numbered(topic, 2, 0, 20)...)
			keeps := func(p *engine.Pipeline) { edit(t, p) }
			a := start(t, cfg, keeps, &enginetest.Sink{})
			until(t, "all under way", func() bool { return a.plan.Snapshot().Messages == 20 })
			b := start(t, cfg, keeps, &enginetest.Sink{})
			until(t, "the batch", func() bool { return len(a.sink.Bodies()) == 20 })
			b.end()
			a.end()
			if n, twice := distinct(a.sink, b.sink); n != 20 || twice != 0 {
				t.Errorf("%d messages, %d twice, want 20 once", n, twice)
			}
		})
	}
}

// TestOnePartitionWaits makes the first message of a partition fail repeatedly. Reading ahead in this partition is limited, and the
// other partition is read to its end.
func TestOnePartitionWaits(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 2)
	cfg := config(c, topic)
	const n = 4000
	c.Send(t, kafkatest.Numbered(topic, 2, 0, n)...)
	sink := &enginetest.Sink{Fail: func(body string) error {
		if body == `{"id":0}` {
			return engine.Errorf(engine.Transient, "not now")
		}
		return nil
	}}
	m := start(t, cfg, func(p *engine.Pipeline) {
		p.Engine.MaxReplay = 400
		p.Engine.OnFailure.Retry = &engine.Retry{Backoff: time.Hour, MaxBackoff: time.Hour, MaxAttempts: 9}
		p.Engine.Drain.Timeout = time.Second
	}, sink)
	odd := func() (n int) {
		for _, b := range sink.Bodies() {
			if strings.ContainsRune("13579", rune(b[len(b)-2])) {
				n++
			}
		}
		return n
	}
	until(t, "all of the other partition", func() bool { return odd() == n/2 })
	if even := len(sink.Bodies()) - odd(); even > 800 {
		t.Errorf("%d messages were read after the one that waits, with a max_replay of 400", even)
	}
	m.end()
	if got := c.Committed(t, "g", topic); got != n/2 {
		t.Errorf("committed %d, want all %d of one partition and none of the other", got, n/2)
	}
}

func TestTopicsThatMatchLaterAreRead(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			c.Create(t, protocol+".a", 1)
			c.Create(t, protocol+"xa", 1)
			cfg := config(c, protocol+".*")
			cfg.Group, cfg.Start, cfg.Protocol = protocol, latest, protocol
			m := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "in the group", func() bool { return strings.Contains(m.log.String(), "partitions were assigned") })
			until(t, "the first", func() bool {
				c.Send(t, kafkatest.Numbered(protocol+".a", 1, 1, 1)...)
				return len(m.sink.Bodies()) > 0
			})
			c.Send(t, kafkatest.Numbered(protocol+"xa", 1, 7, 1)...) // the dot is a dot
			c.Create(t, protocol+".b", 1)
			c.Send(t, kafkatest.Numbered(protocol+".b", 1, 2, 1)...)
			refresh(t, m)
			until(t, "the new topic's", func() bool { n, _ := distinct(m.sink); return n == 2 })
			if strings.Contains(fmt.Sprint(m.sink.Bodies()), "7") {
				t.Error("a topic was read that does not match")
			}
		})
	}
}

// refresh makes the client of a member look for topics now rather than after a minute.
func refresh(t *testing.T, m *member) {
	t.Helper()
	m.in.client.ForceMetadataRefresh()
}

func TestDeletedMessages(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{earliest: `[{"id":3} {"id":4} {"id":5}]`, latest: `[{"id":5}]`,
		"fail": "[]"} {
		t.Run(policy, func(t *testing.T) {
			c := kafkatest.Start(t)
			topic := c.Topic(t, 1)
			c.Send(t, kafkatest.Numbered(topic, 1, 0, 1)...)
			cfg := config(c, topic)
			cfg.OutOfRange = policy
			first := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "the first", func() bool { return len(first.sink.Bodies()) == 1 })
			first.end()
			c.Send(t, kafkatest.Numbered(topic, 1, 1, 4)...)
			if err := c.Fake.DeleteRecords(topic, 0, 3); err != nil {
				t.Fatal(err)
			}
			m := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "the loss in the log", func() bool {
				return strings.Contains(m.log.String(), "deleted before they were read")
			})
			if policy == "fail" {
				<-m.done
				if m.rep.Err == nil {
					t.Error("the pipeline did not fail")
				}
			} else {
				until(t, "the next", func() bool {
					if policy == latest && len(m.sink.Bodies()) == 0 || len(m.sink.Bodies()) == 2 {
						c.Send(t, kafkatest.Numbered(topic, 1, 5, 1)...)
					}
					return strings.Contains(fmt.Sprint(m.sink.Bodies()), "5")
				})
			}
			if got := fmt.Sprint(m.sink.Bodies()); !strings.HasPrefix(got, strings.TrimSuffix(want, "]")) {
				t.Errorf("got %s, want %s", got, want)
			}
			if !strings.Contains(m.log.String(), "2 (offsets 1 to 2)") {
				t.Errorf("the log does not say how many are missing:\n%s", m.log.String())
			}
		})
	}
}

// TestAMissingTopicIsWaitedFor starts without the topic. The log names it, and it is read once it exists.
func TestAMissingTopicIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	cfg := config(c, "missing")
	m := start(t, cfg, func(p *engine.Pipeline) { p.Engine.Restart.Backoff = 10 * time.Millisecond }, &enginetest.Sink{})
	until(t, "the remedy", func() bool { return strings.Contains(m.log.String(), "create the topic") })
	c.Create(t, "missing", 1)
	c.Send(t, kafkatest.Numbered("missing", 1, 1, 1)...)
	until(t, "the message", func() bool { return len(m.sink.Bodies()) == 1 })
}

// TestAFailedCommitIsRepeated checks that a failed commit is repeated, even if no more messages are read.
func TestAFailedCommitIsRepeated(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 1)
	c.Send(t, kafkatest.Numbered(topic, 1, 0, 5)...)
	refused := 0
	c.Fake.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		if refused++; refused > 3 {
			return nil, nil, false
		}
		req := r.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetCommitResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewOffsetCommitResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, 28 // INVALID_COMMIT_OFFSET_SIZE
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	m := start(t, config(c, topic), nil, &enginetest.Sink{})
	until(t, "committed", func() bool { return c.Committed(t, "g", topic) == 5 })
	m.end()
}

// TestTheLastCommitOfAPartition checks that this commit is repeated after a transient error, so that no message is read twice. If
// the group accepts no more commits, messages that others read again are counted.
func TestTheLastCommitOfAPartition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    *kerr.Error
		times  int
		counts int64 // of the 20 messages in each of two partitions
	}{
		{"an epoch that was raised", kerr.StaleMemberEpoch, 3, 0},
		{"a coordinator that starts", kerr.CoordinatorLoadInProgress, 3, 0},
		{"a member that is removed", kerr.UnknownMemberID, -1, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			topic := c.Topic(t, 2)
			cfg := config(c, topic)
			cfg.CommitInterval = time.Minute
			c.Send(t, kafkatest.Numbered(topic, 2, 0, 40)...)
			a := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "all", func() bool { return len(a.sink.Bodies()) == 40 })
			fault := c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "g", Err: tt.err, Count: tt.times})
			defer fault.Remove()
			b := start(t, cfg, nil, &enginetest.Sink{})
			until(t, "a partition has moved", func() bool { return a.progress().Revoked == 1 })
			c.Send(t, kafkatest.Numbered(topic, 2, 40, 2)...)
			until(t, "what is new", func() bool { n, _ := distinct(a.sink, b.sink); return n == 42 })
			if _, twice := distinct(a.sink, b.sink); int64(twice) != tt.counts || a.progress().TakenAway != tt.counts {
				t.Errorf("%d messages were written twice, and %d counted, want %d", twice, a.progress().TakenAway, tt.counts)
			}
		})
	}
}

// TestAStopDuringARebalance stops a member while the group waits for another one that is slow to join. It commits settled
// messages, leaves at once, and ends cleanly.
func TestAStopDuringARebalance(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	topic := c.Topic(t, 4)
	cfg := config(c, topic)
	cfg.CommitInterval = time.Minute
	m := start(t, cfg, nil, &enginetest.Sink{})
	until(t, "partitions", func() bool { return m.in.count() == 4 })
	assigned := make(chan bool, 9)
	other := func() *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic),
			kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.HeartbeatInterval(100*time.Millisecond),
			kgo.WithContext(t.Context()), kgo.DisableAutoCommit(), kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client,
				all map[string][]int32) {
				if len(all) > 0 {
					assigned <- true
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseAllowingRebalance)
		return client
	}
	waits := func() bool { _, _, yes := m.in.joins.waiting(); return yes }
	deaf := other()
	<-assigned
	until(t, "two members share", func() bool { return m.in.count() < 4 && !waits() })
	c.Fake.ControlKey(int16(kmsg.Heartbeat), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		id, _ := deaf.GroupMetadata()
		return r.ResponseKind(), nil, r.(*kmsg.HeartbeatRequest).MemberID == id
	})
	c.Send(t, kafkatest.Numbered(topic, 4, 0, 100)...)
	until(t, "all of its own", func() bool { return len(m.sink.Bodies()) == 25*m.in.count() })
	other()
	until(t, "the rebalance", waits)
	if rep := m.end(); rep.Err != nil {
		t.Errorf("the end has failed: %v", rep.Err)
	}
	if got, want := c.Committed(t, "g", topic), int64(len(m.sink.Bodies())); got != want || want == 0 {
		t.Errorf("committed %d of %d\n%s", got, want, m.log.String())
	}
	if strings.Contains(m.log.String(), "was not told") || strings.Contains(m.log.String(), "could not be") {
		t.Errorf("logged:\n%s", m.log.String())
	}
}

// batches and groups add a stage that keeps messages for an hour.
func batches(t *testing.T, p *engine.Pipeline) {
	p.Batchers = enginetest.Named("b", engine.BatcherSpec{Output: engine.Names{"out"}, Use: engine.Use(
		func(engine.Env) (engine.Batcher, error) {
			return enginetest.New(t, engine.Batchers, `{"batch": {"size": 1000, "timeout": "1h"}}`), nil
		})})
}

func groups(_ *testing.T, p *engine.Pipeline) {
	p.Processors = engine.Steps{engine.StepSpec{Name: "group", Use: engine.Use(func(engine.Env) (engine.Processor, error) {
		return engine.Block{Group: &engine.GroupConfig{Size: 1000, Timeout: time.Hour}}, nil
	})}}
}

// finite is an input that ends.
type finite struct {
	*input
	left int
}

func (f *finite) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.left == 0 {
		return nil, engine.ErrEnd
	}
	a, err := f.input.Read(ctx, b)
	f.left -= b.Len()
	return a, err
}

func TestInputConforms(t *testing.T) {
	c := kafkatest.Start(t, kfake.SeedTopics(1, "conform"))
	payloads := enginetest.Awkward()
	for _, p := range payloads {
		c.Send(t, &kgo.Record{Topic: "conform", Value: []byte(p)})
	}
	c.Client.Close() // it may connect again, which the suite would take for the input's doing
	group := 0
	enginetest.Input(t, func(t *testing.T) engine.Input {
		cfg := config(c, "conform")
		group++
		cfg.Group = fmt.Sprintf("c%d", group)
		in, err := newInput(cfg, engine.Env{Log: slog.New(slog.DiscardHandler), Instances: 1, MaxReplay: 1000,
			MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return &finite{input: in.(*input), left: len(payloads)}
	}, payloads...)
}
