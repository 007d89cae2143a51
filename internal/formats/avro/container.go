package avro

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/golang/snappy"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/compression"
)

var _ codec.Expanding = (*container)(nil)

// container reads object container files: a schema, then blocks of values. A file decodes to the list of its values.
type container struct {
	options Options
	last    atomic.Pointer[compiled] // files of one source usually have the same schema
}

type compiled struct {
	text    string
	program *Program
}

const (
	magic    = "Obj\x01"
	syncSize = 16
)

// Decode appends the list of the values of the file that payload is.
func (c *container) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, codec.MaxSize)
}

// Encode returns an error: it would write one file per message.
func (c *container) Encode(dst, _ []byte) ([]byte, error) {
	return dst, errors.New("avro: container files can't be written")
}

// Working returns 0: decompressed blocks count as part of the result.
func (c *container) Working([]byte) int { return 0 }

// DecodeWithin is like Decode.
func (c *container) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	r := reader{src: payload, dst: append(dst, '['), most: len(dst) + limit}
	err := c.file(&r)
	switch {
	case errors.Is(err, codec.ErrLimit) && limit >= codec.MaxSize:
		return dst, fmt.Errorf("avro: %w", errTooMuch)
	case errors.Is(err, codec.ErrLimit):
		return dst, codec.ErrLimit
	case err != nil:
		return dst, fmt.Errorf("avro: %w", err)
	}
	return append(r.dst, ']'), nil
}

func (c *container) file(r *reader) error {
	rest, ok := bytes.CutPrefix(r.src, []byte(magic))
	if !ok {
		return errors.New("the payload is not a container file: it does not begin with Obj and 1")
	}
	r.src = rest
	schema, method, err := r.header()
	if err != nil {
		return codec.Under("header", err)
	}
	sync, err := r.take(syncSize)
	if err != nil {
		return codec.Under("header", err)
	}
	p, err := c.program(schema)
	if err != nil {
		return err
	}
	for done := 0; len(r.src) > 0; {
		count, data, err := r.block(sync)
		if err != nil {
			return fmt.Errorf("the block after %d values: %w", done, err)
		}
		if data, err = decompressed(method, data, max(0, r.most-len(r.dst))); err != nil {
			return fmt.Errorf("the block after %d values: %w", done, err)
		}
		b := reader{src: data, dst: r.dst, most: r.most - len(data), depth: 1}
		for range count {
			if done > 0 {
				b.dst = append(b.dst, ',')
			}
			if err = b.value(p.root); err == nil && len(b.dst) > b.most {
				err = codec.ErrLimit
			}
			if err != nil {
				return codec.Under(strconv.Itoa(done), err)
			}
			done++
		}
		if len(b.src) > 0 {
			return fmt.Errorf("%d bytes are left after the %d values of a block", len(b.src), count)
		}
		r.dst = b.dst
	}
	return nil
}

// header returns the text of the schema and the compression method.
func (r *reader) header() (schema, method string, err error) {
	for {
		count, err := r.count()
		if err != nil || count == 0 {
			return schema, method, err
		}
		for ; count > 0; count-- {
			name, err := r.bytes()
			if err != nil {
				return "", "", err
			}
			value, err := r.bytes()
			if err != nil {
				return "", "", err
			}
			switch string(name) {
			case "avro.schema":
				schema = string(value)
			case "avro.codec":
				method = string(value)
			}
		}
	}
}

// program returns the compiled schema of a file.
func (c *container) program(text string) (*Program, error) {
	if known := c.last.Load(); known != nil && known.text == text {
		return known.program, nil
	}
	p, err := Compile(&engine.Schema{Text: text}, c.options)
	if err != nil {
		return nil, fmt.Errorf("the schema of the file: %w", err)
	}
	c.last.Store(&compiled{text, p})
	return p, nil
}

// block returns the number of values, and their bytes.
func (r *reader) block(sync []byte) (count int64, data []byte, err error) {
	if count, err = r.varint(); err == nil && count < 0 {
		err = fmt.Errorf("claims to have %d values", count)
	}
	if err != nil {
		return 0, nil, err
	}
	if data, err = r.bytes(); err != nil {
		return 0, nil, err
	}
	after, err := r.take(syncSize)
	if err == nil && !bytes.Equal(after, sync) {
		err = errors.New("does not end with the marker of the file: it is damaged")
	}
	return count, data, err
}

// decompressed returns a block of up to most bytes, or codec.ErrLimit.
func decompressed(method string, data []byte, most int) ([]byte, error) {
	switch method {
	case "", "null":
		return data, nil
	case "deflate":
		out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), int64(most)+1))
		if err == nil && len(out) > most {
			err = codec.ErrLimit
		}
		return out, err
	case "bzip2":
		return whole(compression.Bzip2, data, most)
	case "zstandard":
		return whole(compression.Zstd, data, most)
	case "snappy": // followed by a checksum of the decompressed data
		if len(data) < crc32.Size {
			return nil, errShort
		}
		body, sum := data[:len(data)-crc32.Size], binary.BigEndian.Uint32(data[len(data)-crc32.Size:])
		if n, err := snappy.DecodedLen(body); err == nil && n > most {
			return nil, codec.ErrLimit
		}
		out, err := snappy.Decode(nil, body)
		if err == nil && crc32.ChecksumIEEE(out) != sum {
			err = errors.New("the checksum of a block does not match: the block is damaged")
		}
		return out, err
	}
	return nil, fmt.Errorf("blocks are compressed by %.40q (null, deflate, snappy, zstandard and bzip2 are read)", method)
}

func whole(f compression.Format, data []byte, most int) ([]byte, error) {
	out, err := compression.Decompress(f, data, int64(most))
	if errors.Is(err, compression.ErrTooLarge) {
		return nil, codec.ErrLimit
	}
	return out, err
}
