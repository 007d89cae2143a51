// Package kafka reads topics of Kafka. Start at [input.Read]; partitions and what is settled of them are in
// partition.go, what happens when they move in group.go.
package kafka

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/queue/kafka"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures the input.
type Config struct {
	kafka.Connect    `yaml:",inline"`
	Topics           engine.Names  `yaml:"topics" check:"required" doc:"Topics to read, by name or by pattern: * is any text, ? one character, [a-z] one of these. What comes to match later is read, too."`
	Group            string        `yaml:"group" doc:"Consumer group: its members share the partitions, and it remembers what is settled. Without one, this input reads all partitions, from start each time flowd starts."`
	Partitions       []int         `yaml:"partitions" doc:"Partitions to read of each topic, without a group; all by default."`
	Start            string        `yaml:"start" doc:"Where to begin in a partition in which the group has settled nothing: earliest, latest, a time such as 2026-01-31T12:00:00Z, or an interval such as 2h before now. Partitions that are added while flowd runs are read from their beginning."`
	OutOfRange       string        `yaml:"out_of_range" check:"oneof=earliest|latest|fail" doc:"What to do when messages were deleted before they were read: go on with the earliest that is left, or with the latest, or fail. How many are missing is logged."`
	Isolation        string        `yaml:"isolation" check:"oneof=read_committed|read_uncommitted" doc:"read_committed waits for transactions to end, and reads none that were aborted."`
	Protocol         string        `yaml:"protocol" check:"oneof=classic|consumer" doc:"How the group shares partitions: classic, cooperative and sticky, decided by a member; or consumer, decided by the brokers (KIP-848, from Kafka 4.0 on). All members need the same."`
	InstanceID       string        `yaml:"instance_id" doc:"Name of this member, so that a restart within session_timeout moves no partition. Each member needs its own; instances of one input get -0, -1 and so on."`
	Rack             string        `yaml:"rack" doc:"Where this process runs, as brokers name it (broker.rack): it reads from the nearest replica."`
	SessionTimeout   time.Duration `yaml:"session_timeout" check:"min=1s,max=30m" doc:"Time without a sign of life after which a member has lost its partitions; with protocol consumer the brokers decide."`
	RebalanceTimeout time.Duration `yaml:"rebalance_timeout" check:"min=1s,max=30m" doc:"Time that members have to give partitions up."`
	RevokeTimeout    time.Duration `yaml:"revoke_timeout" check:"min=0s,max=10m" doc:"Time that messages under way have to finish when their partition moves to another member. What is not finished by then is read again there."`
	CommitInterval   time.Duration `yaml:"commit_interval" check:"min=10ms,max=10m" doc:"How often what is settled is committed. A process that is killed repeats as much."`
	Fetch            fetch         `yaml:"fetch" doc:"How much is fetched at once."`
	Transaction      transaction   `yaml:"transaction" doc:"How much a transaction holds, with engine.exactly_once."`
}

type fetch struct {
	MaxBytes          schema.Size   `yaml:"max_bytes" check:"min=1KiB,max=1GiB" doc:"Bytes that a broker sends at most in one answer, compressed as they may be; by default as many as become a quarter of engine.max_in_flight.bytes in memory, at most 8MiB."`
	MaxPartitionBytes schema.Size   `yaml:"max_partition_bytes" check:"min=1KiB,max=1GiB" doc:"Bytes of one partition at most, fewer where many are read; a larger batch of records comes alone."`
	MinBytes          schema.Size   `yaml:"min_bytes" check:"min=1,max=1GiB" doc:"A broker waits until it has as much, or max_wait is over."`
	MaxWait           time.Duration `yaml:"max_wait" check:"min=1ms,max=1m" doc:"How long a broker waits for min_bytes."`
}

type transaction struct {
	Size     int           `yaml:"size" check:"min=1,max=1000000" doc:"Messages that are read in one transaction."`
	Interval time.Duration `yaml:"interval" check:"min=1ms,max=10m" doc:"Time after which a transaction ends that has fewer: readers of committed messages see them as much later."`
	Timeout  time.Duration `yaml:"timeout" check:"min=1s,max=15m" doc:"Time after which a transaction is aborted that has not ended, and its messages are read again; brokers allow 15m."`
	ID       string        `yaml:"id" doc:"Transactional id, which the user needs the right to write; by default instance_id, or a name of this run alone. No two processes may have the same."`
}

const (
	earliest = "earliest"
	latest   = "latest"
)

