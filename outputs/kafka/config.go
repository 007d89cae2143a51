// Package kafka writes messages to topics of Kafka. Start at [output.Write]. compose.go makes records, sending.go sends them, and
// apart.go finds those that a broker refuses.
package kafka

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures the output.
type Config struct {
	kafka.Connect `yaml:",inline"`
	Topic         expr.Template             `yaml:"topic" check:"required" doc:"Topic to write to."`
	Key           expr.Expr                 `yaml:"key" doc:"Key of the record; equal keys go to the same partition. By default the key with which the message was read from Kafka; null means no key."`
	Partition     expr.Expr                 `yaml:"partition" doc:"Number of the partition. By default, the key decides, as with the Java client; without a key, one partition is filled after another."`
	Timestamp     expr.Expr                 `yaml:"timestamp" doc:"Time of the record: a time, or a number of milliseconds since 1970; by default now."`
	Headers       schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name, in addition to those from metadata."`
	Acks          string                    `yaml:"acks" check:"oneof=all|leader" doc:"Who must have a record before it counts as delivered: all in-sync replicas, or only the leader, which may lose it when it fails."`
	Compression   string                    `yaml:"compression" check:"oneof=none|gzip|snappy|lz4|zstd" doc:"How batches are compressed."`
	MaxBytes      schema.Size               `yaml:"max_bytes" check:"min=1KiB,max=100MiB" doc:"Maximum bytes in a batch of records, and so in one record, before compression. Must not exceed max.message.bytes of the topic."`
	Declare       *declare                  `yaml:"declare" doc:"Create the topic if it does not exist. Without this, it must exist, even if brokers would create it. An existing topic is not changed."`
}

type declare struct {
	Partitions  int                `yaml:"partitions" check:"min=1,max=100000" doc:"Number of partitions; the brokers choose by default."`
	Replication int                `yaml:"replication" check:"min=1,max=100" doc:"Number of replicas of each partition; the brokers choose by default."`
	Config      schema.Map[string] `yaml:"config" doc:"Settings of the topic, such as retention.ms or cleanup.policy."`
}

var codecs = map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if topic, constant := c.Topic.Const(); constant {
		if err := kafka.CheckTopic(topic); err != nil {
			report("topic", err.Error(), "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens")
		}
	}
	for name := range c.Headers.All() {
		if name == "" {
			report("headers", "a header has no name", "write one")
		}
	}
}

// Traits names the cluster of the transactions in which the output can write.
func (c Config) Traits() engine.Traits { return engine.Traits{Transacts: c.Cluster()} }

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["topics"] = "write `topic`"
	words["partitioner"] = "remove it: the key decides, as with the Java client, unless `partition` does"
	words["idempotent_write"] = "remove it: writes are always idempotent"
	words["max_message_bytes"] = "write `max_bytes`"
	words["linger"] = "remove it: a write sends all that waits, and a batcher's `timeout` waits for more"
	words["metadata"] = "remove it: metadata leaves as headers; a step `meta` changes it"
	words["static_headers"] = "write `headers`"
	words["batching"] = "write a batcher: see `batchers`"
	delete(words, "topic")
	return words
}

const about = `
Writes records to Kafka topics, and waits until all in-sync replicas have them.

Writes are idempotent: the client's own resends leave no duplicates. A write sends its
whole batch at once; the records for a partition stay in order. The partitioner is that
of the Java client. A record that is too large, or that the topic refuses, fails alone
(class rejected). If no broker can be reached, permissions are missing, or the only
topic does not exist, the output is held and nothing is lost.

Headers come from metadata: what steps have set, and the headers that the message
arrived with; a list becomes one header for each value. Dead letters keep their key, and
have error_* and the origin of the message: original_topic, original_partition,
original_offset and original_timestamp. An empty payload is written as an empty value. It
is written as a tombstone, which deletes its key in a compacted topic, only if
meta("tombstone") is true, as it is of a tombstone that was read. A step "meta" sets it.

    outputs:
      orders: {kafka: {brokers: "localhost:9092", topic: "orders-$(country)", key: customer.id}}
`

func init() {
	engine.Register(engine.Outputs, "kafka", about, Config{Connect: kafka.Defaults, Acks: "all", Compression: "snappy",
		MaxBytes: 1_000_000}, newOutput)
}

// options returns the options of the producing client.
func (c *Config) options() []kgo.Opt {
	opts := append(c.producing(), kgo.AllowIdempotentProduceCancellation())
	if c.Acks == "leader" {
		return append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	return append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
}

// producing returns the options of any client that produces, with transactions or without.
func (c *Config) producing() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerBatchCompression(codecs[c.Compression], kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(c.MaxBytes)), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kafka.Partitioner()), kgo.UnknownTopicRetries(4),
		kgo.MetadataMaxAge(time.Minute), kgo.MetadataMinAge(500 * time.Millisecond)}
}
