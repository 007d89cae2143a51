package redis

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// Entry is an entry of a stream.
type Entry struct {
	ID     string
	Fields []string // names and values alternately, as they were sent; nil: the entry was deleted
}

var errAnswer = errors.New("the server's answer does not match the command")

// Entries returns the entries in an answer, which is a list of pairs.
func Entries(answer any) ([]Entry, error) {
	list, ok := answer.([]any)
	if !ok && answer != nil {
		return nil, errAnswer
	}
	all := make([]Entry, 0, len(list))
	for _, x := range list {
		if x == nil { // XAUTOCLAIM of Redis 6 returns nil for a deleted entry
			continue
		}
		pair, ok := x.([]any)
		if !ok || len(pair) != 2 {
			return nil, errAnswer
		}
		var e Entry
		if e.ID, ok = pair[0].(string); !ok {
			return nil, errAnswer
		}
		if fields, ok := pair[1].([]any); ok {
			if len(fields)%2 != 0 {
				return nil, errAnswer
			}
			e.Fields = make([]string, len(fields))
			for i, f := range fields {
				if e.Fields[i], ok = f.(string); !ok {
					return nil, errAnswer
				}
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// Time returns when an entry was added, according to its id. If the sender has chosen the id, the time may be wrong.
func (e *Entry) Time() time.Time {
	ms, _, _ := strings.Cut(e.ID, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Payload returns the value of a field. If field is "", it returns all fields as a JSON object.
func (e *Entry) Payload(field string) ([]byte, error) {
	if field == "" {
		return e.document()
	}
	for i := 0; i < len(e.Fields); i += 2 {
		if e.Fields[i] == field {
			return []byte(e.Fields[i+1]), nil
		}
	}
	return nil, engine.Errorf(engine.Decode, `entry %s has no field %s (correct "field", or write field: "" for `+
		`all fields as an object)`,
		e.ID, field)
}

// document returns all fields as a JSON object. Fields with the same name become a list.
func (e *Entry) document() ([]byte, error) {
	d := []byte{'{'}
	for i := 0; i < len(e.Fields); i += 2 {
		name := e.Fields[i]
		if e.hasBefore(i, name) {
			continue
		}
		if len(d) > 1 {
			d = append(d, ',')
		}
		d = append(doc.AppendString(d, []byte(name)), ':')
		from, n := len(d), 0
		for j := i; j < len(e.Fields); j += 2 {
			if e.Fields[j] != name {
				continue
			}
			if !utf8.ValidString(e.Fields[j+1]) || !utf8.ValidString(name) {
				return nil, engine.Errorf(engine.Decode, "entry %s: field %.40q is not text in UTF-8 (name the field with "+
					"the payload in `field`)",
					e.ID, name)
			}
			if n++; n > 1 {
				d = append(d, ',')
			}
			d = doc.AppendString(d, []byte(e.Fields[j+1]))
		}
		if n > 1 {
			d = append(d, ']')
			d = append(d[:from], append([]byte{'['}, d[from:]...)...)
		}
	}
	return append(d, '}'), nil
}

// hasBefore reports whether a field before index i has a name.
func (e *Entry) hasBefore(i int, name string) bool {
	for j := 0; j < i; j += 2 {
		if e.Fields[j] == name {
			return true
		}
	}
	return false
}

// Source provides the metadata of entries of one stream. The input's own metadata is stream, id, timestamp, delivery_count and
// redelivered. Each field except the one with the payload is metadata with its own name, which outputs pass on.
type Source struct {
	stream any
	field  string // with the payload
	all    []Entry
	counts []int // deliveries of each entry
}

var _ engine.MetaSource = (*Source)(nil)

// SourceOf returns a source with room for n entries of a stream. field is the field with the payload.
func SourceOf(stream, field string, n int) *Source {
	return &Source{stream: stream, field: field, all: make([]Entry, 0, n), counts: make([]int, 0, n)}
}

// Add adds an entry, and returns its metadata. The metadata of earlier entries stays valid.
func (s *Source) Add(e Entry, deliveries int) engine.Meta {
	s.all, s.counts = append(s.all, e), append(s.counts, deliveries)
	return engine.MetaFrom(s).At(len(s.all) - 1)
}

// Names converts the names of fields.
var Names = metadata.Names{Prefix: "field_", Own: isReserved}

// reserved has the names of the input's own metadata. A field with such a name is called field_NAME.
var reserved = [...]string{"stream", "id", "timestamp", "delivery_count", "redelivered"}

// Get implements [engine.MetaSource].
func (s *Source) Get(i int, name string) (any, bool) {
	switch e := &s.all[i]; name {
	case "stream":
		return s.stream, true
	case "id":
		return e.ID, true
	case "timestamp":
		return e.Time(), true
	case "delivery_count":
		return s.counts[i], s.counts[i] > 0
	case "redelivered":
		return true, s.counts[i] > 1
	}
	return s.value(i, Names.Out(name))
}

func isReserved(name string) bool {
	for _, r := range reserved {
		if r == name {
			return true
		}
	}
	return false
}

// value returns the value of a field, or a list of values if several fields have this name.
func (s *Source) value(i int, name string) (v any, found bool) {
	if s.field == "" || name == s.field {
		return nil, false
	}
	fields := s.all[i].Fields
	for j := 0; j < len(fields); j += 2 {
		if fields[j] != name {
			continue
		}
		switch before, several := v.([]any); {
		case !found:
			v, found = fields[j+1], true
		case several:
			v = append(before, fields[j+1])
		default:
			v = []any{v, fields[j+1]}
		}
	}
	return v, found
}

// Meta implements [engine.MetaSource].
func (s *Source) Meta(i int) engine.Meta {
	fields := s.all[i].Fields
	names := make([]string, 0, len(reserved)+len(fields)/2)
	values := make([]any, 0, cap(names))
	for _, name := range reserved {
		if v, ok := s.Get(i, name); ok {
			names, values = append(names, name), append(values, v)
		}
	}
	n := len(names)
	for j := 0; j < len(fields) && s.field != ""; j += 2 {
		if fields[j] == s.field || s.all[i].hasBefore(j, fields[j]) {
			continue
		}
		v, _ := s.value(i, fields[j])
		names, values = append(names, Names.In(fields[j])), append(values, v)
	}
	return engine.MetaOf(names, values, n)
}
