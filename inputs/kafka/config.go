// Package kafka reads topics of Kafka. Start at [input.Read]. partition.go tracks which messages of a partition are settled, and
// group.go handles partitions that move.
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
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures the input.
type Config struct {
	kafka.Connect    `yaml:",inline"`
	Topics           engine.Names  `yaml:"topics" check:"required" doc:"Topics to read, by name or by pattern: * matches any text, ? one character, [a-z] one of these. Topics that match later are read, too."`
	Group            string        `yaml:"group" doc:"Consumer group: its members share the partitions, and it remembers what is settled. Without one, this input reads all partitions, and begins at start each time."`
	Partitions       []int         `yaml:"partitions" doc:"Partitions of each topic to read, if there is no group; all by default."`
	Start            string        `yaml:"start" doc:"Where to begin in a partition for which the group has committed nothing: earliest, latest, a time such as 2026-01-31T12:00:00Z, or an interval before now, such as 2h. Partitions that are added while flowd runs are read from their beginning."`
	OutOfRange       string        `yaml:"out_of_range" check:"oneof=earliest|latest|fail" doc:"What to do if messages were deleted before they were read: continue with the earliest remaining message or with the latest, or fail. The log says how many are missing."`
	Isolation        string        `yaml:"isolation" check:"oneof=read_committed|read_uncommitted" doc:"read_committed waits for transactions to end, and skips those that were aborted."`
	Protocol         string        `yaml:"protocol" check:"oneof=classic|consumer" doc:"Who assigns partitions: classic, a member of the group (cooperative and sticky); consumer, the brokers (KIP-848, from Kafka 4.0). All members must use the same protocol."`
	InstanceID       string        `yaml:"instance_id" doc:"Name of this member, so that a restart within session_timeout moves no partitions. Each member needs its own; instances of one input append -0, -1 and so on."`
	Rack             string        `yaml:"rack" doc:"Rack of this process, as the brokers name it (broker.rack), to read from the nearest replica."`
	SessionTimeout   time.Duration `yaml:"session_timeout" check:"min=1s,max=30m" doc:"Time without a heartbeat after which a member loses its partitions; with protocol consumer, the brokers set it."`
	RebalanceTimeout time.Duration `yaml:"rebalance_timeout" check:"min=1s,max=30m" doc:"Time that members have to give up partitions."`
	RevokeTimeout    time.Duration `yaml:"revoke_timeout" check:"min=0s,max=10m" doc:"Time that messages in flight have to finish when their partition moves to another member. Those that have not finished by then are read again there."`
	CommitInterval   time.Duration `yaml:"commit_interval" check:"min=10ms,max=10m" doc:"How often settled messages are committed. If the process is killed, those settled since are read again."`
	Fetch            fetch         `yaml:"fetch" doc:"How much to fetch at once."`
	Transaction      transaction   `yaml:"transaction" doc:"Size of transactions, with engine.exactly_once."`
}

type fetch struct {
	MaxBytes          schema.Size   `yaml:"max_bytes" check:"min=1KiB,max=1GiB" doc:"Maximum bytes in one response from a broker, as sent (possibly compressed). By default, as many as take a quarter of engine.max_in_flight.bytes in memory, and at most 8MiB."`
	MaxPartitionBytes schema.Size   `yaml:"max_partition_bytes" check:"min=1KiB,max=1GiB" doc:"Maximum bytes of one partition in a response; fewer if many partitions are read. A larger batch of records arrives alone."`
	MinBytes          schema.Size   `yaml:"min_bytes" check:"min=1,max=1GiB" doc:"A broker responds once it has this many bytes, or when max_wait is over."`
	MaxWait           time.Duration `yaml:"max_wait" check:"min=1ms,max=1m" doc:"How long a broker waits for min_bytes."`
}

