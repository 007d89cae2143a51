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
	// A handle is the partition and the offset, so that nothing needs to be remembered of what is read.
	offsetBits    = 48
	mostOffset    = 1<<offsetBits - 1
	mostPartition = 1<<(64-offsetBits) - 1

	mostVoids = 10_000           // spans without records that are remembered of a partition
	quiet     = 20 * time.Second // longer than it takes until a broker that does not answer is given up
)

// Reader reads what is in a topic now, and not what arrives meanwhile: that may never end.
func (s *server) Reader(ctx context.Context, topic string) (queue.Reader, error) {
	if err := s.free(ctx); err != nil {
		return nil, err
	}
	places, err := s.place(ctx, topic)
	if err != nil {
		return nil, err
	}
	r := &reader{server: s, topic: topic, places: places, next: map[int32]int64{}}
	from := map[int32]kgo.Offset{}
	for id, p := range places {
		if p.left(p.stable) == 0 {
			continue
		}
		if id > mostPartition || p.end > mostOffset {
			return nil, engine.Errorf(engine.Permanent, "partition %d of topic %s, which ends at %d, is too much to read",
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
	client *Client
	topic  string
	places map[int32]*place
	next   map[int32]int64 // offsets from which partitions are read that are not at their end
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

// poll takes what is there, which may be nothing that counts.
func (r *reader) poll(ctx context.Context, most int) (all []queue.Message, err error) {
	asked, cancel := context.WithTimeout(ctx, quiet)
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
			all = r.take(all, p.Partition, p.Records)
		}
	})
	switch {
	case len(all) > 0 || err == nil:
		return all, nil // an error comes again
	case errors.Is(err, context.DeadlineExceeded):
		return nil, r.silence(ctx)
	}
	return nil, Explain(err, "read topic "+r.topic)
}

// take appends the records of a partition that are not done with.
func (r *reader) take(all []queue.Message, id int32, records []*kgo.Record) []queue.Message {
	next, reads := r.next[id]
	if !reads {
		return all
	}
	p := r.places[id]
	source := RecordsOf(r.topic, id, make([]*kgo.Record, 0, len(records)))
	for _, rec := range records {
		if rec.Offset >= p.stable {
			break
		}
		p.void(next, rec.Offset)
		next = rec.Offset + 1
		switch {
		case rec.Attrs.IsControl():
			p.void(rec.Offset, next)
		case !p.has(rec.Offset):
			source.All = append(source.All, rec)
			all = append(all, queue.Message{Payload: rec.Value, Meta: source.Meta(len(source.All) - 1).Map(),
				Ref: uint64(id)<<offsetBits | uint64(rec.Offset), Raw: rec})
		}
	}
	r.next[id] = next
	if last := records[len(records)-1].Offset; last >= p.stable-1 {
		p.void(next, p.stable)
		delete(r.next, id)
		r.client.PauseFetchPartitions(map[string][]int32{r.topic: {id}})
	}
	return all
}

// void notes offsets without a record: compaction has removed it, or a transaction was aborted. As these take nothing
// but memory, there is an end to it.
func (p *place) void(from, to int64) {
	if len(p.spans) < mostVoids {
		p.add(from, to)
	}
}

// silence is nil when partitions have nothing more, though their ends are farther: what was there is compacted.
func (r *reader) silence(ctx context.Context) error {
	if err := r.client.Reach(ctx); err != nil {
		return err
	}
	if _, err := r.place(ctx, r.topic); err != nil {
		return err
	}
	clear(r.next)
	return nil
}

// Done moves the position of the group. What is done with after a record that is not is noted beside the position.
func (r *reader) Done(ctx context.Context, refs []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	touched := map[int32]*place{}
	for _, ref := range refs {
		id, offset := int32(ref>>offsetBits), int64(ref&mostOffset)
		p := r.places[id]
		if p == nil {
			return fmt.Errorf("a handle names partition %d, which is not read", id)
		}
		p.add(offset, offset+1)
		touched[id] = p
	}
	if err := r.unmoved(ctx, touched); err != nil {
		return err
	}
	return r.commit(ctx, touched)
}

// unmoved is an error when another command has moved the position of the group: it moves the same records.
func (r *reader) unmoved(ctx context.Context, touched map[int32]*place) error {
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
			return engine.Errorf(engine.Permanent, "another command has moved the position of group %s in topic %s "+
				"meanwhile (run one at a time, or name another group in the address, ?group=NAME)", r.group, r.topic)
		}
	}
	return nil
}

func (r *reader) commit(ctx context.Context, touched map[int32]*place) error {
	to, cut := kadm.Offsets{}, false
	for id, p := range touched {
		text, whole := p.note()
		to.Add(kadm.Offset{Topic: r.topic, Partition: id, At: p.at, LeaderEpoch: -1, Metadata: text})
		cut = cut || !whole
	}
	answers, err := r.admin.CommitOffsets(ctx, r.group, to)
	if err == nil {
		err = answers.Error()
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) {
		return engine.Errorf(engine.Permanent, "the group %s has members now: only they may move its position "+
			"(stop them, or name another group in the address, ?group=NAME)", r.group)
	}
	if err != nil {
		return Explain(err, "commit the position of group "+r.group)
	}
	for id, p := range touched {
		p.committed, _ = to.Lookup(r.topic, id)
	}
	if cut {
		return fmt.Errorf("too many messages before them have failed to remember those that have not (topic %s)", r.topic)
	}
	return nil
}

// Return has nothing to do: what is not done is read again by the next reader.
func (r *reader) Return(context.Context, []uint64) error { return nil }

// Close ends the reading.
func (r *reader) Close() error {
	r.client.Close()
	return nil
}
