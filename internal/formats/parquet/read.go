package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

var (
	_ codec.Expanding = (*Reads)(nil)
	_ codec.Packed    = (*Reads)(nil)
)

// Reads are the options of a step that reads files. It is a codec whose payload is a file, and whose document is the
// list of its rows.
//
// Files are read without the library that writes them: it trusts the sizes in a file, and reads memory outside of
// Go's checks. This code trusts no size before it has checked it.
type Reads struct {
	Columns []string `yaml:"columns" doc:"Columns to read, such as id or customer.name; the others are not even decompressed. By default all."`
}

// Packed marks a codec whose payloads are bytes.
func (*Reads) Packed() {}

// Encode returns an error: writing needs a batch.
func (*Reads) Encode(dst, _ []byte) ([]byte, error) {
	return dst, errors.New("parquet: a file is made of a batch")
}

// Decode appends the rows of a file, as a list.
func (r *Reads) Decode(dst, payload []byte) ([]byte, error) {
	return r.DecodeWithin(dst, payload, codec.MaxSize)
}

// Working returns the memory for the columns, estimated from the footer. Pages count as part of the result while they
// are read.
func (r *Reads) Working(payload []byte) int {
	if len(payload) < leastFile {
		return 0
	}
	footer := min(len(payload), int(binary.LittleEndian.Uint32(payload[len(payload)-8:])))
	return min(128*footer, 32*footer+32<<20) // a short footer may consist mostly of columns, whose number is limited
}

// DecodeWithin is like Decode.
func (r *Reads) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	a := assembler{dst: dst, most: len(dst) + limit, memory: memory{most: limit}}
	err := a.file(payload, r.Columns)
	switch {
	case errors.Is(err, codec.ErrLimit) && limit >= codec.MaxSize:
		return dst, fmt.Errorf("parquet: decodes to more than %d MiB (read fewer `columns`, or write smaller files)", codec.MaxSize>>20)
	case errors.Is(err, codec.ErrLimit):
		return dst, codec.ErrLimit
	case err != nil:
		return dst, fmt.Errorf("parquet: %w", err)
	}
	return a.dst, nil
}

// assembler makes rows from columns.
type assembler struct {
	dst     []byte
	most    int // of dst
	memory  memory
	columns []column
	renders []render
	entries int // entries read so far
}

// perByte is how many entries may be read per byte of the limit: entries below a null produce no text.
const perByte = 4

func (a *assembler) file(file []byte, paths []string) error {
	f, err := readFooter(file)
	if err != nil {
		return err
	}
	root, err := f.root()
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		all := names(root)
		found := map[string]bool{}
		root.pick(paths, "", found)
		for _, p := range paths {
			if !found[p] {
				return fmt.Errorf("the file has no column %q (it has %s)", p, all)
			}
		}
	}
	leaves := root.number(nil)
	rows := int64(0)
	for _, g := range f.groups {
		rows += min(g.rows, int64(a.most))
	}
	if rows > int64(a.most/root.least()) {
		return codec.ErrLimit
	}
	a.columns, a.renders = make([]column, len(leaves)), make([]render, len(leaves))
	for i, leaf := range leaves {
		a.columns[i] = column{of: leaf, memory: &a.memory}
		if a.renders[i], err = renderOf(leaf.element); err != nil {
			return codec.Under(leaf.name, err)
		}
	}
	a.dst = append(a.dst, '[')
	row := 0
	for _, g := range f.groups {
		if row, err = a.group(file, root, g, row); err != nil {
			return err
		}
	}
	a.dst = append(a.dst, ']')
	return nil
}

// names lists the columns of a file, for an error.
func names(root *branch) string {
	all := map[string]bool{}
	for _, item := range root.items {
		all[item.name] = true
	}
	s := ""
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i == 20 {
			return s + ", …"
		}
		if i > 0 {
			s += ", "
		}
		s += codec.Clip(name)
	}
	return s
}