type transaction struct {
	Size     int           `yaml:"size" check:"min=1,max=1000000" doc:"Maximum number of messages in a transaction."`
	Interval time.Duration `yaml:"interval" check:"min=1ms,max=10m" doc:"Time after which a transaction with fewer messages ends. It delays the messages for readers of committed ones by as much."`
	Timeout  time.Duration `yaml:"timeout" check:"min=1s,max=15m" doc:"Time after which an unfinished transaction is aborted, and its messages are read again; brokers allow 15m."`
	ID       string        `yaml:"id" doc:"Transactional ID, which the user must be allowed to write; by default instance_id, or a new name for each run. No two processes may use the same."`
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
		report("partitions", "can't be chosen in a group, which assigns partitions to its members", "remove `group` or `partitions`")
	case slices.ContainsFunc(c.Partitions, func(p int) bool { return p < 0 || p > 1<<20 }):
		report("partitions", "has a number that is not valid for a partition", "count from 0")
	case len(c.Partitions) > 0 && c.pattern():
		report("partitions", "can't be chosen if topics are given by a pattern", "name the topics")
	case c.InstanceID != "" && c.Group == "":
		report("instance_id", "has no effect without a group", "set `group`, or remove it")
	case c.Transaction.Interval >= c.Transaction.Timeout:
		report("transaction.interval", "is not less than the timeout: every transaction would be aborted", "make it shorter")
	case c.RevokeTimeout >= c.RebalanceTimeout:
		report("revoke_timeout", "is not less than rebalance_timeout: the group would remove this member",
			"make it shorter, or rebalance_timeout longer")
	}
	if c.Fetch.MaxBytes > 0 && c.Fetch.MaxPartitionBytes > c.Fetch.MaxBytes {
		report("fetch.max_partition_bytes", "is more than max_bytes", "make it smaller, or max_bytes larger")
	}
}

// checkTopic returns what is wrong with a topic's name or a pattern, or "".
func checkTopic(t string) string {
	if t == "" {
		return "is empty"
	}
	if isPattern(t) {
		_, err := path.Match(t, "")
		if _, wrong := regexp.Compile(expression(t)); err != nil || wrong != nil { // such as [z-a]
			return "is not a valid pattern"
		}
		return ""
	}
	switch {
	case len(t) > 249:
		return "is longer than 249 characters"
	case kafka.CheckTopic(t) != nil:
		return "is not a valid topic name"
	}
	return ""
}

func isPattern(t string) bool { return strings.ContainsAny(t, `*?[\`) }

// pattern reports whether a topic is named by a pattern.
func (c *Config) pattern() bool { return slices.ContainsFunc(c.Topics, isPattern) }

// offset returns where to begin.
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
	return kgo.Offset{}, fmt.Errorf("%q is not a position to begin at", c.Start)
}

// Traits says that each partition keeps a position, in the order of its records.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{TakesBack: engine.TakesPosition, Ahead: true, OrderBy: `meta("key")`}
	if c.Group != "" {
		t.Transacts = c.Cluster()
	}
	return t
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string { return c.Connect.Words() }

const about = `
Reads Kafka topics, as a member of a consumer group or alone.

Each partition is committed up to the first message that is not settled. If the oldest
message of a partition waits (for a retry, or for an output that is down), the
input reads at most engine.max_replay ahead of it. Then the partition waits, and the
others continue. A restart repeats no more than that. A message that fails and is not
dead-lettered stops the pipeline, since a single message can't be returned to a
partition.

The messages of a partition are processed in parallel. To keep their order, write
order_by: meta("key"), or any other field: messages with equal keys are then written in
the order of their partition.

When a partition moves to another member, its messages in flight have revoke_timeout to
finish: open batches, windows and groups are flushed at once. They are committed before
the other member begins. Those that have not finished are abandoned, counted, and read
again there. To scale a pipeline, run it again with the same group.

For engine.exactly_once, see the kafka guide: writes to Kafka and settled messages are
committed together, in transactions.

Metadata: topic, partition, offset, key, timestamp (a time), tombstone (true if the
record has no value), headers (a list of {name, value}, as they were sent), and each
header by its name; several headers with the same name become a list. A header with one
of the names above becomes header_NAME. Outputs send headers on.

    inputs:
      orders: {kafka: {brokers: "localhost:9092", topics: orders, group: billing}}
    engine: {order_by: 'meta("key")'}
`

func init() { engine.Register(engine.Inputs, "kafka", about, defaults, newInput) }

// partitionBytes returns the limit on the bytes of one partition in a response. A byte needs ratio bytes of memory. The limit is
// shared among partitions, since a message in flight keeps its whole batch of records in memory.
func (c *Config) partitionBytes(inFlight int, ratio float64, partitions int) int32 {
	share := int(float64(inFlight/4/max(1, partitions)) / ratio)
	return int32(min(int(c.Fetch.MaxPartitionBytes), max(share, minFetch), int(c.maxBytes(inFlight, ratio))))
}

// maxBytes returns the limit on the bytes in one response. A byte needs ratio bytes of memory.
func (c *Config) maxBytes(inFlight int, ratio float64) int32 {
	share := int(float64(min(inFlight/4, 8<<20)) / ratio)
	return int32(cmp.Or(int(c.Fetch.MaxBytes), max(share, minFetch)))
}

// minFetch is the smallest limit, in bytes: a smaller response is not worth a request.
const minFetch = 32 << 10
