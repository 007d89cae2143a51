package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Writer sends records to a topic, of the size that it takes.
func (s *server) Writer(ctx context.Context, topic string) (queue.Writer, error) {
	partitions, err := s.place(ctx, topic)
	if err != nil {
		return nil, err
	}
	client, err := s.connect.Client(slog.New(slog.DiscardHandler), "flowd queue", kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(s.mostBytes(ctx, topic)), kgo.RecordPartitioner(Partitioner()),
		kgo.UnknownTopicRetries(4), kgo.AllowIdempotentProduceCancellation(), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	return &writer{client, topic, int32(len(partitions))}, nil
}

// mostBytes is what a batch may have; the usual limit where the topic's may not be read.
func (s *server) mostBytes(ctx context.Context, topic string) int32 {
	const usual, most = 1_000_000, 100 << 20
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := s.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(all) != 1 {
		return usual
	}
	for _, c := range all[0].Configs {
		if c.Key != "max.message.bytes" || c.Value == nil {
			continue
		}
		if n, err := strconv.ParseInt(*c.Value, 10, 64); err == nil && n > 0 {
			return int32(min(n, most))
		}
	}
	return usual
}

type writer struct {
	client     *Client
	topic      string
	partitions int32
}

// Write sends records and waits for what the brokers say.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	// Not the client's own timeout for records: it begins at their timestamps, which may be old.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	errs := make([]error, len(ms))
	var wait sync.WaitGroup
	wait.Add(len(ms))
	for i := range ms {
		w.client.Produce(ctx, w.again(&ms[i]), func(_ *kgo.Record, err error) {
			errs[i] = Explain(err, "write to topic "+w.topic)
			wait.Done()
		})
	}
	wait.Wait()
	if errors.Join(errs...) == nil {
		return nil
	}
	return errs
}

// again makes of a message the record that it was: with its key, headers and time. A dead letter that goes back to its
// topic is there what it was before, in its partition. Otherwise the key decides, and without one the record stays in
// the partition with its number, after those that were there before.
func (w *writer) again(m *queue.Message) *kgo.Record {
	r := &kgo.Record{Topic: w.topic, Partition: AnyPartition}
	if raw, ok := m.Raw.(*kgo.Record); ok {
		r.Key, r.Value, r.Headers, r.Timestamp = raw.Key, raw.Value, slices.Clone(raw.Headers), raw.Timestamp
	} else {
		described(r, m)
	}
	if originOf(m.Meta) == w.topic {
		w.home(r, m.Meta)
	} else if r.Key == nil {
		r.Partition = w.partition(m.Meta["partition"])
	}
	return r
}

// home makes a dead letter the record that it was.
func (w *writer) home(r *kgo.Record, meta map[string]any) {
	newest := func(name string) any {
		if all, several := meta[name].([]any); several && len(all) > 0 {
			return all[len(all)-1]
		}
		return meta[name]
	}
	r.Partition = w.partition(newest("original_partition"))
	if at, ok := Time(newest("original_timestamp")); ok {
		r.Timestamp = at
	}
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return Failure(h.Key) })
}

// Failure reports whether a header is one of those that make a record a dead letter.
func Failure(name string) bool {
	return slices.Contains(failure, name)
}

var failure = strings.Fields("original_topic original_partition original_offset original_timestamp error_class " +
	"error_message error_step error_output error_attempt error_first_failed error_part")

// partition is one that the topic has, or the choice of the partitioner.
func (w *writer) partition(v any) int32 {
	n, ok := v.(int)
	if text, is := v.(string); is {
		parsed, err := strconv.Atoi(text)
		n, ok = parsed, err == nil
	}
	if !ok || n < 0 || n >= int(w.partitions) {
		return AnyPartition
	}
	return int32(n)
}

// described fills a record from metadata. The list of all headers is more exact than what has their names.
func described(r *kgo.Record, m *queue.Message) {
	r.Value = Value(m.Payload, m.Meta["tombstone"])
	r.Key = Bytes(m.Meta["key"])
	r.Timestamp, _ = Time(m.Meta["timestamp"])
	if all, ok := m.Meta["headers"].([]any); ok {
		if r.Headers, ok = listed(all); ok {
			return
		}
	}
	meta := engine.Meta{}
	for name, v := range m.Meta {
		if !slices.Contains(reserved, name) {
			meta = meta.With(name, v)
		}
	}
	r.Headers = Headers(nil, meta)
	slices.SortStableFunc(r.Headers, func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) })
}

// listed is the headers of a list as [Records] makes it.
func listed(all []any) (headers []kgo.RecordHeader, ok bool) {
	for _, v := range all {
		h, _ := v.(map[string]any)
		name, ok := h["name"].(string)
		if !ok {
			return nil, false
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: Bytes(h["value"])})
	}
	return headers, true
}

// Close ends the connection: all that was taken is confirmed.
func (w *writer) Close() error {
	w.client.Close()
	return nil
}
