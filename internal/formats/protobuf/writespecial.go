package protobuf

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// special writes a value that is not an object of its fields.
func (w *writer) special(m *message, json []byte) error {
	switch m.special {
	case anything:
		return w.anything(m, json)
	case timestamp:
		if json[0] != '"' {
			return unfit(m.name, json)
		}
		at, err := time.Parse(time.RFC3339Nano, string(codec.Text(json)))
		if s := at.Unix(); err != nil || s < firstSecond || s > lastSecond {
			return fmt.Errorf("%.40s is not a timestamp such as 2026-01-02T15:04:05.123Z", json)
		}
		w.seconds(m, at.Unix(), int64(at.Nanosecond()))
		return nil
	case duration:
		if json[0] != '"' {
			return unfit(m.name, json)
		}
		seconds, nanos, ok := parseDuration(string(codec.Text(json)))
		if !ok {
			return fmt.Errorf("%.40s is not a duration in seconds such as 1.5s", json)
		}
		w.seconds(m, seconds, nanos)
		return nil
	case fieldMask:
		return w.fieldMask(m, json)
	case value:
		return w.anyValue(m, json)
	case object:
		return w.mapping(&m.fields[0], json)
	case items:
		return w.list(&m.fields[0], json)
	case wrapper:
		return w.field(&m.fields[0], json)
	}
	return w.fields(m, json, "")
}

// seconds writes the two fields of a time.
func (w *writer) seconds(m *message, seconds, nanos int64) {
	for i, n := range []int64{seconds, nanos} {
		if n != 0 {
			w.dst = append(w.dst, m.fields[i].tag...)
			w.dst = protowire.AppendVarint(w.dst, uint64(n)) // #nosec G115 -- the same bits
		}
	}
}

// parseDuration parses seconds such as -1.5s.
func parseDuration(s string) (seconds, nanos int64, ok bool) {
	s, ok = strings.CutSuffix(s, "s")
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if !ok || point && fraction == "" || len(fraction) > 9 || len(whole) > 12 {
		return 0, 0, false
	}
	number, err := codec.Int([]byte(whole))
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || err != nil || number > mostSeconds {
		return 0, 0, false
	}
	if fraction != "" {
		nanos, _ = codec.Int([]byte((fraction + "00000000")[:9])) // digits
	}
	if number == mostSeconds && nanos > 0 {
		return 0, 0, false
	}
	if negative {
		return -number, -nanos, true
	}
	return number, nanos, true
}

func (w *writer) fieldMask(m *message, json []byte) error {
	if json[0] != '"' {
		return unfit(m.name, json)
	}
	text := string(codec.Text(json))
	if text == "" {
		return nil
	}
	for shown := range strings.SplitSeq(text, ",") {
		path := snake(shown)
		if path == "" {
			return fmt.Errorf("%.40q is not a path of fields in lowerCamelCase", shown)
		}
		w.dst = protowire.AppendString(append(w.dst, m.fields[0].tag...), path)
	}
	return nil
}

// anyValue writes a google.protobuf.Value.
func (w *writer) anyValue(m *message, json []byte) error {
	name := "number_value"
	switch json[0] {
	case 'n':
		name = "null_value"
	case 't', 'f':
		name = "bool_value"
	case '"':
		name = "string_value"
	case '{':
		name = "struct_value"
	case '[':
		name = "list_value"
	}
	f := &m.fields[m.index[name]]
	if name == "number_value" {
		if n, err := codec.Float(json, 64, m.name); err != nil || math.IsInf(n, 0) {
			return fmt.Errorf("%.40s does not fit %s exactly", json, m.name)
		}
	}
	return w.field(f, json)
}

// anything writes a google.protobuf.Any.
func (w *writer) anything(m *message, json []byte) error {
	if json[0] != '{' {
		return unfit(m.name, json)
	}
	var kind, content []byte
	members := 0
	for name, of := range doc.Members(json) {
		switch members++; name {
		case "@type":
			kind = of
		case "value":
			content = of
		}
	}
	if members == 0 {
		return nil
	}
	if kind == nil || kind[0] != '"' || len(kind) == len(`""`) {
		return errors.New("@type is missing: the name of a message, such as type.googleapis.com/shop.Order")
	}
	url := string(codec.Text(kind))
	of, err := w.types.named(url)
	if err != nil {
		return err
	}
	w.dst = protowire.AppendString(append(w.dst, m.fields[0].tag...), url)
	before := len(w.dst)
	w.dst = append(w.dst, m.fields[1].tag...)
	at := w.open()
	switch {
	case of == nil && members == 2 && content != nil && content[0] == '"':
		var b []byte
		if b, err = fromBase64(codec.Text(content)); err == nil {
			w.dst = append(w.dst, b...)
		}
	case of == nil:
		err = fmt.Errorf("message %.80q is not in the schema (import its file there, or give its `value` in base64)", url)
	case of.special == plain:
		err = w.fields(of, json, "@type")
	case content == nil || members > 2:
		err = fmt.Errorf("%s is written as a member `value`, and nothing else", of.name)
	case content[0] == 'n' && of.special != value:
	default:
		err = w.special(of, content)
	}
	if err != nil {
		return codec.Under(url, err)
	}
	if w.shut(at); len(w.dst) == at { // nothing was left out
		w.dst = w.dst[:before]
	}
	return nil
}
