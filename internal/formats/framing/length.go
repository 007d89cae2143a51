package framing

import "github.com/flowd-io/flowd/engine"

// length reads records after their lengths, big-endian numbers. It does not trust a length before the data is there:
// memory grows with what arrives.
type length struct {
	prefix int   // size of the length: 1, 2, 4 or 8 bytes
	size   int64 // of the record that follows; -1: its length is next
	left   int64 // unread bytes of the record
}

func newLength(prefix int) *length { return &length{prefix: prefix, size: -1} }

func (l *length) scan(data []byte, from int, eof bool) (end, next int, err *engine.Error) {
	if l.size < 0 {
		return l.scanPrefix(data, eof)
	}
	fresh := int64(len(data) - from)
	if fresh >= l.left {
		end = from + int(l.left)
		l.size = -1
		return end, end, nil
	}
	l.left -= fresh
	if !eof {
		return -1, len(data), nil
	}
	err = engine.Errorf(engine.Decode, "record is cut off: it has %d of %d bytes", l.size-l.left, l.size)
	l.size = -1
	return len(data), len(data), err
}

func (l *length) scanPrefix(data []byte, eof bool) (end, next int, err *engine.Error) {
	if len(data) < l.prefix {
		switch {
		case eof && len(data) == 0:
			return 0, 0, nil
		case eof:
			return len(data), len(data), engine.Errorf(engine.Decode,
				"length of a record is cut off: it has %d of %d bytes", len(data), l.prefix)
		}
		return -1, 0, nil
	}
	var n uint64
	for _, b := range data[:l.prefix] {
		n = n<<8 | uint64(b)
	}
	l.size, l.left = int64(n&(1<<63-1)), int64(n&(1<<63-1))
	return 0, l.prefix, nil
}

// record is also called with the empty text before every length, which is a record only if the length is 0.
func (l *length) record(body []byte) (Record, bool) {
	if len(body) == 0 && l.size > 0 {
		return Record{}, false
	}
	if len(body) == 0 {
		l.size = -1
	}
	return Record{Body: body}, true
}
