package framing

import (
	"io"
	"regexp"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/schema"
)

// Config divides an input's stream into records. Inputs inline it, with [Defaults].
type Config struct {
	Framing   Framing     `yaml:"framing" doc:"How the stream is divided into records; lines by default."`
	MaxRecord schema.Size `yaml:"max_record" check:"min=1" doc:"Largest record. A larger one becomes a failed message of class decode with the beginning of the record, marked by the metadata truncated and original_size; the stream continues after it."`
}

// Defaults are the defaults of Config.
var Defaults = Config{MaxRecord: 1 << 20}

// Framing is the choice of a framing. The zero Framing is lines.
type Framing struct {
	Lines     *Plain         `yaml:"lines" oneof:"framing,optional" doc:"One record per line. Empty lines are not records."`
	Whole     *Plain         `yaml:"whole" oneof:"framing,optional" doc:"The whole stream is one record."`
	JSON      *Plain         `yaml:"json" oneof:"framing,optional" doc:"JSON documents one after the other, or the elements of one array."`
	CSV       *CSV           `yaml:"csv" oneof:"framing,optional" doc:"Rows of delimited text, each a JSON object with the names of the header."`
	Delimiter *string        `yaml:"delimiter" oneof:"framing,optional" doc:"Records end with this text."`
	Length    *int           `yaml:"length" oneof:"framing,optional" doc:"Each record follows its length, a big-endian number of this many bytes: 1, 2, 4 or 8."`
	Start     *regexp.Regexp `yaml:"start" oneof:"framing,optional" doc:"A record begins at each line that matches this regular expression."`
	Messages  *Plain         `yaml:"messages" oneof:"framing,optional" doc:"Payload and metadata as one JSON line, as outputs with this framing write them."`
	Tar       *Plain         `yaml:"tar" oneof:"framing,optional" doc:"Each regular file of a tar archive is a record, with metadata name, mode and modified."`
}

// Plain is a framing without options.
type Plain struct{}

// CSV are the options of the framing csv.
type CSV struct {
	Delimiter string   `yaml:"delimiter" default:"," doc:"The character between fields."`
	Header    bool     `yaml:"header" default:"true" doc:"The first row names the fields. Without it and without columns a row is an array."`
	Columns   []string `yaml:"columns" doc:"Names of the fields, if no row has them; there is then no header row."`
}

// CheckConfig reports options that can't work.
func (c *CSV) CheckConfig(report func(path, message, remedy string)) {
	if len(c.Delimiter) != 1 || c.Delimiter == `"` || c.Delimiter == "\n" || c.Delimiter == "\r" {
		report("delimiter", "must be one ASCII character, not a quote or line end", `write ";" or "\t"`)
	}
	for i, name := range c.Columns {
		if slices.Contains(c.Columns[:i], name) {
			report("columns", "two columns are named "+name, "name each once")
		}
	}
}

// maxDelimiter bounds how much text two consecutive reads scan twice.
const maxDelimiter = slack

// CheckConfig reports options that can't work.
func (f *Framing) CheckConfig(report func(path, message, remedy string)) {
	if f.Delimiter != nil && (len(*f.Delimiter) == 0 || len(*f.Delimiter) > maxDelimiter) {
		report("delimiter", "must be 1 to 256 bytes long", `write {delimiter: "\0"}`)
	}
	if f.Length != nil && !validPrefix(*f.Length) {
		report("length", "must be 1, 2, 4 or 8", "write {length: 4}")
	}
	if f.Start != nil && f.Start.String() == "" {
		report("start", "needs a regular expression", `write {start: '^\d{4}-'}`)
	}
}

func validPrefix(n int) bool { return n == 1 || n == 2 || n == 4 || n == 8 }

// Reader divides r into records.
func (c *Config) Reader(r io.Reader) Reader {
	limit := int(c.MaxRecord)
	switch f := &c.Framing; {
	case f.Tar != nil:
		return newArchive(r, limit)
	case f.Messages != nil:
		return newBlocks(r, messages{max: limit}, 2*limit+64<<10, countFound)
	case f.Whole != nil:
		b := newBlocks(r, whole{}, limit, countRecords)
		b.whole = true
		return b
	case f.JSON != nil:
		return newBlocks(r, &documents{}, limit, countRecords)
	case f.CSV != nil:
		return newBlocks(r, newTable(f.CSV.Delimiter, f.CSV.Header, f.CSV.Columns), limit, countLines)
	case f.Delimiter != nil:
		return newBlocks(r, delimiter(*f.Delimiter), limit, countFound)
	case f.Length != nil:
		return newBlocks(r, newLength(*f.Length), limit, countRecords)
	case f.Start != nil:
		return newBlocks(r, &start{re: f.Start, max: limit}, limit, countLines)
	}
	return newBlocks(r, &textLines{}, limit, countFound)
}

// Resumes reports whether reading can start in the middle of a stream. Other framings need its beginning, such as a CSV
// header.
func (c *Config) Resumes() bool {
	f := &c.Framing
	header := f.CSV != nil && f.CSV.Header && f.CSV.Columns == nil
	return !header && f.Tar == nil && f.Whole == nil && f.JSON == nil
}

// Resume divides the part of a stream after a place into records. Resumes must be true.
func (c *Config) Resume(r io.Reader, from Place) Reader {
	plain := c.Reader(r)
	b, ok := plain.(*blocks)
	if !ok || from.Offset == 0 {
		return plain
	}
	switch s := b.split.(type) {
	case *textLines:
		s.begun = true
	case *table:
		s.begun = true
	}
	b.base, b.line, b.place = from.Offset, max(1, from.Line), from
	return b
}

// Decompressed divides the decompressed data of r into records. In a [Pump] it waits for memory that other streams
// use. Elsewhere Next returns a [compression.BusyError].
func (c *Config) Decompressed(f compression.Format, r io.Reader) (Reader, error) {
	plain, err := decompressed(f, r)
	if err != nil {
		return nil, err
	}
	return c.Reader(plain), nil
}

func decompressed(f compression.Format, r io.Reader) (io.ReadCloser, error) {
	var stop <-chan struct{}
	if h, ok := r.(*handover); ok {
		stop = h.pump.stop
	}
	return compression.NewReader(f, r, stop)
}

// Compression is the compression of a stream. Inputs and outputs inline it, with "auto".
type Compression struct {
	Compression string `yaml:"compression" check:"oneof=auto|none|gzip|zstd|bzip2|snappy|lz4" doc:"auto uses the Content-Encoding stored with the data, else the file's extension, else, when reading, the first bytes."`
}

// Auto reports whether the compression is detected.
func (c Compression) Auto() bool { return c.Compression == "auto" || c.Compression == "" }

// Found returns the format of data that begins with head. encoding is its Content-Encoding, or "".
func (c Compression) Found(encoding, path string, head []byte) (compression.Format, error) {
	if !c.Auto() {
		return compression.Format(c.Compression), nil
	}
	f, ok := compression.FromEncoding(encoding)
	switch {
	case !ok:
		return compression.None, engine.Errorf(engine.Decode, "content encoding %.40q can't be undone (write `compression: none` "+
			"to read what is stored)", encoding)
	case f != compression.None:
		return f, nil
	}
	if f = compression.FromPath(path); f == compression.None {
		f = compression.Detect(head)
	}
	return f, nil
}

// Format returns the format of the file at a path.
func (c Compression) Format(path string) compression.Format {
	if c.Auto() {
		return compression.FromPath(path)
	}
	return compression.Format(c.Compression)
}
