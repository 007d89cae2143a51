package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaRows use a cluster in a separate process, over TCP. A run ends when the consumer group has committed all offsets.
var kafkaRows = []row{
	{
		name: "kafka-drop", does: "topic → drop, with commits", data: orders, fixed: 1_000_000, run: runKafkaDrain, needs: kafka,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/kafka-drop.flowd.yaml", vars: four},
			{name: "franz-go", command: "$self baseline kafka-drop $broker $from $group", vars: four, limit: true},
		},
		goals: []goal{{than: "franz-go", atLeast: 0.85}},
	},
	{
		name: "kafka-relay", does: "topic → topic, acks from all replicas, with commits", data: orders, fixed: 1_000_000, run: runKafkaForward,
		needs: kafka,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/kafka-relay.flowd.yaml", vars: four},
			{name: "franz-go", command: "$self baseline kafka-relay $broker $from $group $to", vars: four, limit: true},
		},
		goals: []goal{{than: "franz-go", atLeast: 0.85}},
	},
	{
		name: "kafka-transactions", does: "topic → topic, in transactions of 1,000", data: orders, fixed: 200_000,
		run: runKafkaForward, needs: kafka,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/kafka-transactions.flowd.yaml", vars: four},
			{name: "franz-go", command: "$self baseline kafka-transactions $broker $from $group $to", vars: four, limit: true},
		},
		goals: []goal{{than: "franz-go", atLeast: 0.85}},
	},
	{
		name: "kafka-avro", does: "topic with Avro → filter, set → topic with JSON", data: avroOrders, fixed: 1_000_000,
		run: runKafkaForward, needs: kafka,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/kafka-avro.flowd.yaml", vars: four},
			{name: "franz-go", command: "$self baseline kafka-avro $broker $from $group $to $conf/order.avsc", vars: four,
				limit: true},
		},
		goals: []goal{{than: "franz-go", atLeast: 0.85}},
	},
	{
		name: "memory-kafka", does: "topic → drop: peak memory with 200 partitions, compared with 4", metric: peak,
		data: orders, fixed: 1_000_000, run: runKafkaDrain, needs: kafka,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/kafka-drop.flowd.yaml", vars: map[string]string{"partitions": "200"}},
			{name: "4 partitions", command: "$flowd -c $conf/kafka-drop.flowd.yaml", vars: four, limit: true},
		},
		goals: []goal{{than: "4 partitions", atLeast: 0.8}, {atMost: 200}},
	},
}

var four = map[string]string{"partitions": "4"}

// orders have about 250 bytes.
var orders = data{"orders", func(to []byte, i int) []byte {
	to = append(to, `{"id":`...)
	to = strconv.AppendInt(to, int64(i), 10)
	to = append(to, `,"customer":{"number":`...)
	to = strconv.AppendInt(to, int64(i%997), 10)
	to = append(to, `,"name":"Customer `...)
	to = strconv.AppendInt(to, int64(i%997), 10)
	to = append(to, `","plan":"enterprise"},"path":"/api/v1/orders/`...)
	to = strconv.AppendInt(to, int64(i%9973), 10)
	return append(to, `","tags":["checkout","web","eu-west"],"agent":"Mozilla/5.0 (X11; Linux x86_64; rv:115.0) `+
		`Gecko/20100101","trace":"4bf92f3577b34da6a3ce929d0e0e4736"}`...)
}}

// avroOrders are orders in Avro's binary encoding.
var avroOrders = data{"avro-orders", func(to []byte, i int) []byte {
	text := func(s string) {
		to = binary.AppendVarint(to, int64(len(s)))
		to = append(to, s...)
	}
	to = binary.AppendVarint(to, int64(i))
	to = binary.AppendVarint(to, int64(i%997))
	text("Customer " + strconv.Itoa(i%997))
	text("enterprise")
	text("/api/v1/orders/" + strconv.Itoa(i%9973))
	to = binary.AppendVarint(to, 3)
	text("checkout")
	text("web")
	text("eu-west")
	to = binary.AppendVarint(to, 0)
	text("Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101")
	text("4bf92f3577b34da6a3ce929d0e0e4736")
	return to
}}

// expectedRecord returns the record that message i should become, and whether it should arrive.
func expectedRecord(r *row, i int) (line []byte, kept bool) {
	if r.data.name != avroOrders.name {
		return r.data.line(nil, i), true
	}
	line = orders.line(nil, i)
	return append(line[:len(line)-1], `,"units":3}`...), i%997%10 != 0
}

// cluster is a Kafka cluster in a separate process.
type cluster struct {
	process *exec.Cmd
	alive   io.Closer // its stdin: the process exits when this is closed, or when this program exits
	broker  string    // address of one of three brokers
	client  *kgo.Client
	admin   *kadm.Client
	serial  int             // makes names of groups and topics unique
	filled  map[string]bool // topics that several runs read
}

// kafka starts the cluster, which runs until the world is closed.
func kafka(w *world) error {
	if w.cluster != nil {
		return nil
	}
	c := &cluster{process: exec.Command(w.vars["self"], "baseline", "kafka-broker"), filled: map[string]bool{}}
	alive, err := c.process.StdinPipe()
	if err != nil {
		return err
	}
	c.alive = alive
	says, err := c.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.process.Start(); err != nil {
		return err
	}
	w.cluster = c
	if c.broker, err = bufio.NewReader(says).ReadString('\n'); err != nil {
		return fmt.Errorf("the cluster did not print its address: %w", err)
	}
	c.broker = strings.TrimSpace(c.broker)
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.broker), kgo.MaxBufferedRecords(1<<16),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	c.admin = kadm.NewClient(c.client)
	return nil
}

