package parquet

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// rows are documents as columns: values with the levels that say where lists and objects begin. A document that does
// not fit leaves no trace.
type rows struct {
	root    *node
	unknown bool // drop fields without a column
	columns [][]parquet.Value
	marks   []int    // lengths of the columns before the current row
	fields  [][]byte // values of the fields of the open objects
	added   int      // values of the current message
}

// mostValues bounds what one message becomes: an item of a list takes a value in each column below it, but only a few
// bytes of text.
const mostValues = 1 << 21

var (
	errMissing = errors.New("is missing, and required")
	errTwice   = errors.New("a key occurs twice")
)

// mark begins a message. undo returns to this state.
func (r *rows) mark() {
	if r.columns == nil {
		r.columns, r.marks = make([][]parquet.Value, r.root.end), make([]int, r.root.end)
	}
	for i, c := range r.columns {
		r.marks[i] = len(c)
	}
	r.added, r.fields = 0, r.fields[:0]
}

func (r *rows) undo() {
	for i, n := range r.marks {
		r.columns[i] = r.columns[i][:n]
	}
}

// message adds a message as a row, or a list as several, all or none. It returns how many.
func (r *rows) message(json []byte) (count int, err error) {
	r.mark()
	if json[0] != '[' {
		if err = r.value(r.root, json, 0, 0); err == nil {
			return 1, nil
		}
		r.undo()
		return 0, err
	}
	for item := range doc.Elements(json) {
		if err = r.value(r.root, item, 0, 0); err != nil {
			r.undo()
			return 0, codec.Under(strconv.Itoa(count), err)
		}
		count++
	}
	return count, nil
}

// put appends a value to a column. v is null, or has the column's type.
func (r *rows) put(column int, v parquet.Value, rep, def int) {
	r.columns[column] = append(r.columns[column], v.Level(rep, def, column))
	r.added++
}

// value adds a value to all columns below n. nil is a missing value.
func (r *rows) value(n *node, json []byte, rep, def int) error {
	if json == nil || json[0] == 'n' {
		if n.required {
			return errMissing
		}
		for c := n.first; c < n.end; c++ {
			r.put(c, parquet.Value{}, rep, def)
		}
		return nil
	}
	if !n.required {
		def++
	}
	if r.added > mostValues {
		return engine.Errorf(engine.TooLarge, "makes more than %d values", mostValues)
	}
	switch n.kind {
	case objects:
		return r.object(n, json, rep, def)
	case lists:
		return r.list(n, json, rep, def)
	case mappings:
		return r.mapping(n, json, rep, def)
	}
	v, err := n.leaf(json)
	if err == nil {
		r.put(n.first, v, rep, def)
	}
	return err
}

// object adds the fields in the order of the columns. Of equal keys, the last counts.
func (r *rows) object(n *node, json []byte, rep, def int) error {
	if json[0] != '{' {
		return n.unfit(json)
	}
	base := len(r.fields)
	for range n.fields {
		r.fields = append(r.fields, nil)
	}
	for name, value := range doc.Members(json) {
		i, ok := n.index[name]
		if ok {
			r.fields[base+i] = value
		} else if !r.unknown {
			return fmt.Errorf("field %q has no column (name it in the schema, or drop it with `keep` or `drop_unknown: true`)",
				codec.Clip(name))
		}
	}
	for i, f := range n.fields {
		if err := r.value(f, r.fields[base+i], rep, def); err != nil {
			return codec.Under(f.name, err)
		}
	}
	r.fields = r.fields[:base]
	return nil
}

func (r *rows) list(n *node, json []byte, rep, def int) error {
	if json[0] != '[' {
		return n.unfit(json)
	}
	count := 0
	for item := range doc.Elements(json) {
		if err := r.value(n.item, item, rep, def+1); err != nil {
			return codec.Under(strconv.Itoa(count), err)
		}
		count++
		rep = n.rep
	}
	if count == 0 {
		r.none(n, rep, def)
	}
	return nil
}

func (r *rows) mapping(n *node, json []byte, rep, def int) error {
	if json[0] != '{' {
		return n.unfit(json)
	}
	seen := map[string]bool{}
	for name, value := range doc.Members(json) {
		if seen[name] {
			return codec.Under(name, errTwice)
		}
		seen[name] = true
		r.put(n.first, parquet.ByteArrayValue([]byte(name)), rep, def+1)
		if err := r.value(n.item, value, rep, def+1); err != nil {
			return codec.Under(name, err)
		}
		rep = n.rep
	}
	if len(seen) == 0 {
		r.none(n, rep, def)
	}
	return nil
}

// none adds a list or mapping without items.
func (r *rows) none(n *node, rep, def int) {
	for c := n.first; c < n.end; c++ {
		r.put(c, parquet.Value{}, rep, def)
	}
}