var defaults = Config{
	Connect: kafka.Defaults, Start: earliest, OutOfRange: earliest, Isolation: "read_committed", Protocol: "classic",
	SessionTimeout: 45 * time.Second, RebalanceTimeout: time.Minute, RevokeTimeout: 10 * time.Second,
	CommitInterval: time.Second,
	Fetch:          fetch{MaxPartitionBytes: 1 << 20, MinBytes: 1, MaxWait: 5 * time.Second},
	Transaction:    transaction{Size: 1000, Interval: 100 * time.Millisecond, Timeout: time.Minute},
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	for _, t := range c.Topics {
		if problem := checkTopic(t); problem != "" {
			report("topics", fmt.Sprintf("%q %s", t, problem), "write a topic's name, or a pattern such as orders-*")
		}
	}
	if len(c.Topics) == 0 {
		report("topics", "is empty", "name a topic")
	}
	if _, err := c.offset(time.Now()); err != nil {
		report("start", err.Error(),
			"write earliest, latest, a time such as 2026-01-31T12:00:00Z, or an interval such as 2h")
	}
	switch {
	case len(c.Partitions) > 0 && c.Group != "":
		report("partitions", "a group shares partitions among its members by itself", "remove `group` or `partitions`")
	case slices.ContainsFunc(c.Partitions, func(p int) bool { return p < 0 || p > 1<<20 }):
		report("partitions", "has a number that no partition has", "count from 0")
	case len(c.Partitions) > 0 && c.pattern():
		report("partitions", "can't be chosen of topics that are not known", "name the topics")
	case c.InstanceID != "" && c.Group == "":
		report("instance_id", "means nothing without a group", "set `group`, or remove it")
	case c.Transaction.Interval >= c.Transaction.Timeout:
		report("transaction.interval", "is not less than the timeout: every transaction would be aborted", "make it shorter")
	case c.RevokeTimeout >= c.RebalanceTimeout:
		report("revoke_timeout", "is not less than rebalance_timeout: the group would go on without this member",
			"make it shorter, or rebalance_timeout longer")
	}
	if c.Fetch.MaxBytes > 0 && c.Fetch.MaxPartitionBytes > c.Fetch.MaxBytes {
		report("fetch.max_partition_bytes", "is more than max_bytes", "make it smaller, or max_bytes larger")
	}
}

// checkTopic is what is wrong with the name of a topic, or a pattern; "" is nothing.
func checkTopic(t string) string {
	if t == "" {
		return "is empty"
	}
	if isPattern(t) {
		_, err := path.Match(t, "")
		if _, wrong := regexp.Compile(expression(t)); err != nil || wrong != nil { // such as [z-a]
			return "is not a pattern"
		}
		return ""
	}
	switch {
	case len(t) > 249:
		return "is longer than 249 characters"
	case kafka.CheckTopic(t) != nil:
		return "is not the name of a topic"
	}
	return ""
}

func isPattern(t string) bool { return strings.ContainsAny(t, `*?[\`) }

// pattern says whether a topic is named by a pattern.
func (c *Config) pattern() bool { return slices.ContainsFunc(c.Topics, isPattern) }

// offset is where to begin.
func (c *Config) offset(now time.Time) (kgo.Offset, error) {
	switch c.Start {
	case earliest:
		return kgo.NewOffset().AtStart(), nil
	case latest:
		return kgo.NewOffset().AtEnd(), nil
	}
	if at, err := time.Parse(time.RFC3339, c.Start); err == nil {
		return kgo.NewOffset().AfterMilli(at.UnixMilli()), nil
	}
	if d, err := time.ParseDuration(c.Start); err == nil && d > 0 {
		return kgo.NewOffset().AfterMilli(now.Add(-d).UnixMilli()), nil
	}
	return kgo.Offset{}, fmt.Errorf("%q is not a place to begin", c.Start)
}

// Traits says that each partition keeps a position, in the order of its records.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{TakesBack: engine.TakesPosition, Ahead: true, OrderBy: `meta("key")`}
	if c.Group != "" {
		t.Transacts = c.Cluster()
	}
	return t
}

// Words are what users of other systems write.
func (c *Config) Words() map[string]string { return c.Connect.Words() }

const about = `
Reads topics of Kafka, as a member of a consumer group or alone.

What is settled is committed, for each partition up to the first message that is not. A
partition whose oldest message waits (a retry, an output that does not work) is read ahead
by at most engine.max_replay; then it waits, and the others go on. A restart repeats no more
than that. Failures that no dead letter takes stop the pipeline, since a partition takes no
single message back.

Messages of one partition are worked on in parallel. To keep their order, write
order_by: meta("key"), or any field: messages with equal keys are then written in
the order of their partition.

When a partition moves to another member, what is under way of it has revoke_timeout to
finish: open batches, windows and groups leave at once. It is committed before the other
member begins; what is not finished is taken away, counted, and read again there. So a
pipeline scales by running it again with the same group.

With engine.exactly_once, see the guide kafka: what is written to Kafka and what is settled
becomes valid together, in transactions.

Metadata: topic, partition, offset, key, timestamp (a time), tombstone (true, where the
record has no value), headers (a list of {name, value}, as they were sent), and each header
by its name; of several with one name a list. Outputs pass headers on.

    inputs:
      orders: {kafka: {brokers: "localhost:9092", topics: orders, group: billing}}
    engine: {order_by: 'meta("key")'}
`

func init() { engine.Register(engine.Inputs, "kafka", about, defaults, newInput) }

// partitionBytes is how much a broker may send of one partition at once, of as many as are read, where each byte takes
// so many in memory: what is under way keeps the whole batch of records alive that it came with, of each partition.
func (c *Config) partitionBytes(inFlight int, times float64, partitions int) int32 {
	share := int(float64(inFlight/4/max(1, partitions)) / times)
	return int32(min(int(c.Fetch.MaxPartitionBytes), max(share, leastFetch), int(c.maxBytes(inFlight, times))))
}

// maxBytes is how much a broker may send at once, where each byte takes so many in memory.
func (c *Config) maxBytes(inFlight int, times float64) int32 {
	share := int(float64(min(inFlight/4, 8<<20)) / times)
	return int32(cmp.Or(int(c.Fetch.MaxBytes), max(share, leastFetch)))
}

// leastFetch is how many bytes are worth a request.
const leastFetch = 32 << 10
