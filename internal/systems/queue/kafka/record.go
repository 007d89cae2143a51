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

// Records provides the metadata of records of one partition. The input's own metadata is topic, partition, offset, timestamp, key,
// tombstone and headers. In addition, each header is metadata with its own name, which outputs pass on: see names.
type Records struct {
	All              []*kgo.Record
	topic, partition any
}

var _ engine.MetaSource = (*Records)(nil)

// RecordsOf returns the metadata source of records. It keeps the slice.
func RecordsOf(topic string, partition int32, all []*kgo.Record) *Records {
	return &Records{All: all, topic: topic, partition: int(partition)}
}

// names converts the names of headers.
var names = metadata.Names{Prefix: "header_", Own: func(name string) bool { return slices.Contains(reserved, name) }}

// reserved has the names of the input's own metadata. No header can have them, so that a sender can't forge it.
var reserved = []string{"topic", "partition", "offset", "timestamp", "key", "tombstone", "headers"}

// Get implements [engine.MetaSource].
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
		return headerList(r.Headers), true
	}
	return header(r.Headers, names.Out(name))
}

// Meta implements [engine.MetaSource].
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

// header returns the value of a header, or a list of values if several headers have this name.
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

// headerList returns all headers in order, as the metadata headers.
func headerList(all []kgo.RecordHeader) []any {
	l := make([]any, len(all))
	for i, h := range all {
		l[i] = map[string]any{"name": h.Key, "value": value(h.Value)}
	}
	return l
}

// value converts the value of a header to metadata. A header without a value is nil.
func value(b []byte) any {
	if b == nil {
		return nil
	}
	return text(b)
}

// text returns the bytes of a record as a string without a copy, since they never change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// RecordOf returns the record from which unchanged metadata comes. It returns nil if the metadata has another source, or if a step
// has changed it.
func RecordOf(m engine.Meta) *kgo.Record {
	if s, i := m.Source(); s != nil {
		if s, ok := s.(*Records); ok {
			return s.All[i]
		}
	}
	return nil
}

// Headers appends metadata to dst as headers, except the input's own metadata. A list becomes one header per value. If no step has
// changed the metadata of a record, its headers are appended unchanged.
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

// Value returns the payload of a message as the value of a record. A record without a value is a tombstone, which deletes its key.
// So an empty payload is an empty value, unless tombstone is true.
func Value(payload []byte, tombstone any) []byte {
	switch {
	case len(payload) > 0:
		return payload
	case tombstone == true:
		return nil
	}
	return []byte{}
}

// Bytes returns a value as the key or a header of a record: text unchanged, anything else as text or JSON. nil stays nil.
func Bytes(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if v == "" { // nil would mean that there is no key
			return []byte{}
		}
		return unsafe.Slice(unsafe.StringData(v), len(v)) // records are only read
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case time.Time:
		return v.AppendFormat(nil, time.RFC3339Nano)
	}
	return []byte(metadata.Text(v))
}

// Time converts a value to the timestamp of a record. v is a time, text in RFC 3339, or milliseconds since 1970.
func Time(v any) (t time.Time, ok bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case int:
		return time.UnixMilli(int64(v)), true
	case string:
		t, err := time.Parse(time.RFC3339, v)
		return t, err == nil
	}
	return time.Time{}, false
}
