package framing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// envelope is a message as one JSON line. Payload is text, or the payload itself if it is a JSON object or array on
// one line.
//
// In metadata, an object with a single key that begins with "$" represents a value that JSON lacks: {"$time": …},
// {"$base64": …}, {"$float": "NaN"}, and {"$map": …} for a map that would look like one of these.
type envelope struct {
	Payload json.RawMessage `json:"payload"`
	Base64  []byte          `json:"payload_base64"`
	Meta    json.RawMessage `json:"meta"`
}

// appendMessage appends a message's envelope and a line feed.
func appendMessage(dst []byte, m *engine.Message) []byte {
	dst = appendPayload(dst, m)
	if m.Meta.Len() > 0 {
		dst = append(dst, `,"meta":{`...)
		first := true
		for name, v := range m.Meta.All() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendName(dst, name)
			dst = appendMeta(dst, v)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}', '\n')
}

func appendPayload(dst []byte, m *engine.Message) []byte {
	body := m.Bytes()
	if oneLine(body) && m.Doc().Valid() == nil {
		return append(append(dst, `{"payload":`...), body...)
	}
	if utf8.Valid(body) {
		from := len(dst)
		dst = doc.AppendString(append(dst, `{"payload":`...), body)
		if len(dst)-from <= 2*len(body)+32 {
			return dst
		}
		dst = dst[:from] // mostly control characters
	}
	dst = append(dst, `{"payload_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, body), '"')
}

// oneLine reports whether a payload may be a JSON object or array that stays the same, byte for byte, inside an
// envelope.
func oneLine(b []byte) bool {
	if len(b) < 2 || bytes.IndexByte(b, '\n') >= 0 {
		return false
	}
	return b[0] == '{' && b[len(b)-1] == '}' || b[0] == '[' && b[len(b)-1] == ']'
}

// appendName appends a name, with invalid UTF-8 replaced, as JSON requires.
func appendName(dst []byte, name string) []byte {
	return append(doc.AppendString(dst, name), ':')
}

func appendMeta(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return appendFloat(dst, v)
	case doc.Number:
		return append(dst, v...)
	case string:
		if !utf8.ValidString(v) {
			return append(base64.StdEncoding.AppendEncode(append(dst, `{"$base64":"`...), []byte(v)), '"', '}')
		}
		return doc.AppendString(dst, []byte(v))
	case time.Time:
		return append(v.AppendFormat(append(dst, `{"$time":"`...), time.RFC3339Nano), '"', '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendMeta(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		return appendMap(dst, v)
	}
	return doc.AppendString(dst, fmt.Sprint(v))
}

func appendMap(dst []byte, v map[string]any) []byte {
	special := false
	if len(v) == 1 {
		for k := range v {
			special = strings.HasPrefix(k, "$")
		}
	}
	if special {
		dst = append(dst, `{"$map":`...)
	}
	dst = append(dst, '{')
	first := true
	for k, e := range v {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendMeta(appendName(dst, k), e)
	}
	if special {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendFloat appends a float with a point or an exponent, so that it is read back as a float.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Appendf(dst, `{"$float":"%v"}`, f)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !bytes.ContainsAny(dst[from:], ".e") {
		dst = append(dst, '.', '0')
	}
	return dst
}

// messages parses lines of envelopes.
type messages struct {
	lines
	max int // of a payload; a line may be twice as long
}

func (s messages) record(line []byte) (Record, bool) {
	if len(line) == 0 {
		return Record{}, false
	}
	rec, err := ReadMessage(line)
	switch {
	case err != nil:
		bad := engine.Errorf(engine.Decode, "not a message in the form that framing messages writes: %w", err)
		if len(line) > s.max {
			return cut(line[:s.max], int64(len(line)), s.max, bad), true
		}
		return Record{Body: line, Err: bad}, true
	case len(rec.Body) > s.max:
		return cut(rec.Body[:s.max], int64(len(rec.Body)), s.max, nil), true
	}
	return rec, true
}

// ReadMessage reads one line that the framing messages has written. The record keeps parts of the line.
func ReadMessage(line []byte) (Record, error) {
	var e envelope
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Record{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("there is something after the object")
	}
	body := []byte(e.Payload)
	switch {
	case e.Payload == nil && e.Base64 == nil:
		return Record{}, errors.New(`it has neither "payload" nor "payload_base64"`)
	case e.Payload == nil:
		body = e.Base64
	case body[0] == '"':
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			return Record{}, err
		}
		body = []byte(text)
	}
	meta, err := readMeta(e.Meta)
	if err != nil {
		return Record{}, fmt.Errorf("meta: %w", err)
	}
	rec := Record{Body: body, Meta: func(engine.Meta) engine.Meta { return meta }}
	if yes, _ := meta.Get(truncated); yes == true {
		whole, _ := meta.Get(originalSize)
		rec.Err = engine.Errorf(engine.Decode,
			"this is only the beginning, %d of %v bytes, of a record that was longer than max_record when it was read: read it again from its "+
				"original source, with a larger max_record", len(body), whole)
	}
	return rec, nil
}

// readMeta parses an object and keeps its order.
func readMeta(text []byte) (meta engine.Meta, err error) {
	if len(text) == 0 || string(text) == "null" {
		return meta, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return meta, errors.New("not an object")
	}
	var names []string
	var values []any
	at := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return meta, err
		}
		name := t.(string)
		var v any
		if err := d.Decode(&v); err != nil {
			return meta, err
		}
		if v, err = plain(v); err != nil {
			return meta, fmt.Errorf("%s: %w", name, err)
		}
		if i, again := at[name]; again {
			values[i] = v
			continue
		}
		at[name] = len(names)
		names, values = append(names, name), append(values, v)
	}
	return engine.MetaOf(names, values, 0), nil
}

// plain converts JSON values to metadata.
func plain(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.Atoi(string(v)); err == nil {
			return i, nil
		}
		if !strings.ContainsAny(string(v), ".eE") {
			return doc.Number(v), nil
		}
		if f, ok := doc.ParseFloat([]byte(v)); ok {
			return f, nil
		}
		return nil, fmt.Errorf("the number %.40s is out of range", string(v))
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if len(v) == 1 {
			for k, inner := range v {
				if strings.HasPrefix(k, "$") {
					return special(k, inner)
				}
			}
		}
		return plainFields(v)
	}
	return v, nil
}

// plainFields converts the values of m to metadata, in place.
func plainFields(m map[string]any) (_ any, err error) {
	for k := range m {
		if m[k], err = plain(m[k]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// special converts an object that represents another value.
func special(key string, v any) (any, error) {
	if m, ok := v.(map[string]any); ok && key == "$map" {
		return plainFields(m)
	}
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%q needs text", key)
	}
	switch key {
	case "$time":
		return time.Parse(time.RFC3339Nano, text)
	case "$base64":
		b, err := base64.StdEncoding.DecodeString(text)
		return string(b), err
	case "$float":
		return strconv.ParseFloat(text, 64)
	}
	return nil, fmt.Errorf("unknown form %q", key)
}
