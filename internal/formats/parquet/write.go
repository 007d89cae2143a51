package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Writes are the options of a step that turns a batch into one Parquet file.
type Writes struct {
	Schema      Schema `yaml:"schema" doc:"Columns and their types, in the order of the file: bool, int32, int64, float, double, text, bytes (base64 in the document), json, decimal(12,2), date, timestamp(ms) (or us, ns; us by default), uuid; [TYPE] is a list, a mapping of names and types is an object, {\"*\": TYPE} is an object with any keys (a map). Columns may be null unless the type ends in the word required. By default the types are inferred from each batch."`
	DropUnknown bool   `yaml:"drop_unknown" doc:"Leave out fields that the schema does not name; otherwise their message fails."`
	Compression string `yaml:"compression" check:"oneof=snappy|zstd|gzip|none" default:"snappy" doc:"How columns are compressed."`
	RowGroup    int    `yaml:"row_group" check:"min=100" default:"122880" doc:"Rows in a row group: readers skip whole groups, and read several at once."`
}

var compressions = map[string]compress.Codec{"snappy": &parquet.Snappy, "zstd": &parquet.Zstd, "gzip": &parquet.Gzip,
	"none": &parquet.Uncompressed}

// Archiver returns the step that turns a batch into one message, the file. Messages that do not fit fail by
// themselves, with class permanent.
func (w *Writes) Archiver() engine.Processor { return archiver{w} }

type archiver struct{ *Writes }

// Traits reports that the step needs whole batches.
func (archiver) Traits() engine.Traits { return engine.Traits{WholeBatches: true} }

// Process writes all messages that fit.
func (a archiver) Process(_ context.Context, b *engine.Batch) error {
	root := a.Schema.root
	if root == nil {
		root = inferred(b)
	}
	var f *file
	for m := range b.All() {
		json, err := document(m)
		switch {
		case err != nil:
		case root == nil:
			err = errors.New("parquet: an object without fields has no columns (name them in a schema)")
		default:
			if f == nil {
				f = a.file(root)
			}
			err = f.add(json)
		}
		if err != nil {
			m.Fail(err)
			continue
		}
		if err := f.advance(); err != nil {
			return fmt.Errorf("parquet: %w", err)
		}
	}
	if f == nil || f.messages == 0 {
		return nil
	}
	if err := f.end(); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	b.Merge(f.out.Bytes(), b.All())
	return nil
}

// document returns the text of an object, or of a list of objects.
func document(m *engine.Message) ([]byte, error) {
	if err := m.Doc().Valid(); err != nil {
		return nil, err
	}
	json := bytes.TrimSpace(m.Bytes())
	if err := doc.Surrogate(json); err != nil {
		return nil, err
	}
	if json[0] != '{' && json[0] != '[' {
		return nil, fmt.Errorf("parquet: %s is neither an object nor a list of objects", codec.Kind(json))
	}
	return json, nil
}

// inferred infers a schema from a batch. It returns nil if no document has a field.
func inferred(b *engine.Batch) *node {
	var in inference
	for m := range b.All() {
		json, err := document(m)
		switch {
		case err != nil:
		case json[0] == '{':
			in.addDocument(json)
		default:
			for item := range doc.Elements(json) {
				if item[0] == '{' {
					in.addDocument(item)
				}
			}
		}
	}
	return in.schema()
}

// file is a Parquet file being written.
type file struct {
	rows
	out      bytes.Buffer
	w        *parquet.GenericWriter[any]
	rowGroup int
	pending  int // rows that the library does not have yet
	values   int // their values
	group    int // rows in the row group
	messages int
}

// Limits of memory besides the file.
const (
	mostPending = 32 << 10 // values
	pageBytes   = 256 << 10
	pagesBytes  = 32 << 20 // of all columns
)

func (w *Writes) file(root *node) *file {
	f := &file{rows: rows{root: root, unknown: w.DropUnknown && w.Schema.root != nil}, rowGroup: w.RowGroup}
	f.w = parquet.NewGenericWriter[any](&f.out, parquet.NewSchema("flowd", root.bare()), parquet.Compression(compressions[w.Compression]),
		parquet.CreatedBy("flowd", "", ""), parquet.WriteBufferSize(0), parquet.DictionaryMaxBytes(1<<20),
		parquet.PageBufferSize(min(pageBytes, pagesBytes/root.end)))
	return f
}

// add adds a message.
func (f *file) add(json []byte) error {
	n, err := f.message(json)
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	f.messages++
	f.pending += n
	f.values += f.added
	return nil
}

// advance flushes rows, and ends row groups, when there are enough.
func (f *file) advance() error {
	switch {
	case f.group+f.pending >= f.rowGroup:
		return f.endGroup()
	case f.values >= mostPending:
		return f.flush()
	}
	return nil
}

// flush passes the pending rows to the library, which encodes and compresses them.
func (f *file) flush() error {
	for i, c := range f.w.ColumnWriters() {
		if _, err := c.WriteRowValues(f.columns[i]); err != nil {
			return codec.Under(fmt.Sprintf("column %d", i), err)
		}
		clear(f.columns[i])
		f.columns[i] = f.columns[i][:0]
	}
	f.group += f.pending
	f.pending, f.values = 0, 0
	return nil
}

func (f *file) endGroup() error {
	if err := f.flush(); err != nil {
		return err
	}
	f.group = 0
	return f.w.Flush()
}

func (f *file) end() error {
	if err := f.endGroup(); err != nil {
		return err
	}
	return f.w.Close()
}