func (c *cluster) close() error {
	if c.client != nil {
		c.client.Close()
	}
	return errors.Join(c.alive.Close(), c.process.Wait())
}

// topic creates a topic.
func (c *cluster) topic(ctx context.Context, name string, partitions int) error {
	answer, err := c.admin.CreateTopic(ctx, int32(partitions), 1, nil, name)
	return errors.Join(err, answer.Err)
}

// filledTopic returns a topic with n messages. It fills the topic on the first call.
func (c *cluster) filledTopic(ctx context.Context, d data, n, partitions int) (name string, err error) {
	name = fmt.Sprintf("%s-%d-%d", d.name, n, partitions)
	if c.filled[name] {
		return name, nil
	}
	if err := c.topic(ctx, name, partitions); err != nil {
		return name, err
	}
	failed := make(chan error, 1)
	for i := range n {
		r := &kgo.Record{Topic: name, Partition: int32(i % partitions), Key: strconv.AppendInt(nil, int64(i%997), 10),
			Value: d.line(nil, i)}
		c.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	err = c.client.Flush(ctx)
	select {
	case broken := <-failed:
		return name, broken
	default:
	}
	c.filled[name] = err == nil
	return name, err
}

// runKafkaDrain is the runner of rows that read a topic.
func runKafkaDrain(w *world, r *row, c *contestant, n int, _ bool) (sample, error) {
	s, used, err := w.consumeTopic(r, c, n, "")
	if err != nil {
		return s, err
	}
	return s, counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// runKafkaForward is the runner of rows that copy a topic to another one.
func runKafkaForward(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	w.cluster.serial++
	to := fmt.Sprintf("to-%d", w.cluster.serial)
	if err := w.cluster.topic(w.ctx, to, 4); err != nil {
		return s, err
	}
	defer w.cluster.admin.DeleteTopic(w.ctx, to) //nolint:errcheck // the cluster is closed anyway
	if s, _, err = w.consumeTopic(r, c, n, to); err != nil {
		return s, err
	}
	return s, w.cluster.checkTopic(w.ctx, to, r, n, all)
}

// consumeTopic runs a contestant until its group has committed n messages. It measures the time from the first commit that
// it sees to the last.
func (w *world) consumeTopic(r *row, c *contestant, n int, to string) (s sample, used usage, err error) {
	partitions, err := strconv.Atoi(c.vars["partitions"])
	if err != nil {
		return s, used, err
	}
	from, err := w.cluster.filledTopic(w.ctx, r.data, n, partitions)
	if err != nil {
		return s, used, err
	}
	w.cluster.serial++
	group := fmt.Sprintf("group-%d", w.cluster.serial)
	p, err := w.start(c.command, map[string]string{"broker": w.cluster.broker, "from": from, "to": to, "group": group,
		"committing": committing.String(), "conf": w.vars["conf"]}, nil, nil)
	if err != nil {
		return s, used, err
	}
	defer p.kill()
	first, had := p.began, 0
	err = p.waitUntil(func() bool {
		done := w.cluster.committed(w.ctx, group)
		if had == 0 && done > 0 && done < n/2 {
			first, had = time.Now(), done
		}
		return done >= n
	}, "does not commit all messages")
	took := max(time.Since(first), time.Millisecond)
	if err != nil {
		return s, used, err
	}
	if used, err = p.stop(); err != nil {
		return s, used, err
	}
	return used.sample(r.data, n, took*time.Duration(n)/time.Duration(n-had)), used, nil
}

// committed returns how many messages a group has committed. It returns 0 if the group does not exist yet.
func (c *cluster) committed(ctx context.Context, group string) (n int) {
	all, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0
	}
	all.Each(func(o kadm.OffsetResponse) { n += int(max(o.At, 0)) })
	return n
}

// checkTopic checks that a topic has the expected records of n messages, without duplicates. It compares every record if
// all is set, otherwise a sample.
func (c *cluster) checkTopic(ctx context.Context, topic string, r *row, n int, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker), kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer client.Close()
	stride := max(n/sampled, 1)
	if all {
		stride = 1
	}
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	left := 0 // records, including the control records of transactions
	ends.Each(func(o kadm.ListedOffset) { left += int(o.Offset) })
	seen, count, want := make(ids, n), 0, 0
	for i := range n {
		if _, kept := expectedRecord(r, i); kept {
			want++
		}
	}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("read %d messages from topic %s, %d are left: %w", count, topic, left, err)
		}
		for _, m := range fetches.Records() {
			if left--; m.Attrs.IsControl() {
				continue
			}
			count++
			id, err := seen.mark(m.Value)
			if err != nil {
				return err
			}
			if line, kept := expectedRecord(r, id); !kept ||
				count%stride == 0 && (string(m.Value) != string(line) || string(m.Key) != strconv.Itoa(id%997)) {
				return fmt.Errorf("message %d is wrong: it has key %q and value %q", id, m.Key, m.Value)
			}
		}
	}
	if count != want {
		return fmt.Errorf("topic %s has %d messages, want %d", topic, count, want)
	}
	return nil
}
