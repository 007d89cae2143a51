package evaluate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// Framings are the ways to divide a stream into messages. Auto is lines, or json if the first line is the beginning of a
// document that spans several lines.
var Framings = []string{"auto", "lines", "json", "whole"}

// largest bounds a message, in bytes.
const largest = 64 << 20

// Messages reads messages from a stream. One goroutine uses it.
type Messages struct {
	records framing.Reader
	meta    engine.Meta
}

// Read divides a stream into messages, which get the metadata.
func Read(r io.Reader, by string, meta map[string]string) *Messages {
	c := framing.Config{MaxRecord: largest}
	if by == "auto" {
		r, by = guess(r)
	}
	switch by {
	case "json":
		c.Framing.JSON = &framing.Plain{}
	case "whole":
		c.Framing.Whole = &framing.Plain{}
	}
	return &Messages{records: c.Reader(r), meta: MetaOf(meta)}
}

// Next returns the next message. At the end of the stream the error is [io.EOF].
func (ms *Messages) Next() (*engine.Message, error) {
	r, err := ms.records.Next()
	if err != nil {
		return nil, err
	}
	m := New(r.Body, ms.meta)
	if r.Err != nil {
		m.Fail(r.Err)
	}
	return m, nil
}

// New returns a message.
func New(body []byte, meta engine.Meta) *engine.Message {
	m := engine.NewBatch(1).Add(body)
	m.Meta = meta
	return m
}

// MetaOf returns metadata, as the input's own.
func MetaOf(values map[string]string) (m engine.Meta) {
	for name, v := range values {
		m = m.With(name, v)
	}
	return m.Own()
}

// AddMeta adds metadata that is written as NAME=VALUE.
func AddMeta(to map[string]string, pair string) error {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", pair)
	}
	to[name] = value
	return nil
}

// longestLine bounds the first line that guess looks at.
const longestLine = 1 << 20

// guess returns the framing of a stream, and the stream from its beginning. It reads no more than the first line, so that it
// does not wait for more.
func guess(r io.Reader) (io.Reader, string) {
	buffered := bufio.NewReader(r)
	var line []byte
	for len(line) < longestLine {
		more, err := buffered.ReadSlice('\n')
		line = append(line, more...)
		if err != bufio.ErrBufferFull && (err != nil || len(bytes.TrimSpace(line)) > 0) {
			break
		}
	}
	by := "lines"
	if text := bytes.TrimSpace(line); len(text) > 0 && (text[0] == '{' || text[0] == '[') && !json.Valid(text) {
		by = "json"
	}
	return io.MultiReader(bytes.NewReader(line), buffered), by
}
