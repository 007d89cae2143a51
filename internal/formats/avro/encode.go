package avro

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Encode appends the binary form of a document.
func (p *Program) Encode(dst, json []byte) ([]byte, error) {
	w := writer{dst: dst, unknown: p.unknown}
	if err := w.value(p.root, json); err != nil {
		return dst, fmt.Errorf("avro: %w", err)
	}
	return w.dst, nil
}

// writer writes one payload.
type writer struct {
	dst     []byte
	unknown bool
	values  [][]byte // values of the fields of the open records
}

// str returns b as text without copying: payloads never change.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func appendLong(dst []byte, i int64) []byte { return binary.AppendVarint(dst, i) }

func (w *writer) value(n *node, json []byte) error {
	switch n.kind {
	case union:
		return w.union(n, json)
	case record:
		return w.record(n, json)
	case array:
		return w.array(n, json)
	case mapping:
		return w.mapping(n, json)
	case duration:
		return w.duration(n, json)
	}
	switch json[0] {
	case 'n':
		if n.kind == null {
			return nil
		}
	case 't', 'f':
		if n.kind == boolean {
			b := byte(0)
			if json[0] == 't' {
				b = 1
			}
			w.dst = append(w.dst, b)
			return nil
		}
	case '"':
		return w.text(n, json)
	case '{', '[':
	default:
		return w.number(n, json)
	}
	return unfit(n, json)
}

// unfit returns the error of a value of the wrong kind.
func unfit(n *node, json []byte) error {
	return fmt.Errorf("%s is not %s", codec.Kind(json), n.name)
}

// record writes the fields in the schema's order. Of equal keys, the last counts.
func (w *writer) record(n *node, json []byte) error {
	if json[0] != '{' {
		return unfit(n, json)
	}
	base := len(w.values)
	for range n.fields {
		w.values = append(w.values, nil)
	}
	for name, value := range doc.Members(json) {
		i, ok := n.index[name]
		if ok {
			w.values[base+i] = value
		} else if !w.unknown {
			return fmt.Errorf("%s has no field %q (remove it from the document, or set `drop_unknown: true`)", n.name, codec.Clip(name))
		}
	}
	for i := range n.fields {
		f := &n.fields[i]
		value := w.values[base+i]
		switch {
		case value != nil:
			if err := w.value(f.of, value); err != nil {
				return codec.Under(f.name, err)
			}
		case f.fills == nil:
			return codec.Under(f.name, fmt.Errorf("is missing, and %s has no default for it", n.name))
		default:
			if w.dst = append(w.dst, f.fills...); len(w.dst) > codec.MaxSize { // a short {} can have large defaults
				return fmt.Errorf("encodes to more than %d MiB", codec.MaxSize>>20)
			}
		}
	}
	w.values = w.values[:base]
	return nil
}

// array writes one block.
func (w *writer) array(n *node, json []byte) error {
	if json[0] != '[' {
		return unfit(n, json)
	}
	count := 0
	for range doc.Elements(json) {
		count++
	}
	w.block(count)
	i := 0
	for item := range doc.Elements(json) {
		if err := w.value(n.item, item); err != nil {
			return codec.Under(strconv.Itoa(i), err)
		}
		i++
	}
	w.dst = append(w.dst, 0) // the empty block that is the end
	return nil
}

func (w *writer) mapping(n *node, json []byte) error {
	if json[0] != '{' {
		return unfit(n, json)
	}
	count := 0
	for range doc.Members(json) {
		count++
	}
	w.block(count)
	for name, value := range doc.Members(json) {
		w.dst = append(appendLong(w.dst, int64(len(name))), name...)
		if err := w.value(n.item, value); err != nil {
			return codec.Under(name, err)
		}
	}
	w.dst = append(w.dst, 0) // the empty block that ends the mapping
	return nil
}

func (w *writer) block(count int) {
	if count > 0 {
		w.dst = appendLong(w.dst, int64(count))
	}
}

