package protobuf

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// items reads a list. Any part of a packable list may be packed.
func (r *reader) items(f *field, at slot) error {
	if err := r.enter('['); err != nil {
		return err
	}
	count := 0
	for n := at.first; n > 0; n = r.runs[n-1].next {
		for s := r.runs[n-1].span; s.start < s.end; {
			typ, value := r.next(&s)
			more := 1
			var err error
			switch {
			case f.of != nil:
				r.comma()
				r.spans = append(r.spans, value)
				err = r.message(f.of, len(r.spans)-1)
			case typ == protowire.BytesType && f.packable:
				more, err = r.packed(f, value, count)
			default:
				r.comma()
				_, err = r.scalar(f, value)
			}
			if err == nil {
				err = r.bounded()
			}
			if err != nil && f.packable && typ == protowire.BytesType {
				return err // err already has its place
			}
			if err != nil {
				return codec.Under(strconv.Itoa(count), err)
			}
			count += more
		}
	}
	r.leave(']')
	return nil
}

// packed reads the items after one tag, and returns how many.
func (r *reader) packed(f *field, s span, before int) (count int, err error) {
	for s.start < s.end {
		r.comma()
		n, err := r.scalar(f, s)
		if err == nil {
			err = r.bounded()
		}
		if err != nil {
			return count, codec.Under(strconv.Itoa(before+count), err)
		}
		s.start += int32(n) // #nosec G115 -- lengths of a payload
		count++
	}
	return count, nil
}

// mapping reads entries, which are messages with a key and a value. Of equal keys, the last counts.
func (r *reader) mapping(f *field, at slot) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	key, value := &f.of.fields[0], &f.of.fields[1]
	var room [few]member
	members := members{all: room[:0]}
	for n := at.first; n > 0; n = r.runs[n-1].next {
		for s := r.runs[n-1].span; s.start < s.end; {
			_, entry := r.next(&s)
			r.comma()
			start := len(r.dst)
			r.spans = append(r.spans, entry)
			found, err := r.scan(f.of, len(r.spans)-1)
			if err != nil {
				return err
			}
			if err := r.key(key, r.slots[found.slots]); err != nil {
				return err
			}
			name := r.dst[start:]
			r.dst = append(r.dst, ':')
			if at := r.slots[found.slots+1]; at.first == 0 && value.of != nil { // a message without fields
				err = r.message(value.of, len(r.spans))
			} else {
				err = r.field(value, at)
			}
			if err == nil {
				err = r.bounded()
			}
			if err != nil {
				return codec.Under(string(codec.Text(name)), err)
			}
			r.drop(found)
			members.add(member{start, len(r.dst), len(name)}, r.dst)
		}
	}
	r.dst = members.last(r.dst)
	r.leave('}')
	return nil
}

// key writes the key of an entry as text.
func (r *reader) key(f *field, at slot) error {
	start := len(r.dst)
	if at.first == 0 {
		r.dst = append(r.dst, f.unset...)
	} else {
		s := r.runs[at.first-1].span
		_, value := r.next(&s)
		if _, err := r.scalar(f, value); err != nil {
			return codec.Under("key", err)
		}
	}
	if r.dst[start] != '"' {
		r.dst = append(r.dst, "\"\""...)
		copy(r.dst[start+1:], r.dst[start:len(r.dst)-2])
		r.dst[start] = '"'
		r.dst[len(r.dst)-1] = '"'
	}
	return nil
}

// member is a key with its value in an object being written.
type member struct{ start, end, name int }

// members finds members with equal keys.
type members struct {
	all    []member
	byName map[string]int // used if there are many
	again  bool
}

// few is the number of members up to which they are compared with each other.
const few = 8

func (m *members) add(one member, dst []byte) {
	name := dst[one.start : one.start+one.name]
	at := -1
	if m.byName != nil {
		if i, ok := m.byName[string(name)]; ok {
			at = i
		}
	} else {
		for i, other := range m.all {
			if string(dst[other.start:other.start+other.name]) == string(name) {
				at = i
			}
		}
	}
	if at >= 0 {
		m.all[at].name, m.again = 0, true
	}
	m.all = append(m.all, one)
	if m.byName == nil && len(m.all) == few {
		m.byName = map[string]int{}
		for i, other := range m.all {
			m.byName[string(dst[other.start:other.start+other.name])] = i
		}
	} else if m.byName != nil {
		m.byName[string(name)] = len(m.all) - 1
	}
}

// last removes all but the last member of each name from dst.
func (m *members) last(dst []byte) []byte {
	if !m.again {
		return dst
	}
	end := m.all[0].start
	first := end
	for _, one := range m.all {
		if one.name == 0 {
			continue
		}
		if end > first {
			dst[end] = ','
			end++
		}
		end += copy(dst[end:], dst[one.start:one.end])
	}
	return dst[:end]
}
