package parquet

import "fmt"

// dictionary holds the values that pages refer to.
type dictionary struct {
	page    []byte
	size    int      // of a value; 0: see offsets
	offsets []uint32 // of each value and of the end; each value follows its length
	count   uint32
}

// newDictionary finds where values begin. Each takes at least as many bytes as its offset.
func newDictionary(e *element, page []byte, count int64) (*dictionary, error) {
	size, err := sizeOf(e)
	if err != nil || e.physical == physicalBool || count < 0 {
		return nil, errEncoding
	}
	d := &dictionary{page: page, size: size, count: uint32(count)} // #nosec G115 -- of 32 bits
	if size > 0 {
		if count > int64(len(page)/size) {
			return nil, errShort
		}
		return d, nil
	}
	if count > int64(len(page)/4) {
		return nil, errShort
	}
	d.offsets = make([]uint32, count)
	s := sized{page}
	for i := range d.offsets {
		d.offsets[i] = uint32(len(page) - len(s.src)) // #nosec G115 -- pages have sizes of 31 bits
		if _, err := s.next(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// indexed are values given by their index in a dictionary.
type indexed struct {
	at hybrid
	of *dictionary
}

func (i *indexed) next() (value, error) {
	n, err := i.at.next()
	if err == nil && n >= i.of.count {
		err = fmt.Errorf("place %d is beyond the %d values of the dictionary", n, i.of.count)
	}
	if err != nil {
		return value{}, err
	}
	if size := i.of.size; size > 0 {
		at := int(n) * size
		return valueOf(i.of.page[at : at+size]), nil
	}
	s := sized{i.of.page[i.of.offsets[n]:]}
	return s.next()
}