// text writes text, or the bytes that it represents.
func (w *writer) text(n *node, json []byte) error {
	b := codec.Text(json)
	switch n.kind {
	case text:
		w.dst = append(appendLong(w.dst, int64(len(b))), b...)
		return nil
	case enum:
		if i, ok := n.index[string(b)]; ok {
			w.dst = appendLong(w.dst, int64(i))
			return nil
		}
		return fmt.Errorf("%.40q is not a symbol of %s", b, n.name)
	case blob, fixed:
		return w.base64(n, b)
	case uuid:
		var ok bool
		if w.dst, ok = codec.UUID(w.dst, str(b)); !ok {
			return fmt.Errorf("%.40q is not a UUID", b)
		}
		return nil
	case date, timeOfDay, timestamp:
		i, err := parseTime(n, str(b))
		if err != nil {
			return err
		}
		return w.long(n, i)
	case decimal:
		return w.decimal(n, str(b))
	case float, double:
		if f, ok := codec.NotNumbers[string(b)]; ok {
			w.float(n, f)
			return nil
		}
	}
	return unfit(n, json)
}

func (w *writer) base64(n *node, b []byte) error {
	size := base64.StdEncoding.DecodedLen(len(b))
	out, err := base64.StdEncoding.AppendDecode(make([]byte, 0, size), b)
	switch {
	case err != nil:
		return fmt.Errorf("%s is written as text in base64, and this is not: %w", n.name, err)
	case n.kind == fixed && len(out) != n.size:
		return fmt.Errorf("%d bytes do not fit %s, which has %d", len(out), n.name, n.size)
	case n.kind == blob:
		w.dst = appendLong(w.dst, int64(len(out)))
	}
	w.dst = append(w.dst, out...)
	return nil
}

// number writes a number. A time may be given as its number.
func (w *writer) number(n *node, json []byte) error {
	switch n.kind {
	case integer, long, date, timeOfDay, timestamp:
		i, err := codec.Int(json)
		if err != nil {
			return err
		}
		return w.long(n, i)
	case float, double:
		f, err := codec.Float(json, n.bits(), n.name)
		if err != nil {
			return err
		}
		w.float(n, f)
		return nil
	case decimal:
		return w.decimal(n, str(json))
	}
	return unfit(n, json)
}

// long writes an integer that is within the type's bounds.
func (w *writer) long(n *node, i int64) error {
	narrow := n.kind == integer || n.kind == date || n.kind == timeOfDay && !n.wide
	if narrow && i != int64(int32(i)) { // #nosec G115 -- this is the check
		return fmt.Errorf("%d does not fit %s, which has 32 bits", i, n.name)
	}
	if n.kind == timeOfDay && (i < 0 || i >= secondsOfDay*int64(n.unit)) {
		return fmt.Errorf("%d is not a time of day", i)
	}
	w.dst = appendLong(w.dst, i)
	return nil
}

func (w *writer) float(n *node, f float64) {
	if n.kind == float {
		w.dst = binary.LittleEndian.AppendUint32(w.dst, math.Float32bits(float32(f)))
		return
	}
	w.dst = binary.LittleEndian.AppendUint64(w.dst, math.Float64bits(f))
}

// duration writes the three numbers of a duration.
func (w *writer) duration(n *node, json []byte) error {
	if json[0] != '{' {
		return unfit(n, json)
	}
	var parts [len(codec.MonthKeys)]uint64
	for name, value := range doc.Members(json) {
		i := 0
		for i < len(parts) && codec.MonthKeys[i] != name {
			i++
		}
		if i == len(parts) {
			return fmt.Errorf("a duration has months, days and milliseconds, not %q", codec.Clip(name))
		}
		number, err := strconv.ParseUint(str(value), 10, 32)
		if err != nil {
			return codec.Under(name, errors.New("is not a whole number of 32 bits"))
		}
		parts[i] = number
	}
	for _, number := range parts {
		w.dst = binary.LittleEndian.AppendUint32(w.dst, uint32(number)) // #nosec G115 -- parsed as one of 32 bits
	}
	return nil
}
