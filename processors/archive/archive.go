// Package archive is the batch step `archive`: it turns a batch into one message. Start at [Config]. Each format is
// one function.
package archive

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/formats"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Config configures the archive step.
type Config struct {
	Lines     *Lines  `yaml:"lines" oneof:"format" doc:"Each payload on its own line. A JSON document is written on one line; any other payload with several lines fails."`
	JSONArray *Array  `yaml:"json_array" oneof:"format" doc:"One array of all documents."`
	CSV       *CSV    `yaml:"csv" oneof:"format" doc:"A header line and a line for each document."`
	Tar       *Tar    `yaml:"tar" oneof:"format" doc:"A tar archive with a file for each payload."`
	Concat    *Concat `yaml:"concat" oneof:"format" doc:"All payloads, one after the other."`

	Parquet *formats.ParquetWrites `yaml:"parquet" oneof:"format" doc:"One Parquet file, with a row for each document."`
}

// Lines has no options.
type Lines struct{}

// Array has no options.
type Array struct{}

// CSV are the options of csv.
type CSV struct {
	Columns   []string        `yaml:"columns" doc:"Names of the columns, for lines without a header; by default the first document's fields, named in a header line."`
	Delimiter codec.Delimiter `yaml:"delimiter" doc:"The character between values; a comma by default."`
}

// Traits reports the formats that write many lines.
func (c Config) Traits() engine.Traits {
	return engine.Traits{ManyLines: c.Lines != nil || c.CSV != nil}
}

// CheckConfig checks the names of columns.
func (c *CSV) CheckConfig(report func(path, message, remedy string)) {
	(&codec.CSV{Columns: c.Columns}).CheckConfig(report)
}

// Tar are the options of tar.
type Tar struct {
	Name expr.Template `yaml:"name" doc:"Name of each file; its number by default. It must not lead out of the archive."`
}

// Concat are the options of concat.
type Concat struct {
	Separator string `yaml:"separator" doc:"Text between two payloads. A payload that contains it fails, unless it is JSON that can be written without it."`
}

const doc = `
Turns a batch into one message. A message that can't be part of it fails alone; the
others are archived. Later steps and the output see the archive: its fields if it is a
JSON document, raw(), the first message's metadata, and batch_key().

    batchers:
      all:
        batch: {size: 100, timeout: 1s}
        processors:
          - archive: lines
          - archive: {tar: {name: "$(id).json"}}
          - archive: {csv: {columns: [id, total]}}
          - archive: parquet                 # the same as encode: parquet, which says more
        output: out
`

func init() {
	engine.Register(engine.Processors, "archive", doc, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	switch {
	case c.Lines != nil:
		return archiver(func() format { return lines{} }), nil
	case c.JSONArray != nil:
		return archiver(func() format { return array{} }), nil
	case c.CSV != nil:
		options := codec.CSV{Columns: c.CSV.Columns, Delimiter: c.CSV.Delimiter}
		return archiver(func() format { return &table{codec.Table{CSV: &options}} }), nil
	case c.Tar != nil:
		return archiver(func() format { return newTarball(c.Tar.Name) }), nil
	case c.Concat != nil:
		return archiver(func() format { return &concat{separator: c.Concat.Separator} }), nil
	case c.Parquet != nil:
		return c.Parquet.Archiver(), nil
	}
	return nil, errors.New("archive needs a format, such as `archive: lines`")
}

// format writes one archive.
type format interface {
	// append appends m to the archive. On an error, m is not part of it, and dst is unchanged.
	append(dst []byte, m *engine.Message) ([]byte, error)
	// finish completes the archive.
	finish(dst []byte) ([]byte, error)
}

// archiver makes a format for each batch.
type archiver func() format

// Traits reports that the step needs whole batches.
func (archiver) Traits() engine.Traits { return engine.Traits{WholeBatches: true} }

// Process archives all messages that fit the format.
func (a archiver) Process(_ context.Context, b *engine.Batch) error {
	size, live := 0, 0
	for m := range b.All() {
		size += m.Size() + 1
	}
	f := a()
	out := make([]byte, 0, size+size/16)
	for m := range b.All() {
		var err error
		if out, err = f.append(out, m); err != nil {
			m.Fail(err)
			continue
		}
		live++
	}
	if live == 0 {
		return nil
	}
	out, err := f.finish(out)
	if err != nil {
		return err
	}
	b.Merge(out, b.All())
	return nil
}
