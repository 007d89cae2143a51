package codec

import (
	"bytes"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Answer converts the answer of a server or program to JSON text: a document unchanged, other text to a string, and
// nothing to null. Without scalars, 12 or true alone is text, too. The error has class decode.
func Answer(body []byte, scalars bool) ([]byte, error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return []byte("null"), nil
	case (scalars || body[0] == '{' || body[0] == '[') && Valid(body) == nil:
		return body, nil
	}
	text, err := AppendText(make([]byte, 0, len(body)+2), body)
	if err != nil {
		return nil, engine.Errorf(engine.Decode,
			"the answer is neither JSON nor text (without `into` it becomes the payload as it is)")
	}
	return text, nil
}

// Valid checks that a text is a JSON document. The error has class decode.
func Valid(body []byte) error {
	var d doc.Doc
	d.Reset(body, nil)
	return engine.WithClass(engine.Decode, d.Valid())
}
