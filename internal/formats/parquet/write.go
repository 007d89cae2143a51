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

// Writes are the options of a step that makes one Parquet file of a batch.
type Writes struct {
	Schema      Schema `yaml:"schema" doc:"Columns and their types, in the order of the file: bool, int32, int64, float, double, text, bytes (base64 in the document), json, decimal(12,2), date, timestamp(ms) (or us, ns; us by default), uuid; [TYPE] is a list, a mapping of names and types is an object, {\"*\": TYPE} is an object with any keys (a map). Columns may be null unless the type ends in the word required. By default the types are inferred from each batch."`
	DropUnknown bool   `yaml:"drop_unknown" doc:"Leave out fields that the schema does not name; otherwise their message fails."`
	Compression string `yaml:"compression" check:"oneof=snappy|zstd|gzip|none" default:"snappy" doc:"How columns are compressed."`
	RowGroup    int    `yaml:"row_group" check:"min=100" default:"122880" doc:"Rows in a row group: readers skip whole groups, and read several at once."`
}

var compressions = map[string]compress.Codec{"snappy": &parquet.Snappy, "zstd": &parquet.Zstd, "gzip": &parquet.Gzip,
	"none": &parquet.Uncompressed}

// Archiver is the step that makes one message of a batch, the file. What does not fit fails alone, with class permanent.
func (w *Writes) Archiver() engine.Processor { return archiver{w} }

type archiver struct{ *Writes }

// Traits says that it works on whole batches.
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

// document is the text of an object, or of a list of objects.
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

// inferred is a schema for a batch, or nil if no document has a field.
func inferred(b *engine.Batch) *node {
	var in inference
	for m := range b.All() {
		json, err := document(m)
		switch {
		case err != nil:
		case json[0] == '{':
			in.see(json)
		default:
			for item := range doc.Elements(json) {
				if item[0] == '{' {
					in.see(item)
				}
			}
		}
	}
	return in.schema()
}

// file is being written.
type file struct {
	rows
	out      bytes.Buffer
	w        *parquet.GenericWriter[any]
	rowGroup int
	pending  int // rows that are in rows only
	values   int // of those
	group    int // rows in the row group
	messages int
}

// Bounds of memory beside the file.
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

// advance writes what is enough for that.
func (f *file) advance() error {
	switch {
	case f.group+f.pending >= f.rowGroup:
		return f.endGroup()
	case f.values >= mostPending:
		return f.flush()
	}
	return nil
}

// flush hands the pending rows to the library, which encodes and compresses them.
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
