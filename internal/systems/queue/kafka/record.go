package kafka

import (
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Records are records of one partition, as the source of their metadata: topic, partition, offset, timestamp, key,
// tombstone and headers are the input's own; each header is metadata by its name, too, which outputs pass on: see names.
type Records struct {
	All              []*kgo.Record
	topic, partition any
}

var _ engine.MetaSource = (*Records)(nil)

// RecordsOf are records of a partition; it keeps the slice.
func RecordsOf(topic string, partition int32, all []*kgo.Record) *Records {
	return &Records{All: all, topic: topic, partition: int(partition)}
}

// names are those of headers as metadata.
var names = metadata.Names{Prefix: "header_", Own: func(name string) bool { return slices.Contains(reserved, name) }}

// reserved are the names that no header can have as metadata, so that no sender can pose as the broker.
var reserved = []string{"topic", "partition", "offset", "timestamp", "key", "tombstone", "headers"}

// Get is one value of record i.
func (s *Records) Get(i int, name string) (any, bool) {
	r := s.All[i]
	switch name {
	case "topic":
		return s.topic, true
	case "partition":
		return s.partition, true
	case "offset":
		return int(r.Offset), true
	case "timestamp":
		return r.Timestamp.UTC(), true
	case "key":
		if r.Key == nil {
			return nil, false
		}
		return text(r.Key), true
	case "tombstone":
		if r.Value != nil {
			return nil, false
		}
		return true, true
	case "headers":
		if len(r.Headers) == 0 {
			return nil, false
		}
		return list(r.Headers), true
	}
	return header(r.Headers, names.Out(name))
}

// Meta is all metadata of record i.
func (s *Records) Meta(i int) engine.Meta {
	r := s.All[i]
	found := make([]string, 0, len(reserved)+len(r.Headers))
	values := make([]any, 0, cap(found))
	for _, name := range reserved {
		if v, ok := s.Get(i, name); ok {
			found, values = append(found, name), append(values, v)
		}
	}
	own := len(found)
	for _, h := range r.Headers {
		name := names.In(h.Key)
		if slices.Contains(found[own:], name) {
			continue
		}
		v, _ := header(r.Headers, h.Key)
		found, values = append(found, name), append(values, v)
	}
	return engine.MetaOf(found, values, own)
}

// header is the value of a header, or a list of all that have its name, in their order.
func header(all []kgo.RecordHeader, name string) (v any, found bool) {
	for _, h := range all {
		if h.Key != name {
			continue
		}
		switch before, several := v.([]any); {
		case !found:
			v, found = value(h.Value), true
		case several:
			v = append(before, value(h.Value))
		default:
			v = []any{v, value(h.Value)}
		}
	}
	return v, found
}

// list is all headers in their order, as they were sent.
func list(all []kgo.RecordHeader) []any {
	l := make([]any, len(all))
	for i, h := range all {
		l[i] = map[string]any{"name": h.Key, "value": value(h.Value)}
	}
	return l
}

// value is a header's as metadata; there may be none.
func value(b []byte) any {
	if b == nil {
		return nil
	}
	return text(b)
}

// text is bytes of a record, which never change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// RecordOf is the record whose metadata m is; nil: it is not from one, or a step has changed it.
func RecordOf(m engine.Meta) *kgo.Record {
	if s, i := m.Source(); s != nil {
		if s, ok := s.(*Records); ok {
			return s.All[i]
		}
	}
	return nil
}

// Headers appends to dst what metadata says that is not its input's own: a list makes a header of each value. Records
// that no step has changed keep their headers as they are.
func Headers(dst []kgo.RecordHeader, m engine.Meta) []kgo.RecordHeader {
	if r := RecordOf(m); r != nil {
		return append(dst, r.Headers...)
	}
	for name, v := range m.Added() {
		name = names.Out(name)
		if all, several := v.([]any); several {
			for _, v := range all {
				dst = append(dst, kgo.RecordHeader{Key: name, Value: Bytes(v)})
			}
			continue
		}
		dst = append(dst, kgo.RecordHeader{Key: name, Value: Bytes(v)})
	}
	return dst
}

// Value is a payload as the value of a record. No value at all is a tombstone, which deletes what has its key, so only a
// message that says that it is one has none.
func Value(payload []byte, tombstone any) []byte {
	switch {
	case len(payload) > 0:
		return payload
	case tombstone == true:
		return nil
	}
	return []byte{}
}

// Bytes is a value as a key or a header has it: text as it is, all else as text or JSON; nil stays nil.
func Bytes(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if v == "" { // not nil, which is another key
			return []byte{}
		}
		return unsafe.Slice(unsafe.StringData(v), len(v)) // a record only reads it
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case time.Time:
		return v.AppendFormat(nil, time.RFC3339Nano)
	}
	return []byte(metadata.Text(v))
}

// Time is a value as the time of a record: a time, text as of RFC 3339, or a number of milliseconds since 1970.
func Time(v any) (at time.Time, ok bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case int:
		return time.UnixMilli(int64(v)), true
	case string:
		at, err := time.Parse(time.RFC3339, v)
		return at, err == nil
	}
	return time.Time{}, false
}
