package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/flowd-io/flowd/engine/doc"
)

// JSON checks documents. With from and into, it decodes them from text and encodes them as text.
type JSON struct {
	Indent int `yaml:"indent" check:"min=0,max=16" doc:"Encoding puts each value on its own line, indented by this many spaces per level; 0 leaves the text as it is."`
}

// Decode checks the payload and returns it unchanged.
func (c *JSON) Decode(dst, payload []byte) ([]byte, error) {
	var d doc.Doc
	d.Reset(payload, nil)
	if err := d.Valid(); err != nil {
		return dst, fmt.Errorf("json: %w", err)
	}
	return append(dst, bytes.TrimSpace(payload)...), nil
}

// Encode returns the text, indented if configured.
func (c *JSON) Encode(dst, text []byte) ([]byte, error) {
	if c.Indent == 0 {
		return append(dst, text...), nil
	}
	b := bytes.NewBuffer(dst)
	if err := json.Indent(b, text, "", string(bytes.Repeat([]byte(" "), c.Indent))); err != nil {
		return dst, fmt.Errorf("json: %w", err)
	}
	return b.Bytes(), nil
}
