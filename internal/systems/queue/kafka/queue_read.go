package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// The handle of a message consists of partition and offset, so the reader need not remember messages.
	offsetBits    = 48
	mostOffset    = 1<<offsetBits - 1
	mostPartition = 1<<(64-offsetBits) - 1

	mostGaps    = 10_000           // spans of a partition up to which offsets without records are remembered
	pollTimeout = 20 * time.Second // longer than the client waits for a broker that does not answer
)

// Reader reads the records that a topic has now. It does not read records that arrive later, since they may never end.
func (s *server) Reader(ctx context.Context, topic string) (queue.Reader, error) {
	if err := s.checkUnused(ctx); err != nil {
		return nil, err
	}
	partitions, err := s.lookUp(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &reader{server: s, topic: topic, partitions: partitions, next: map[int32]int64{}}
	from := map[int32]kgo.Offset{}
	for id, p := range partitions {
		if p.left(p.stable) == 0 {
			continue
		}
		if id > mostPartition || p.end > mostOffset {
			return nil, engine.Errorf(engine.Permanent, "partition %d of topic %s, which ends at offset %d, is beyond what flowd queue can read",
				id, topic, p.end)
		}
		from[id], r.next[id] = kgo.NewOffset().At(p.at), p.at
	}
	r.client, err = s.connect.Client(slog.New(slog.DiscardHandler), "flowd queue",
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20),
		kgo.MaxConcurrentFetches(2), kgo.FetchMaxWait(time.Second))
	if err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	*server
	client     *Client
	topic      string
	partitions map[int32]*partition
	next       map[int32]int64 // next offset of each partition that is not read to its end
}

// Read waits for the first records only.
func (r *reader) Read(ctx context.Context, most int) ([]queue.Message, error) {
	for len(r.next) > 0 {
		all, err := r.poll(ctx, most)
		if len(all) > 0 || err != nil {
			return all, err
		}
	}
	return nil, engine.ErrEnd
}

// poll returns the records of one fetch. There may be none, because they are done or are control records.
func (r *reader) poll(ctx context.Context, most int) (all []queue.Message, err error) {
	asked, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetches := r.client.PollRecords(asked, most)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil {
			err = p.Err
		}
		if len(p.Records) > 0 {
			all = r.appendNew(all, p.Partition, p.Records)
		}
	})
	switch {
	case len(all) > 0 || err == nil:
		return all, nil // a permanent error comes again
	case errors.Is(err, context.DeadlineExceeded):
		return nil, r.checkSilence(ctx)
	}
	return nil, Explain(err, "read topic "+r.topic)
}

// appendNew appends the records of a partition that are not done.
func (r *reader) appendNew(all []queue.Message, id int32, records []*kgo.Record) []queue.Message {
	next, reads := r.next[id]
	if !reads {
		return all
	}
	p := r.partitions[id]
	source := RecordsOf(r.topic, id, make([]*kgo.Record, 0, len(records)))
	for _, rec := range records {
		if rec.Offset >= p.stable {
			break
		}
		p.addGap(next, rec.Offset)
		next = rec.Offset + 1
		switch {
		case rec.Attrs.IsControl():
			p.addGap(rec.Offset, next)
		case !p.isDone(rec.Offset):
			source.All = append(source.All, rec)
			all = append(all, queue.Message{Payload: rec.Value, Meta: source.Meta(len(source.All) - 1).Map(),
				Ref: uint64(id)<<offsetBits | uint64(rec.Offset), Raw: rec})
		}
	}
	r.next[id] = next
	if last := records[len(records)-1].Offset; last >= p.stable-1 {
		p.addGap(next, p.stable)
		delete(r.next, id)
		r.client.PauseFetchPartitions(map[string][]int32{r.topic: {id}})
	}
	return all
}

// addGap counts offsets without a record as done: compaction has removed the records, or their transaction was aborted. Since gaps
// only save reading again, it ignores them when there are many spans.
func (p *partition) addGap(from, to int64) {
	if len(p.spans) < mostGaps {
		p.add(from, to)
	}
}

// checkSilence returns an error if the brokers are silent because of a failure. Otherwise, it ends reading: compaction has removed the
// last records of the partitions.
func (r *reader) checkSilence(ctx context.Context) error {
	if err := r.client.Reach(ctx); err != nil {
		return err
	}
	if _, err := r.lookUp(ctx, r.topic); err != nil {
		return err
	}
	clear(r.next)
	return nil
}

// Done commits offsets of the group. Offsets that are done after others that are not are stored as metadata of the commit.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	touched := map[int32]*partition{}
	for _, ref := range refs {
		id, offset := int32(ref>>offsetBits), int64(ref&mostOffset)
		p := r.partitions[id]
		if p == nil {
			return fmt.Errorf("a handle names partition %d, which is not read", id)
		}
		p.add(offset, offset+1)
		touched[id] = p
	}
	if err := r.checkUnmoved(ctx, touched); err != nil {
		return err
	}
	return r.commit(ctx, touched)
}

// checkUnmoved returns an error if another command has committed offsets of the group, since it processes the same records.
func (r *reader) checkUnmoved(ctx context.Context, touched map[int32]*partition) error {
	now, err := r.server.committed(ctx)
	if err != nil {
		return err
	}
	for id, p := range touched {
		o, ok := now.Lookup(r.topic, id)
		if !ok {
			o.At = -1
		}
		if o.At != p.committed.At || max(o.At, 0) > 0 && o.Metadata != p.committed.Metadata {
			return engine.Errorf(engine.Permanent, "another command has committed offsets of group %s in topic %s "+
				"meanwhile (run one at a time, or name another group in the address, ?group=NAME)", r.group, r.topic)
		}
	}
	return nil
}

func (r *reader) commit(ctx context.Context, touched map[int32]*partition) error {
	to, incomplete := kadm.Offsets{}, false
	for id, p := range touched {
		text, complete := p.encode()
		to.Add(kadm.Offset{Topic: r.topic, Partition: id, At: p.at, LeaderEpoch: -1, Metadata: text})
		incomplete = incomplete || !complete
	}
	answers, err := r.admin.CommitOffsets(ctx, r.group, to)
	if err == nil {
		err = answers.Error()
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) {
		return engine.Errorf(engine.Permanent, "the group %s has members now: only they may commit offsets "+
			"(stop them, or name another group in the address, ?group=NAME)", r.group)
	}
	if err != nil {
		return Explain(err, "commit the offsets of group "+r.group)
	}
	for id, p := range touched {
		p.committed, _ = to.Lookup(r.topic, id)
	}
	if incomplete {
		return fmt.Errorf("too many messages of topic %s have failed: some that were successful can't be recorded, "+
			"and will be read again", r.topic)
	}
	return nil
}

// Return does nothing: the next reader reads again what is not done.
func (r *reader) Return(context.Context, []uint64) error { return nil }

// Close closes the connections of the reader.
func (r *reader) Close() error {
	r.client.Close()
	return nil
}
