package framing

import (
	"bytes"
	"encoding/json"

	"github.com/flowd-io/flowd/engine"
)

// OneLine returns a payload as one line without a line end: unchanged, or a JSON document without white space. ends
// are the characters that end lines. The error is permanent. remedy is part of it.
func OneLine(payload []byte, ends, remedy string) ([]byte, error) {
	body := bytes.TrimSuffix(payload, []byte("\n"))
	if !holdsAny(body, ends) {
		return body, nil
	}
	if body, ok := compact(payload); ok {
		return body, nil
	}
	return nil, engine.Errorf(engine.Permanent,
		"the payload has several lines and is not JSON, so it can't be written as one (%s)", remedy)
}

func holdsAny(body []byte, ends string) bool {
	if len(ends) == 1 {
		return bytes.IndexByte(body, ends[0]) >= 0
	}
	return bytes.ContainsAny(body, ends)
}

// AppendSeparated appends a payload and the separator, which the payload must not contain: a reader would split
// there. A JSON document may lose its white space for that. On an error, which is permanent, dst is returned
// unchanged.
func AppendSeparated(dst, payload []byte, separator, remedy string) ([]byte, error) {
	from := len(dst)
	dst = append(append(dst, payload...), separator...)
	// A separator may also begin at the end of the payload.
	if bytes.Index(dst[from:], []byte(separator)) == len(payload) {
		return dst, nil
	}
	if body, ok := compact(payload); ok && len(body) < len(payload) {
		return AppendSeparated(dst[:from], body, separator, remedy)
	}
	return dst[:from], engine.Errorf(engine.Permanent,
		"the payload contains the separator %q, so it would be read back as several records (%s)", separator, remedy)
}

// compact returns a JSON document without white space.
func compact(payload []byte) ([]byte, bool) {
	var out bytes.Buffer
	out.Grow(len(payload))
	if json.Compact(&out, payload) != nil {
		return nil, false
	}
	return out.Bytes(), true
}
