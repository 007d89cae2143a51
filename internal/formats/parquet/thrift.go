package parquet

import (
	"errors"
	"fmt"
)

var (
	errShort  = errors.New("the file ends in the middle of it")
	errThrift = errors.New("is not in Thrift's compact protocol")
)

// thrift parses structs in Thrift's compact protocol. After the first error it reads nothing more. A list can't claim
// more items than bytes, and no allocation depends on a claimed length.
type thrift struct {
	src []byte
	err error
}

// The types of fields and items.
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

func (t *thrift) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.src = nil
}

func (t *thrift) take(n uint64) []byte {
	if n > uint64(len(t.src)) {
		t.fail(errShort)
		return nil
	}
	b := t.src[:n]
	t.src = t.src[n:]
	return b
}

func (t *thrift) byte() byte {
	if b := t.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (t *thrift) uvarint() uint64 {
	n, rest, err := uvarint(t.src)
	if err != nil {
		t.fail(err)
		return 0
	}
	t.src = rest
	return n
}

func (t *thrift) int() int64 { return unzigzag(t.uvarint()) }

func (t *thrift) bytes() []byte { return t.take(t.uvarint()) }

// fields calls f for each field of a struct. f reads or skips its value.
func (t *thrift) fields(f func(id int64, kind byte)) {
	for id := int64(0); ; {
		b := t.byte()
		if t.err != nil || b&0xf == 0 {
			return
		}
		if b>>4 == 0 {
			id = t.int()
		} else {
			id += int64(b >> 4)
		}
		if f(id, b&0xf); t.err != nil {
			return
		}
	}
}

// list calls f for each item of a list, which must have the type want.
func (t *thrift) list(kind, want byte, f func()) {
	if kind != thriftList {
		t.fail(errThrift)
		return
	}
	n, of := t.length()
	if n > 0 && of != want {
		t.fail(errThrift)
	}
	for ; n > 0 && t.err == nil; n-- {
		f()
	}
}

func (t *thrift) length() (n uint64, of byte) {
	b := t.byte()
	if n = uint64(b >> 4); n == 15 {
		n = t.uvarint()
	}
	if n > uint64(len(t.src)) {
		t.fail(errShort)
		return 0, 0
	}
	return n, b & 0xf
}

// skip skips a value.
func (t *thrift) skip(kind byte, depth int) {
	if depth > mostLevels {
		t.fail(errors.New("is nested too deeply"))
		return
	}
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.take(8)
	case thriftBinary:
		t.bytes()
	case thriftList, thriftSet:
		for n, of := t.length(); n > 0 && t.err == nil; n-- {
			t.skipItem(of, depth)
		}
	case thriftMap:
		n := t.uvarint()
		if n == 0 {
			return
		}
		for kinds := t.byte(); n > 0 && t.err == nil; n-- {
			t.skipItem(kinds>>4, depth)
			t.skipItem(kinds&0xf, depth)
		}
	case thriftStruct:
		t.fields(func(_ int64, kind byte) { t.skip(kind, depth+1) })
	default:
		t.fail(fmt.Errorf("%w: type %d", errThrift, kind))
	}
}

// skipItem skips an item of a list, where a bool takes a byte.
func (t *thrift) skipItem(kind byte, depth int) {
	if kind == thriftTrue || kind == thriftFalse {
		t.byte()
		return
	}
	t.skip(kind, depth+1)
}

// uvarint reads a number with 7 bits per byte, and returns the rest.
func uvarint(src []byte) (n uint64, rest []byte, err error) {
	for i, b := range src {
		if i == 9 && b > 1 || i > 9 {
			return 0, nil, errors.New("a number is longer than 64 bits")
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, src[i+1:], nil
		}
	}
	return 0, nil, errShort
}

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) } // #nosec G115 -- as defined
