package parquet

import "encoding/binary"

// hybrid reads small numbers in runs of one number and in packed bits: levels, indexes of a dictionary, and bools. It
// allocates nothing, however long a run claims to be.
type hybrid struct {
	src    []byte
	width  int    // bits per number, up to 32
	left   uint64 // numbers left in the run
	value  uint32 // of a run of one number
	packed []byte // or the rest of packed bits; nil in a run of one number
	bit    int    // index in packed
}

func (h *hybrid) next() (uint32, error) {
	for h.left == 0 {
		if err := h.run(); err != nil {
			return 0, err
		}
	}
	h.left--
	if h.packed == nil {
		return h.value, nil
	}
	v := unpack(h.packed, h.bit, h.width)
	h.bit += h.width
	return uint32(v), nil // #nosec G115 -- up to 32 bits
}

// run begins the next run.
func (h *hybrid) run() error {
	header, rest, err := uvarint(h.src)
	if err != nil {
		return err
	}
	h.src, h.packed, h.bit = rest, nil, 0
	n := header >> 1
	if header&1 == 0 {
		size := (h.width + 7) / 8
		if size > len(h.src) {
			return errShort
		}
		h.left, h.value = n, 0
		for i := range size {
			h.value |= uint32(h.src[i]) << (8 * i)
		}
		h.src = h.src[size:]
		return nil
	}
	if h.width == 0 {
		h.left, h.value = min(n, 1<<60)*8, 0
		return nil
	}
	if whole := uint64(len(h.src) / h.width); n > whole { // the last group may be cut off
		n = whole
		h.left = uint64(len(h.src)) * 8 / uint64(h.width) // #nosec G115 -- positive
		h.packed, h.src = h.src, nil
		if h.left == 0 {
			return errShort
		}
		return nil
	}
	size := int(n) * h.width // #nosec G115 -- it fits src
	h.left, h.packed, h.src = 8*n, h.src[:size:size], h.src[size:]
	return nil
}

// unpack returns the number of up to 64 bits that begins at a bit, lowest first. It must be within b.
func unpack(b []byte, bit, width int) (v uint64) {
	at, shift := bit/8, bit%8
	if len(b)-at >= 8 {
		v = binary.LittleEndian.Uint64(b[at:]) >> shift
	} else {
		for i, x := range b[at:] {
			v |= uint64(x) << (8 * i)
		}
		v >>= shift
	}
	if shift+width > 64 {
		v |= uint64(b[at+8]) << (64 - shift)
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// deltas reads integers stored as differences in packed bits (DELTA_BINARY_PACKED).
type deltas struct {
	src    []byte
	block  int // numbers per block, and per part of a block
	part   int
	left   uint64 // unread numbers
	first  bool   // the next is the first number, which is in the header
	value  int64
	least  int64  // added to each difference of the block
	widths []byte // of the block's remaining parts
	packed []byte // of the part
	bit    int
	width  int
	inPart int // unread numbers of the part
}

// newDeltas reads the header.
func newDeltas(src []byte) (d deltas, err error) {
	var header [4]uint64
	for i := range header {
		if header[i], src, err = uvarint(src); err != nil {
			return d, err
		}
	}
	block, parts := header[0], header[1]
	if block == 0 || block > 1<<20 || block%128 != 0 || parts == 0 || parts > block/32 || block%parts != 0 || block/parts%32 != 0 {
		return d, errEncoding
	}
	d = deltas{src: src, block: int(block), part: int(block / parts), // #nosec G115 -- checked
		left: header[2], first: true, value: unzigzag(header[3])}
	return d, nil
}

func (d *deltas) next() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	d.left--
	if d.first {
		d.first = false
		return d.value, nil
	}
	if d.inPart == 0 {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	d.inPart--
	var delta uint64
	if d.width > 0 {
		if d.bit+d.width > 8*len(d.packed) {
			return 0, errShort
		}
		delta = unpack(d.packed, d.bit, d.width)
		d.bit += d.width
	}
	d.value += d.least + int64(delta) // #nosec G115 -- wraps around as intended
	return d.value, nil
}

// begin begins the next part, and a new block if needed.
func (d *deltas) begin() error {
	if len(d.widths) == 0 {
		n, rest, err := uvarint(d.src)
		parts := d.block / d.part
		if err == nil && len(rest) < parts {
			err = errShort
		}
		if err != nil {
			return err
		}
		d.least, d.widths, d.src = unzigzag(n), rest[:parts], rest[parts:]
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return errEncoding
	}
	size := min(d.part*d.width/8, len(d.src)) // the last part may be cut off
	d.packed, d.src, d.bit, d.inPart = d.src[:size], d.src[size:], 0, d.part
	return nil
}

// rest returns what follows the numbers. None may have been read.
func (d deltas) rest() ([]byte, error) {
	left := d.left
	if left > 0 {
		left--
	}
	for left > 0 {
		if err := d.begin(); err != nil {
			return nil, err
		}
		if len(d.packed) < d.part*d.width/8 && left > uint64(d.part) { // #nosec G115 -- positive
			return nil, errShort
		}
		left -= min(left, uint64(d.part)) // #nosec G115 -- positive
	}
	return d.src, nil
}
