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

// Entry is one of a stream.
type Entry struct {
	ID     string
	Fields []string // names and values, in turn, as they were sent; nil: it was deleted, and only its id is left
}

var errAnswer = errors.New("the server's answer is not one of this command")

// Entries are those of an answer: a list of pairs.
func Entries(answer any) ([]Entry, error) {
	list, ok := answer.([]any)
	if !ok && answer != nil {
		return nil, errAnswer
	}
	all := make([]Entry, 0, len(list))
	for _, x := range list {
		if x == nil { // deleted, as XAUTOCLAIM of Redis 6 says
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

// Time is when an entry was added, which its id says, unless its sender chose that.
func (e *Entry) Time() time.Time {
	ms, _, _ := strings.Cut(e.ID, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Payload is the value of a field, or all fields as a JSON object with "".
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

// document is all fields as a JSON object; those of one name are a list.
func (e *Entry) document() ([]byte, error) {
	d := []byte{'{'}
	for i := 0; i < len(e.Fields); i += 2 {
		name := e.Fields[i]
		if e.before(i, name) {
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

// before reports whether a field before number i has a name.
func (e *Entry) before(i int, name string) bool {
	for j := 0; j < i; j += 2 {
		if e.Fields[j] == name {
			return true
		}
	}
	return false
}

// Source is entries of one stream as the source of their metadata: stream, id, timestamp, delivery_count and
// redelivered are the input's own; each field but that with the payload is metadata by its name, too, which outputs
// pass on.
type Source struct {
	stream any
	field  string
	all    []Entry
	counts []int // deliveries of them
}

var _ engine.MetaSource = (*Source)(nil)

// SourceOf has room for n entries of a stream; field is that with the payload.
func SourceOf(stream, field string, n int) *Source {
	return &Source{stream: stream, field: field, all: make([]Entry, 0, n), counts: make([]int, 0, n)}
}

// Add adds an entry, and gives its metadata. Metadata of those before stays as it is.
func (s *Source) Add(e Entry, deliveries int) engine.Meta {
	s.all, s.counts = append(s.all, e), append(s.counts, deliveries)
	return engine.MetaFrom(s).At(len(s.all) - 1)
}

// Names are those of fields as metadata.
var Names = metadata.Names{Prefix: "field_", Own: reserves}

// reserved are the input's own names. A field of such a name is called field_NAME.
var reserved = [...]string{"stream", "id", "timestamp", "delivery_count", "redelivered"}

// Get is one value of entry i.
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

func reserves(name string) bool {
	for _, r := range reserved {
		if r == name {
			return true
		}
	}
	return false
}

// value is that of a field, or a list of all that have its name.
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

// Meta is all metadata of entry i.
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
		if fields[j] == s.field || s.all[i].before(j, fields[j]) {
			continue
		}
		v, _ := s.value(i, fields[j])
		names, values = append(names, Names.In(fields[j])), append(values, v)
	}
	return engine.MetaOf(names, values, n)
}
