package parquet

import (
	"errors"
	"strconv"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// group reads the rows of a row group. row is the number of the first.
func (a *assembler) group(file []byte, root *branch, g rowGroup, row int) (int, error) {
	for i := range a.columns {
		c := &a.columns[i]
		if err := c.begin(file, g.chunks[c.of.column]); err != nil {
			return row, codec.Under(c.of.name, err)
		}
	}
	for range g.rows {
		if row > 0 {
			a.dst = append(a.dst, ',')
		}
		if err := a.value(root, 0, 0); err != nil {
			return row, codec.Under(strconv.Itoa(row), err)
		}
		a.memory.most = a.most - len(a.dst) // pages count as part of the result
		row++
	}
	for i := range a.columns {
		if c := &a.columns[i]; c.rep >= 0 {
			return row, codec.Under(c.of.name, errLevels)
		}
	}
	return row, nil
}

var errLevels = errors.New("the columns do not have the same rows")

// value appends the value below b. Its entries have this repetition level, and a definition level of at least floor.
func (a *assembler) value(b *branch, rep, floor int) error {
	if len(a.dst) > a.most || a.entries/perByte > a.most {
		return codec.ErrLimit
	}
	if b.shape == shapeLeaf {
		return a.leaf(b, rep, floor)
	}
	if b.first == b.last {
		a.dst = append(a.dst, "{}"...) // an object without columns
		return nil
	}
	c := &a.columns[b.first]
	switch {
	case c.rep != rep || c.def < floor:
		return errLevels
	case c.def < b.def:
		a.dst = append(a.dst, "null"...)
		return a.skip(b, rep, floor, b.def)
	case b.shape == shapeObject:
		return a.object(b, rep)
	case c.def < b.itemDef:
		if b.shape == shapeList {
			a.dst = append(a.dst, "[]"...)
		} else {
			a.dst = append(a.dst, "{}"...)
		}
		return a.skip(b, rep, b.def, b.itemDef)
	case b.shape == shapeList:
		return a.list(b, rep)
	}
	return a.mapping(b, rep)
}

// skip skips an entry of each column below b, which has no value here.
func (a *assembler) skip(b *branch, rep, floor, ceiling int) error {
	for i := b.first; i < b.last; i++ {
		c := &a.columns[i]
		if c.rep != rep || c.def < floor || c.def >= ceiling {
			return errLevels
		}
		if err := c.advance(); err != nil {
			return codec.Under(c.of.name, err)
		}
	}
	a.entries += b.last - b.first
	return nil
}

func (a *assembler) leaf(b *branch, rep, floor int) error {
	c := &a.columns[b.first]
	if c.rep != rep || c.def < floor {
		return errLevels
	}
	a.entries++
	if c.def < b.def {
		a.dst = append(a.dst, "null"...)
		return c.advance()
	}
	v, err := c.values.next()
	if err != nil {
		return err
	}
	if 2*len(v.bytes) > a.most-len(a.dst)+1<<10 {
		return codec.ErrLimit
	}
	if a.dst, err = a.renders[b.first](a.dst, v); err != nil {
		return err
	}
	return c.advance()
}

func (a *assembler) object(b *branch, rep int) error {
	a.dst = append(a.dst, '{')
	for i, item := range b.items {
		if i > 0 {
			a.dst = append(a.dst, ',')
		}
		a.dst = append(a.dst, item.key...)
		if err := a.value(item, rep, b.def); err != nil {
			return codec.Under(item.name, err)
		}
	}
	a.dst = append(a.dst, '}')
	return nil
}

func (a *assembler) list(b *branch, rep int) error {
	a.dst = append(a.dst, '[')
	for n := 0; ; n++ {
		if n > 0 {
			a.dst = append(a.dst, ',')
		}
		if err := a.value(b.items[0], rep, b.itemDef); err != nil {
			return codec.Under(strconv.Itoa(n), err)
		}
		if a.columns[b.first].rep != b.rep {
			a.dst = append(a.dst, ']')
			return nil
		}
		rep = b.rep
	}
}

// mapping appends an object. Keys that are not text become text.
func (a *assembler) mapping(b *branch, rep int) error {
	a.dst = append(a.dst, '{')
	for n := 0; ; n++ {
		if n > 0 {
			a.dst = append(a.dst, ',')
		}
		at := len(a.dst)
		if err := a.value(b.items[0], rep, b.itemDef); err != nil {
			return codec.Under("key", err)
		}
		switch a.dst[at] {
		case '"':
		case '{', '[':
			return errors.New("a key is neither text nor a number")
		default:
			key := strconv.Quote(string(a.dst[at:]))
			a.dst = append(a.dst[:at], key...)
		}
		a.dst = append(a.dst, ':')
		if err := a.value(b.items[1], rep, b.itemDef); err != nil {
			return codec.Under("value", err)
		}
		if a.columns[b.first].rep != b.rep {
			a.dst = append(a.dst, '}')
			return nil
		}
		rep = b.rep
	}
}
