package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// AnyPartition as a record's partition leaves the choice to the partitioner.
const AnyPartition = -1

// Partitioner is that of the Java client (murmur2 of the key, otherwise one partition until a batch is full), for
// records without a partition of their own.
func Partitioner() kgo.Partitioner {
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

type partitioner struct{ kgo.Partitioner }

// ForTopic wraps what the client's partitioner has for a topic.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	inner := p.Partitioner.ForTopic(topic)
	t := topicPartitioner{TopicPartitioner: inner}
	t.onNew, _ = inner.(kgo.TopicPartitionerOnNewBatch)
	t.backup, _ = inner.(kgo.TopicBackupPartitioner)
	return t
}

type topicPartitioner struct {
	kgo.TopicPartitioner
	onNew  kgo.TopicPartitionerOnNewBatch
	backup kgo.TopicBackupPartitioner
}

// RequiresConsistency says that a record must go to its partition even while that has no leader.
func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != AnyPartition || t.TopicPartitioner.RequiresConsistency(r)
}

// Partition is that of the record itself, or the one that its key gives. With one that the topic does not have, the
// record fails: see [Missing].
func (t topicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition == AnyPartition:
		return t.TopicPartitioner.Partition(r, n)
	case int(r.Partition) >= n:
		r.Partition = AnyPartition - 1 - r.Partition
	}
	return int(r.Partition)
}

// Missing is the partition for which a record was meant that has failed since its topic does not have it.
func Missing(r *kgo.Record) (partition int32, ok bool) {
	return AnyPartition - 1 - r.Partition, r.Partition < AnyPartition
}

// PartitionByBackup is Partition by how much waits for each.
func (t topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition != AnyPartition || t.backup == nil {
		return t.Partition(r, n)
	}
	return t.backup.PartitionByBackup(r, n, backup)
}

// OnNewBatch is told when a batch is full.
func (t topicPartitioner) OnNewBatch() {
	if t.onNew != nil {
		t.onNew.OnNewBatch()
	}
}
