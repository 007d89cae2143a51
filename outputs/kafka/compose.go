package kafka

import (
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compose turns the batch into records. Messages that can't become a record fail.
func (o *output) compose(b *engine.Batch) *sending {
	s, now := o.newSending(b.Len()), time.Now()
	failed := map[string]bool{} // order keys of which a message has failed: later ones wait
	for m := range b.All() {
		if m.Key != nil && len(failed) > 0 && failed[string(m.Key)] {
			m.Fail(engine.ErrBehind)
			continue
		}
		s.records = append(s.records, kgo.Record{Timestamp: now})
		if err := o.fill(&s.records[len(s.records)-1], m); err != nil {
			s.records = s.records[:len(s.records)-1]
			m.Fail(err)
			if m.Key != nil {
				failed[string(m.Key)] = true
			}
			continue
		}
		s.msgs = append(s.msgs, m)
	}
	return s
}

func (o *output) fill(r *kgo.Record, m *engine.Message) (err error) {
	if r.Topic = o.topic; r.Topic == "" {
		if r.Topic, err = o.cfg.Topic.Text(m); err != nil {
			return err
		}
		if err := kafka.CheckTopic(r.Topic); err != nil {
			return engine.WithClass(engine.Rejected, err)
		}
	}
	tombstone, _ := m.Meta.Get("tombstone")
	r.Value = kafka.Value(m.Bytes(), tombstone)
	if r.Key, err = o.key(m); err != nil {
		return err
	}
	r.Partition = kafka.AnyPartition
	if !o.cfg.Partition.IsZero() {
		if r.Partition, err = o.partition(m); err != nil {
			return err
		}
	}
	if !o.cfg.Timestamp.IsZero() {
		if at, err := o.timestamp(m); err != nil {
			return err
		} else if !at.IsZero() {
			r.Timestamp = at
		}
	}
	r.Headers = kafka.Headers(nil, m.Meta)
	for name, t := range o.cfg.Headers.All() {
		text, err := t.Text(m)
		if err != nil {
			return err
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(text)})
	}
	if m.Err() != nil {
		o.origin(r, m)
	}
	if size := size(r); size > int(o.cfg.MaxBytes) {
		return engine.Errorf(engine.Rejected, "the record has %d bytes, more than `max_bytes`, which is %d (raise it, and "+
			"max.message.bytes of the topic)", size, o.cfg.MaxBytes)
	}
	return nil
}

// overhead is about how many bytes a record needs in addition to its parts, in a batch of its own.
const overhead = 128

func size(r *kgo.Record) int {
	n := overhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

// key returns the configured key, or the key with which the message was read.
func (o *output) key(m *engine.Message) ([]byte, error) {
	if o.cfg.Key.IsZero() {
		if r := kafka.RecordOf(m.Meta); r != nil {
			return r.Key, nil
		}
		v, _ := m.Meta.Get("key")
		return kafka.Bytes(v), nil
	}
	v, err := o.cfg.Key.Eval(m)
	if err != nil {
		return nil, err
	}
	return kafka.Bytes(v), nil
}

func (o *output) partition(m *engine.Message) (int32, error) {
	v, err := o.cfg.Partition.Eval(m)
	if err != nil {
		return 0, err
	}
	if v == nil {
		return kafka.AnyPartition, nil
	}
	n, ok := v.(int)
	if !ok || n < 0 || n > 1<<30 {
		return 0, engine.Errorf(engine.Rejected, "partition is %v, which is not a valid partition number", v)
	}
	return int32(n), nil
}

func (o *output) timestamp(m *engine.Message) (time.Time, error) {
	v, err := o.cfg.Timestamp.Eval(m)
	if err != nil || v == nil {
		return time.Time{}, err
	}
	at, ok := kafka.Time(v)
	if !ok {
		return time.Time{}, engine.Errorf(engine.Rejected,
			"timestamp is %.60v, which is neither a time nor a number of milliseconds since 1970", v)
	}
	return at, nil
}

// origins are the metadata that say where a message was read.
var origins = [...]string{"topic", "partition", "offset", "timestamp"}

// origin adds to a dead letter where it was read, if that was a topic. If the message was a dead letter before, this replaces the
// earlier origin: like error_*, it is about the last failure, and redriving returns it to the pipeline where it failed.
func (o *output) origin(r *kgo.Record, m *engine.Message) {
	if _, ok := m.Meta.Get("topic"); !ok {
		return
	}
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool {
		name, ok := strings.CutPrefix(h.Key, "original_")
		return ok && slices.Contains(origins[:], name)
	})
	for _, name := range origins {
		if v, ok := m.Meta.Get(name); ok {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "original_" + name, Value: kafka.Bytes(v)})
		}
	}
}
