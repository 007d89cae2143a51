package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

var errEncoding = errors.New("the encoding of a page is not what its header says")

// value is a value of a column: in bits if its type has up to 64, else in bytes, which are valid until the next
// value.
type value struct {
	bits  uint64
	bytes []byte
}

// values reads the values of a page that are not null.
type values interface{ next() (value, error) }

// The physical types.
const (
	physicalBool = iota
	physicalInt32
	physicalInt64
	physicalInt96
	physicalFloat
	physicalDouble
	physicalBytes
	physicalFixed
)

// The encodings of values.
const (
	encodingPlain       = 0
	encodingPlainDict   = 2
	encodingRLE         = 3
	encodingDelta       = 5
	encodingDeltaLength = 6
	encodingDeltaBytes  = 7
	encodingDict        = 8
	encodingSplit       = 9
)

// sizeOf returns the bytes of a plain value. It returns 0 for bools, and for bytes with a length.
func sizeOf(e *element) (int, error) {
	switch e.physical {
	case physicalBool, physicalBytes:
		return 0, nil
	case physicalInt32, physicalFloat:
		return 4, nil
	case physicalInt64, physicalDouble:
		return 8, nil
	case physicalInt96:
		return 12, nil
	case physicalFixed:
		if e.length > 0 && e.length <= 1<<20 {
			return int(e.length), nil
		}
	}
	return 0, errSchema
}

// newValues reads the values of a page, directly or by their index in the dictionary.
func newValues(e *element, encoding int64, src []byte, d *dictionary) (values, error) {
	size, err := sizeOf(e)
	if err != nil {
		return nil, err
	}
	switch encoding {
	case encodingPlain:
		return plainValues(e, src, size), nil
	case encodingPlainDict, encodingDict:
		if d == nil || len(src) == 0 || src[0] > 32 {
			return nil, errEncoding
		}
		return &indexed{hybrid{src: src[1:], width: int(src[0])}, d}, nil
	case encodingRLE:
		if e.physical == physicalBool && len(src) >= 4 {
			return &flags{hybrid{src: src[4:], width: 1}}, nil
		}
	case encodingDelta:
		if e.physical == physicalInt32 || e.physical == physicalInt64 {
			d, err := newDeltas(src)
			return &integers{d}, err
		}
	case encodingDeltaLength:
		if e.physical == physicalBytes {
			return newLengths(src)
		}
	case encodingDeltaBytes:
		if e.physical == physicalBytes || e.physical == physicalFixed {
			return newPrefixes(src)
		}
	case encodingSplit:
		if size > 0 {
			return &split{src: src, size: size, scratch: make([]byte, size)}, nil
		}
	}
	return nil, fmt.Errorf("%w (%d)", errEncoding, encoding)
}

func plainValues(e *element, src []byte, size int) values {
	switch {
	case e.physical == physicalBool:
		return &packedBools{src: src}
	case e.physical == physicalBytes:
		return &sized{src}
	}
	return &fixed{src, size}
}

// valueOf returns a value of fixed size.
func valueOf(b []byte) value {
	switch len(b) {
	case 4:
		return value{bits: uint64(binary.LittleEndian.Uint32(b)), bytes: b}
	case 8:
		return value{bits: binary.LittleEndian.Uint64(b), bytes: b}
	}
	return value{bytes: b}
}

type fixed struct {
	src  []byte
	size int
}

func (f *fixed) next() (value, error) {
	if len(f.src) < f.size {
		return value{}, errShort
	}
	b := f.src[:f.size]
	f.src = f.src[f.size:]
	return valueOf(b), nil
}

// sized are bytes after their length.
type sized struct{ src []byte }

func (s *sized) next() (value, error) {
	if len(s.src) < 4 {
		return value{}, errShort
	}
	n := uint64(binary.LittleEndian.Uint32(s.src))
	if n > uint64(len(s.src)-4) {
		return value{}, errShort
	}
	b := s.src[4 : 4+n]
	s.src = s.src[4+n:]
	return value{bytes: b}, nil
}

type packedBools struct {
	src []byte
	bit int
}

func (p *packedBools) next() (value, error) {
	if p.bit >= 8*len(p.src) {
		return value{}, errShort
	}
	v := p.src[p.bit/8] >> (p.bit % 8) & 1
	p.bit++
	return value{bits: uint64(v)}, nil
}

// flags are bools in runs.
type flags struct{ hybrid }

func (f *flags) next() (value, error) {
	v, err := f.hybrid.next()
	return value{bits: uint64(v)}, err
}

type integers struct{ deltas }

func (i *integers) next() (value, error) {
	v, err := i.deltas.next()
	return value{bits: uint64(v)}, err // #nosec G115 -- the same bits
}

// lengths are the lengths of all values, followed by their bytes.
type lengths struct {
	of  deltas
	src []byte
}

func newLengths(src []byte) (*lengths, error) {
	d, err := newDeltas(src)
	if err != nil {
		return nil, err
	}
	rest, err := d.rest()
	return &lengths{d, rest}, err
}

func (l *lengths) next() (value, error) {
	n, err := l.of.next()
	if err == nil && (n < 0 || n > int64(len(l.src))) {
		err = errShort
	}
	if err != nil {
		return value{}, err
	}
	b := l.src[:n]
	l.src = l.src[n:]
	return value{bytes: b}, nil
}

// prefixes are values that share a prefix with the value before.
type prefixes struct {
	of   deltas
	rest *lengths
	last []byte
}

func newPrefixes(src []byte) (*prefixes, error) {
	d, err := newDeltas(src)
	if err != nil {
		return nil, err
	}
	rest, err := d.rest()
	if err != nil {
		return nil, err
	}
	suffixes, err := newLengths(rest)
	return &prefixes{of: d, rest: suffixes}, err
}

func (p *prefixes) next() (value, error) {
	n, err := p.of.next()
	if err == nil && (n < 0 || n > int64(len(p.last))) {
		err = errShort
	}
	if err != nil {
		return value{}, err
	}
	suffix, err := p.rest.next()
	if err != nil {
		return value{}, err
	}
	p.last = append(p.last[:n], suffix.bytes...) // never longer than the page
	return valueOf(p.last), nil
}

// split are values stored by byte position: all first bytes, then all second bytes, and so on.
type split struct {
	src      []byte
	size, at int
	scratch  []byte
}

func (s *split) next() (value, error) {
	n := len(s.src) / s.size
	if s.at >= n {
		return value{}, errShort
	}
	for i := range s.size {
		s.scratch[i] = s.src[i*n+s.at]
	}
	s.at++
	return valueOf(s.scratch), nil
}

// widthOf returns how many bits levels up to highest take.
func widthOf(highest int) int { return bits.Len(uint(highest)) } // #nosec G115 -- positive
