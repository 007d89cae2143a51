package framing

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/csv"
)

// OutConfig joins an output's records to a stream. Outputs inline it.
type OutConfig struct {
	Framing OutFraming `yaml:"framing" doc:"How records are written; lines by default."`
}

// OutFraming is the choice of a framing for writing. The zero OutFraming is lines.
type OutFraming struct {
	Lines     *Plain  `yaml:"lines" oneof:"framing,optional" doc:"A line feed after each payload. A JSON document is written on one line; any other payload with several lines fails."`
	Whole     *Plain  `yaml:"whole" oneof:"framing,optional" doc:"Payloads as they are, with nothing between."`
	CSV       *OutCSV `yaml:"csv" oneof:"framing,optional" doc:"One row of delimited text for each JSON object."`
	Delimiter *string `yaml:"delimiter" oneof:"framing,optional" doc:"This text after each payload. A payload that contains it fails, unless it is JSON that can be written without it."`
	Length    *int    `yaml:"length" oneof:"framing,optional" doc:"Each payload after its length, a big-endian number of this many bytes: 1, 2, 4 or 8."`
	Messages  *Plain  `yaml:"messages" oneof:"framing,optional" doc:"Payload and metadata as one JSON line, which inputs with this framing read back."`
}

// OneLine reports whether each record is a line, and nothing else.
func (c *OutConfig) OneLine() bool { return c.Framing == OutFraming{} || c.Framing.Lines != nil }

// CheckConfig reports options that can't work.
func (f *OutFraming) CheckConfig(report func(path, message, remedy string)) {
	if f.Delimiter != nil && *f.Delimiter == "" {
		report("delimiter", "must not be empty", "write whole for payloads with nothing between")
	}
	if f.Length != nil && !validPrefix(*f.Length) {
		report("length", "must be 1, 2, 4 or 8", "write {length: 4}")
	}
}

// OutCSV are the options of the framing csv for writing.
type OutCSV struct {
	Columns   []string `yaml:"columns" check:"required,nonempty" doc:"Fields to write, in this order; others are omitted, missing ones are empty."`
	Delimiter string   `yaml:"delimiter" default:"," doc:"The character between fields."`
	Header    bool     `yaml:"header" default:"true" doc:"New files begin with the names of the columns."`
}

// CheckConfig reports options that can't work.
func (c *OutCSV) CheckConfig(report func(path, message, remedy string)) {
	(&CSV{Delimiter: c.Delimiter, Columns: c.Columns}).CheckConfig(report)
}

// Writer joins payloads to a stream. It is stateless and safe for concurrent use.
type Writer struct {
	Head []byte // beginning of a new file, or nil

	// Append appends a message as a record. On an error, which concerns only this message, dst is returned unchanged.
	Append func(dst []byte, m *engine.Message) ([]byte, error)
}

// Writer makes the writer.
func (c *OutConfig) Writer() *Writer {
	switch f := &c.Framing; {
	case f.Whole != nil:
		return &Writer{Append: func(dst []byte, m *engine.Message) ([]byte, error) {
			return append(dst, m.Bytes()...), nil
		}}
	case f.CSV != nil:
		return newRows(f.CSV)
	case f.Delimiter != nil:
		d := *f.Delimiter
		return &Writer{Append: func(dst []byte, m *engine.Message) ([]byte, error) {
			return AppendSeparated(dst, m.Bytes(), d, otherFraming)
		}}
	case f.Length != nil:
		prefix := *f.Length
		return &Writer{Append: func(dst []byte, m *engine.Message) ([]byte, error) {
			return appendLength(dst, m.Bytes(), prefix)
		}}
	case f.Messages != nil:
		return &Writer{Append: func(dst []byte, m *engine.Message) ([]byte, error) {
			return appendMessage(dst, m), nil
		}}
	}
	return &Writer{Append: func(dst []byte, m *engine.Message) ([]byte, error) {
		line, err := OneLine(m.Bytes(), "\n", otherFraming)
		if err != nil {
			return dst, err
		}
		return append(append(dst, line...), '\n'), nil
	}}
}

// otherFraming is the remedy for a payload that would read back as several records.
const otherFraming = "write `framing: whole` for an archive or file that is complete in itself, `framing: {length: 4}`, or `encode: " +
	"base64` before the output"

func appendLength(dst, body []byte, prefix int) ([]byte, error) {
	n := uint64(len(body))
	if prefix < 8 && n >= 1<<(8*prefix) {
		return dst, engine.Errorf(engine.Rejected,
			"payload of %d bytes is too long for a length of %d bytes (write a larger length)", n, prefix)
	}
	for i := prefix - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return append(dst, body...), nil
}

// newRows writes objects as records of delimited text.
func newRows(c *OutCSV) *Writer {
	comma := rune(c.Delimiter[0])
	w := &Writer{}
	paths := make([]doc.Path, len(c.Columns))
	for i, name := range c.Columns {
		paths[i] = doc.MakePath(name)
		if c.Header {
			w.Head = csv.AppendField(w.Head, name, comma, i, len(c.Columns))
		}
	}
	w.Append = func(dst []byte, m *engine.Message) ([]byte, error) {
		from := len(dst)
		err := m.Doc().Object()
		if m.DeadLetter() { // a dead letter is written as far as possible
			err = m.Doc().Valid()
		}
		if err != nil {
			return dst, engine.ErrorOf(err, engine.Permanent)
		}
		for i, p := range paths {
			value, found, err := m.Doc().Raw(p)
			if err != nil {
				return dst[:from], engine.WithClass(engine.Decode, err)
			}
			text := ""
			if found {
				if err := doc.Surrogate(value); err != nil {
					return dst[:from], engine.ErrorOf(err, engine.Permanent)
				}
				text = codec.Cell(value)
			}
			dst = csv.AppendField(dst, text, comma, i, len(paths))
		}
		return dst, nil
	}
	return w
}
