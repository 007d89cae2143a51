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

// Writer writes records to a topic, in batches of up to the size that the topic accepts.
func (s *server) Writer(ctx context.Context, topic string) (queue.Writer, error) {
	partitions, err := s.lookUp(ctx, topic)
	if err != nil {
		return nil, err
	}
	client, err := s.connect.Client(slog.New(slog.DiscardHandler), "flowd queue", kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(s.maxBatchBytes(ctx, topic)), kgo.RecordPartitioner(Partitioner()),
		kgo.UnknownTopicRetries(4), kgo.AllowIdempotentProduceCancellation(), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	return &writer{client, topic, int32(len(partitions))}, nil
}

// maxBatchBytes returns the topic's limit for the size of a batch, or the default limit if it can't be read.
func (s *server) maxBatchBytes(ctx context.Context, topic string) int32 {
	const fallback, most = 1_000_000, 100 << 20
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := s.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil || len(all) != 1 {
		return fallback
	}
	for _, c := range all[0].Configs {
		if c.Key != "max.message.bytes" || c.Value == nil {
			continue
		}
		if n, err := strconv.ParseInt(*c.Value, 10, 64); err == nil && n > 0 {
			return int32(min(n, most))
		}
	}
	return fallback
}

type writer struct {
	client     *Client
	topic      string
	partitions int32
}

// Write writes records and waits until the brokers have confirmed them.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	// The client's own timeout for records is no use: it begins at their timestamps, which may be old.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	errs := make([]error, len(ms))
	var wait sync.WaitGroup
	wait.Add(len(ms))
	for i := range ms {
		w.client.Produce(ctx, w.record(&ms[i]), func(_ *kgo.Record, err error) {
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

// record returns the record of a message, with its original key, headers and timestamp. A dead letter that returns to its topic
// becomes the record that it was, in the same partition. Otherwise, the key decides about the partition. Without a key, the record
// keeps the number of its partition, so that records stay in order.
func (w *writer) record(m *queue.Message) *kgo.Record {
	r := &kgo.Record{Topic: w.topic, Partition: AnyPartition}
	if raw, ok := m.Raw.(*kgo.Record); ok {
		r.Key, r.Value, r.Headers, r.Timestamp = raw.Key, raw.Value, slices.Clone(raw.Headers), raw.Timestamp
	} else {
		fillFromMetadata(r, m)
	}
	if originOf(m.Meta) == w.topic {
		w.restoreOriginal(r, m.Meta)
	} else if r.Key == nil {
		r.Partition = w.partition(m.Meta["partition"])
	}
	return r
}

// restoreOriginal turns a dead letter into the record that it was.
func (w *writer) restoreOriginal(r *kgo.Record, meta map[string]any) {
	newest := func(name string) any {
		if all, several := meta[name].([]any); several && len(all) > 0 {
			return all[len(all)-1]
		}
		return meta[name]
	}
	r.Partition = w.partition(newest("original_partition"))
	if t, ok := Time(newest("original_timestamp")); ok {
		r.Timestamp = t
	}
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return isFailureHeader(h.Key) })
}

// isFailureHeader reports whether flowd has added a header to a dead letter.
func isFailureHeader(name string) bool {
	return slices.Contains(failureHeaders, name)
}

var failureHeaders = strings.Fields("original_topic original_partition original_offset original_timestamp error_class " +
	"error_message error_step error_output error_attempt error_first_failed error_part error_detail")

// partition returns a partition from metadata if the topic has it, and otherwise AnyPartition.
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

// fillFromMetadata fills a record from metadata. It prefers the list of all headers, which is more exact than the metadata with
// their names.
func fillFromMetadata(r *kgo.Record, m *queue.Message) {
	r.Value = Value(m.Payload, m.Meta["tombstone"])
	r.Key = Bytes(m.Meta["key"])
	r.Timestamp, _ = Time(m.Meta["timestamp"])
	if all, ok := m.Meta["headers"].([]any); ok {
		if r.Headers, ok = headersFrom(all); ok {
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

// headersFrom converts a list of headers in metadata, as [Records] makes it. ok is false if the list has another form.
func headersFrom(all []any) (headers []kgo.RecordHeader, ok bool) {
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

// Close closes the connections. Write has waited for all records.
func (w *writer) Close() error {
	w.client.Close()
	return nil
}
