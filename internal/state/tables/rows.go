package tables

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// rows is one version of a table. Everything except made is immutable. It is safe for concurrent use.
type rows struct {
	columns []string // of the key; nil: the file is an object by key
	text    []byte   // of the rows, as JSON
	parse   *records // converts the text of a row to JSON; nil: it is JSON
	spans   []span   // of the rows in text
	index   map[string]uint32
	keys    int // bytes of the keys

	made  []atomic.Pointer[any] // cached values of rows, within maxMade
	spent atomic.Int64          // bytes of the cached values
}

// span is a part of a text.
type span struct{ from, to uint32 }

// maxMade bounds the cached values of a table, in bytes. A small table is soon fully cached, and look-ups allocate
// nothing. A large one stays text, which the garbage collector does not scan.
const maxMade = 32 << 20

func (r *rows) find(keys []any) (any, error) {
	if want := max(1, len(r.columns)); len(keys) != want {
		return nil, keyCount(want, len(keys))
	}
	var room [128]byte
	key, err := appendKeys(room[:0], keys)
	if err != nil {
		return nil, err
	}
	at, ok := r.index[string(key)]
	if !ok {
		return nil, nil
	}
	return r.value(at)
}

// value returns the value of a row, which must not be changed.
func (r *rows) value(at uint32) (any, error) {
	if v := r.made[at].Load(); v != nil {
		return *v, nil
	}
	text, err := r.text[r.spans[at].from:r.spans[at].to], error(nil)
	if r.parse != nil {
		text, err = r.parse.object(text)
	}
	if err != nil {
		return nil, fmt.Errorf("the row: %w", err)
	}
	v, left, err := doc.DecodeWithin(text, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("the row: %w", err)
	}
	cost := 64 + 2*int64(math.MaxInt-left) // doc charges half of what small objects take
	if r.spent.Add(cost) > maxMade {
		r.spent.Add(-cost)
	} else if !r.made[at].CompareAndSwap(nil, &v) {
		r.spent.Add(-cost) // another goroutine was faster
	}
	return v, nil
}

func (r *rows) size() (n int, bytes schema.Size) {
	return len(r.spans), schema.Size(len(r.text) + r.keys + len(r.spans)*perRow + int(r.spent.Load()))
}

// perRow is roughly what a row takes besides its text and key: its span, its place among the values, and its place in
// the index, which is at least half full.
const perRow = 8 + 8 + 44

// keyCount returns the error of a look-up with the wrong number of keys.
func keyCount(want, got int) error {
	if want == 1 {
		return fmt.Errorf("the table has one key, not %d", got)
	}
	return fmt.Errorf("a key of the table is %d values, in the order of `key`, not %d", want, got)
}

// builder collects the rows of a file.
type builder struct {
	cfg   *Config
	unit  string // unit of at: line or row
	rows  rows
	keys  []byte
	ends  []uint32 // ends of the keys of the rows
	at    []uint32 // places of the rows in the file
	taken int      // in bytes
}

// add adds a row, which is in b.rows.text, with its key.
func (b *builder) add(row span, at int, key []any) error {
	before := len(b.keys)
	var err error
	if b.keys, err = appendKeys(b.keys, key); err != nil {
		return fmt.Errorf("%s %d: %w", b.unit, at, err)
	}
	b.ends, b.at = append(b.ends, uint32(len(b.keys))), append(b.at, uint32(at))
	b.rows.spans = append(b.rows.spans, row)
	b.taken += int(row.to-row.from) + len(b.keys) - before + perRow
	return b.cfg.fits(b.taken)
}

// fits returns an error if a table may not take this many bytes.
func (c *Config) fits(bytes int) error {
	if bytes <= int(c.MaxSize) {
		return nil
	}
	return engine.Errorf(engine.TooLarge,
		"the table takes more than %s of memory (raise `max_size`, or leave out what is not looked up)", c.MaxSize)
}

// finish builds the index. Two rows with the same key are an error, since the right one is unknown.
func (b *builder) finish() (*rows, error) {
	r := &b.rows
	r.columns = b.cfg.Key
	r.index = make(map[string]uint32, len(r.spans))
	keys := string(b.keys)
	r.keys = len(keys)
	from := uint32(0)
	for i, end := range b.ends {
		key := keys[from:end]
		if first, twice := r.index[key]; twice {
			return nil, fmt.Errorf("the key %s is in %s %d and again in %s %d (keep one, or name more fields in `key`)",
				b.shown(uint32(i)), b.unit, b.at[first], b.unit, b.at[i])
		}
		r.index[key], from = uint32(i), end
	}
	r.made = make([]atomic.Pointer[any], len(r.spans))
	return r, nil
}

// shown returns the key of a row as it was written.
func (b *builder) shown(row uint32) string {
	from := uint32(0)
	if row > 0 {
		from = b.ends[row-1]
	}
	key := b.keys[from:b.ends[row]]
	if len(b.cfg.Key) <= 1 {
		return shown([]any{string(key)})
	}
	var parts []any
	for len(key) > 0 {
		var n int
		at := 0
		for ; key[at] != ':'; at++ {
			n = 10*n + int(key[at]-'0')
		}
		parts, key = append(parts, string(key[at+1:at+1+n])), key[at+1+n:]
	}
	return shown(parts)
}
