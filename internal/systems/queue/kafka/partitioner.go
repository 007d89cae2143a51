package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// AnyPartition is the partition of a record for which the partitioner chooses one.
const AnyPartition = -1

// Partitioner returns a partitioner that respects the partition of a record. For other records it works like the Java client: it
// uses the murmur2 hash of the key, or without a key, one partition until a batch is full.
func Partitioner() kgo.Partitioner {
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

type partitioner struct{ kgo.Partitioner }

// ForTopic implements [kgo.Partitioner].
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

// RequiresConsistency reports whether a record must go to its partition even while that has no leader.
func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != AnyPartition || t.TopicPartitioner.RequiresConsistency(r)
}

// Partition returns the partition of the record, or the one for its key. If the topic does not have the record's partition, the
// record fails: see [MissingPartition].
func (t topicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition == AnyPartition:
		return t.TopicPartitioner.Partition(r, n)
	case int(r.Partition) >= n:
		r.Partition = AnyPartition - 1 - r.Partition
	}
	return int(r.Partition)
}

// MissingPartition returns the partition of a record that has failed because its topic does not have that partition.
func MissingPartition(r *kgo.Record) (partition int32, ok bool) {
	return AnyPartition - 1 - r.Partition, r.Partition < AnyPartition
}

// PartitionByBackup is like Partition, but takes the number of waiting records into account.
func (t topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition != AnyPartition || t.backup == nil {
		return t.Partition(r, n)
	}
	return t.backup.PartitionByBackup(r, n, backup)
}

// OnNewBatch implements [kgo.TopicPartitionerOnNewBatch].
func (t topicPartitioner) OnNewBatch() {
	if t.onNew != nil {
		t.onNew.OnNewBatch()
	}
}
