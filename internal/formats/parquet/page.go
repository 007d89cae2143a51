package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"

	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

// column reads the entries of a leaf column, page by page. An entry is a value or null, with two levels.
type column struct {
	of     *branch
	memory *memory
	codec  int64
	src    []byte // unread pages
	left   int64  // entries in unread pages
	inPage int64  // unread entries of the page
	reps   hybrid
	defs   hybrid
	values values
	dict   *dictionary
	held   int // memory of the page and the dictionary, in bytes
	dicts  int

	rep, def int // levels of the current entry; rep is -1 after the last
}

// memory is what the pages of all columns may take together, besides the result.
type memory struct{ held, most int }

// begin begins a chunk.
func (c *column) begin(file []byte, at chunk) error {
	if at.elsewhere {
		return errors.New("is in another file, which is not read")
	}
	if at.from < 0 || at.size < 0 || at.from > int64(len(file)) || at.size > int64(len(file))-at.from {
		return errors.New("claims to be outside of the file")
	}
	c.release()
	c.codec, c.src, c.left, c.inPage = at.codec, file[at.from:at.from+at.size], at.values, 0
	return c.advance()
}

func (c *column) release() {
	c.memory.held -= c.held + c.dicts
	c.held, c.dicts, c.dict, c.values = 0, 0, nil, nil
}

// advance moves to the next entry.
func (c *column) advance() (err error) {
	for c.inPage == 0 {
		if c.left <= 0 {
			c.rep = -1
			return nil
		}
		if err := c.page(); err != nil {
			return err
		}
	}
	c.inPage--
	if c.of.maxRep > 0 {
		if c.rep, err = level(&c.reps, c.of.maxRep); err != nil {
			return err
		}
	} else {
		c.rep = 0
	}
	c.def = 0
	if c.of.def > 0 {
		c.def, err = level(&c.defs, c.of.def)
	}
	return err
}

func level(h *hybrid, highest int) (int, error) {
	n, err := h.next()
	if err == nil && int(n) > highest {
		err = errEncoding
	}
	return int(n), err
}

// header is the header of a page.
type header struct {
	kind, size, packed, crc int64
	checked                 bool
	values, encoding        int64
	defBytes, repBytes      int64 // of a page of version 2
	plain                   bool  // not compressed
}

// The kinds of pages.
const (
	pageData   = 0
	pageDict   = 2
	pageDataV2 = 3
)

func (t *thrift) header() (h header) {
	t.fields(func(id int64, kind byte) {
		switch {
		case kind == thriftStruct && (id == 5 || id == 7 || id == 8):
			t.fields(func(inner int64, kind byte) {
				if id == 8 && inner == 7 {
					h.plain = kind == thriftFalse
				}
				if kind != thriftI32 {
					t.skip(kind, 0)
					return
				}
				n := t.int()
				switch {
				case inner == 1:
					h.values = n
				case id != 8 && inner == 2, id == 8 && inner == 4:
					h.encoding = n
				case id == 5 && (inner == 3 || inner == 4) && n != encodingRLE:
					t.fail(errors.New("levels are in packed bits, as of 2013, which are not read"))
				case id == 8 && inner == 5:
					h.defBytes = n
				case id == 8 && inner == 6:
					h.repBytes = n
				}
			})
		case kind != thriftI32:
			t.skip(kind, 0)
		case id == 1:
			h.kind = t.int()
		case id == 2:
			h.size = t.int()
		case id == 3:
			h.packed = t.int()
		case id == 4:
			h.crc, h.checked = t.int(), true
		default:
			t.int()
		}
	})
	return h
}

