package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	magic     = "PAR1"
	leastFile = 12 // in bytes: twice the magic, and the length of the footer
)

// footer is the metadata at the end of a file.
type footer struct {
	schema []element
	groups []rowGroup
	size   int // in bytes
}

// element is a node of the schema. Elements are in depth-first order.
type element struct {
	name      string
	children  int64
	physical  int64 // -1: a group
	length    int64
	repeats   int64 // 0 required, 1 optional, 2 repeated
	converted int64 // -1: none
	scale     int64
	logical   logical
}

// logical is a LogicalType.
type logical struct {
	kind   int64 // 0: none
	scale  int64
	unit   int64 // units per second
	local  bool
	signed bool
	bits   byte
}

type rowGroup struct {
	rows   int64
	chunks []chunk
}

// chunk is the place of a column in a row group.
type chunk struct {
	codec      int64
	values     int64
	from, size int64
	elsewhere  bool
}

// readFooter parses the end of a file.
func readFooter(file []byte) (f footer, err error) {
	if len(file) < leastFile || !bytes.HasPrefix(file, []byte(magic)) {
		return f, errors.New("the payload is not a Parquet file: it does not begin with " + magic)
	}
	switch end := string(file[len(file)-4:]); end {
	case magic:
	case "PARE":
		return f, errors.New("the file is encrypted, which is not read")
	default:
		return f, errors.New("the file does not end with " + magic + ": it is cut off")
	}
	size := uint64(binary.LittleEndian.Uint32(file[len(file)-8:]))
	if size > uint64(len(file)-leastFile) {
		return f, fmt.Errorf("the footer claims to be %d bytes long, in a file of %d", size, len(file))
	}
	f.size = int(size) // #nosec G115 -- it fits the file
	t := thrift{src: file[len(file)-8-f.size : len(file)-8]}
	t.fields(func(id int64, kind byte) {
		switch id {
		case 2:
			t.list(kind, thriftStruct, func() {
				e := t.element()
				if e.name == "" && len(f.schema) > 0 || len(f.schema) > 4*mostColumns {
					t.fail(fmt.Errorf("a column has no name, or there are more than %d", mostColumns))
				}
				f.schema = append(f.schema, e)
			})
		case 4:
			t.list(kind, thriftStruct, func() { f.groups = append(f.groups, t.rowGroup()) })
		case 8:
			t.fail(errors.New("the file is encrypted, which is not read"))
		default:
			t.skip(kind, 0)
		}
	})
	if t.err != nil {
		return f, fmt.Errorf("the footer: %w", t.err)
	}
	return f, nil
}

func (t *thrift) element() element {
	e := element{physical: -1, converted: -1}
	t.fields(func(id int64, kind byte) {
		switch {
		case id == 4 && kind == thriftBinary:
			e.name = string(t.bytes())
		case id == 10 && kind == thriftStruct:
			e.logical = t.logical()
		case kind != thriftI32:
			t.skip(kind, 0)
		case id == 1:
			e.physical = t.int()
		case id == 2:
			e.length = t.int()
		case id == 3:
			e.repeats = t.int()
		case id == 5:
			e.children = t.int()
		case id == 6:
			e.converted = t.int()
		case id == 7:
			e.scale = t.int()
		default:
			t.int()
		}
	})
	return e
}

// The logical types that matter here.
const (
	logicalString  = 1
	logicalMap     = 2
	logicalList    = 3
	logicalEnum    = 4
	logicalDecimal = 5
	logicalDate    = 6
	logicalTime    = 7
	logicalStamp   = 8
	logicalInteger = 10
	logicalNull    = 11
	logicalJSON    = 12
	logicalUUID    = 14
	logicalHalf    = 15
)

func (t *thrift) logical() (l logical) {
	t.fields(func(id int64, kind byte) {
		if kind != thriftStruct {
			t.fail(errThrift)
			return
		}
		l.kind = id
		t.fields(func(id int64, kind byte) {
			switch {
			case l.kind == logicalDecimal && id == 1 && kind == thriftI32:
				l.scale = t.int()
			case l.kind == logicalInteger && id == 1 && kind == thriftByte:
				l.bits = t.byte()
			case l.kind == logicalInteger && id == 2:
				l.signed = kind == thriftTrue
			case (l.kind == logicalTime || l.kind == logicalStamp) && id == 1:
				l.local = kind == thriftFalse
			case (l.kind == logicalTime || l.kind == logicalStamp) && id == 2 && kind == thriftStruct:
				t.fields(func(id int64, kind byte) {
					l.unit = map[int64]int64{1: 1e3, 2: 1e6, 3: 1e9}[id]
					t.skip(kind, 0)
				})
			default:
				t.skip(kind, 0)
			}
		})
	})
	return l
}

func (t *thrift) rowGroup() (g rowGroup) {
	t.fields(func(id int64, kind byte) {
		switch {
		case id == 1:
			t.list(kind, thriftStruct, func() { g.chunks = append(g.chunks, t.chunk()) })
		case id == 3 && kind == thriftI64:
			g.rows = t.int()
		default:
			t.skip(kind, 0)
		}
	})
	if t.err == nil && (len(g.chunks) == 0 || g.rows < 0) {
		t.fail(errors.New("a row group has no columns, or less than no rows"))
	}
	return g
}

func (t *thrift) chunk() (c chunk) {
	found, dictionary := false, int64(0)
	t.fields(func(id int64, kind byte) {
		switch {
		case id == 1:
			c.elsewhere = true
			t.skip(kind, 0)
		case id == 3 && kind == thriftStruct:
			found = true
			t.fields(func(id int64, kind byte) {
				switch {
				case id == 4 && kind == thriftI32:
					c.codec = t.int()
				case kind != thriftI64:
					t.skip(kind, 0)
				case id == 5:
					c.values = t.int()
				case id == 7:
					c.size = t.int()
				case id == 9:
					c.from = t.int()
				case id == 11:
					dictionary = t.int()
				default:
					t.int()
				}
			})
		default:
			t.skip(kind, 0)
		}
	})
	if dictionary > 0 && dictionary < c.from {
		c.from = dictionary
	}
	if t.err == nil && !found {
		t.fail(errors.New("a column has no metadata (it may be encrypted)"))
	}
	return c
}