// page reads the next page.
func (c *column) page() error {
	t := thrift{src: c.src}
	h := t.header()
	data := t.take(uint64(max(0, h.packed))) // #nosec G115 -- not negative
	switch {
	case t.err != nil:
		return t.err
	case h.size < 0 || h.packed < 0 || h.values < 0 || h.defBytes < 0 || h.repBytes < 0:
		return errors.New("a page claims to be shorter than nothing")
	case h.checked && crc32.ChecksumIEEE(data) != uint32(h.crc): // #nosec G115 -- of 32 bits, signed
		return errors.New("the checksum of a page does not match: the page is damaged")
	}
	c.src = t.src
	switch h.kind {
	case pageData, pageDataV2:
		if h.values > c.left {
			return fmt.Errorf("a page claims to have %d values, and there are %d left", h.values, c.left)
		}
		c.left -= h.values
		c.inPage = h.values
		return c.data(h, data)
	case pageDict:
		if c.dict != nil {
			return errors.New("has two dictionaries")
		}
		held, page, err := c.decompress(data, h.size, 4*h.values)
		if err == nil {
			c.dicts = held
			c.dict, err = newDictionary(c.of.element, page, h.values)
		}
		return err
	}
	return nil
}

// data begins a page of values.
func (c *column) data(h header, data []byte) (err error) {
	c.memory.held -= c.held
	c.held = 0
	var levels []byte
	if n := h.defBytes + h.repBytes; h.kind == pageDataV2 {
		if n > int64(len(data)) || n > h.size {
			return errShort
		}
		levels, data, h.size = data[:n], data[n:], h.size-n
	}
	if !h.plain {
		if c.held, data, err = c.decompress(data, h.size, 0); err != nil {
			return err
		}
	}
	reps, defs := levels[:min(h.repBytes, int64(len(levels)))], levels[min(h.repBytes, int64(len(levels))):]
	if h.kind == pageData {
		if c.of.maxRep > 0 {
			if reps, data, err = prefixed(data); err != nil {
				return err
			}
		}
		if c.of.def > 0 {
			if defs, data, err = prefixed(data); err != nil {
				return err
			}
		}
	}
	c.reps, c.defs = hybrid{src: reps, width: widthOf(c.of.maxRep)}, hybrid{src: defs, width: widthOf(c.of.def)}
	c.values, err = none{}, nil
	if len(data) > 0 {
		c.values, err = newValues(c.of.element, h.encoding, data, c.dict)
	}
	return err
}

// none are the values of a page that is all null.
type none struct{}

func (none) next() (value, error) { return value{}, errShort }

// prefixed returns levels after their length.
func prefixed(data []byte) (levels, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errShort
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	if n > uint64(len(data)-4) {
		return nil, nil, errShort
	}
	return data[4 : 4+n], data[4+n:], nil
}

// decompress takes memory for size bytes, plus beside, if there is room. It returns how much it took.
func (c *column) decompress(data []byte, size, beside int64) (held int, page []byte, err error) {
	if c.codec == 0 {
		size = 0
	}
	need := size + beside
	if need > int64(c.memory.most-c.memory.held) {
		return 0, nil, codec.ErrLimit
	}
	if c.codec == 0 {
		page = data
	} else if page, err = decompressed(c.codec, data, int(size)); err == nil && len(page) != int(size) {
		err = fmt.Errorf("a page is %d bytes long and claims %d", len(page), size)
	}
	if err != nil {
		return 0, nil, err
	}
	c.memory.held += int(need)
	return int(need), page, nil
}

// decompressed decompresses a page of up to size bytes.
func decompressed(method int64, data []byte, size int) (page []byte, err error) {
	switch method {
	case 1:
		n, err := snappy.DecodedLen(data)
		if err != nil || n != size {
			return nil, fmt.Errorf("a page is not %d bytes in Snappy", size)
		}
		return snappy.Decode(nil, data)
	case 2:
		page, err = compression.Decompress(compression.Gzip, data, int64(size))
	case 4:
		page, err = io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(data)), int64(size)+1))
	case 6:
		page, err = compression.Decompress(compression.Zstd, data, int64(size))
	case 7:
		if size/256 > len(data) { // a byte can expand to at most 255
			return nil, errShort
		}
		page = make([]byte, size)
		n, err := lz4.UncompressBlock(data, page)
		return page[:max(0, n)], err
	default:
		return nil, fmt.Errorf("is compressed by a method (%d) that is not read: write it with snappy, gzip, brotli, zstd or lz4_raw", method)
	}
	if errors.Is(err, compression.ErrTooLarge) {
		err = fmt.Errorf("a page is longer than the %d bytes that it claims", size)
	}
	return page, err
}
