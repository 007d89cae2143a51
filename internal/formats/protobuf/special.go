package protobuf

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Limits of google.protobuf.Duration and Timestamp, in seconds.
const (
	mostSeconds   = 315_576_000_000
	firstSecond   = -62_135_596_800 // year 1
	lastSecond    = 253_402_300_799 // year 9999
	nanosOfSecond = 1_000_000_000
)

// special reads a message that is not shown as an object of its fields.
func (r *reader) special(f found) error {
	switch f.message.special {
	case anything:
		return r.anything(f)
	case timestamp:
		return r.timestamp(r.number(f, 0), int32(r.number(f, 1))) // #nosec G115 -- cut off
	case duration:
		return r.duration(r.number(f, 0), int32(r.number(f, 1))) // #nosec G115 -- cut off
	case fieldMask:
		return r.fieldMask(f)
	case value:
		return r.anyValue(f)
	}
	// A wrapper, a Struct or a ListValue is shown as its only field.
	return r.field(&f.fields[0], r.slots[f.slots])
}

func (r *reader) timestamp(seconds int64, nanos int32) error {
	if seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos >= nanosOfSecond {
		return fmt.Errorf("%d seconds and %d nanoseconds are outside the range of a timestamp", seconds, nanos)
	}
	r.dst = append(r.dst, '"')
	r.dst = time.Unix(seconds, 0).UTC().AppendFormat(r.dst, "2006-01-02T15:04:05")
	r.dst = append(appendFraction(r.dst, nanos), `Z"`...)
	return nil
}

func (r *reader) duration(seconds int64, nanos int32) error {
	if seconds < -mostSeconds || seconds > mostSeconds || nanos <= -nanosOfSecond || nanos >= nanosOfSecond ||
		seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 ||
		nanos != 0 && (seconds == mostSeconds || seconds == -mostSeconds) {
		return fmt.Errorf("%d seconds and %d nanoseconds are outside the range of a duration", seconds, nanos)
	}
	r.dst = append(r.dst, '"')
	if seconds < 0 || nanos < 0 {
		r.dst, seconds, nanos = append(r.dst, '-'), -seconds, -nanos
	}
	r.dst = appendFraction(strconv.AppendInt(r.dst, seconds, 10), nanos)
	r.dst = append(r.dst, `s"`...)
	return nil
}

// appendFraction appends 3, 6 or 9 digits, or nothing.
func appendFraction(dst []byte, nanos int32) []byte {
	if nanos == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int32(nanosOfSecond / 10); unit > 0; unit /= 10 {
		if nanos == 0 && (unit == 100_000 || unit == 100) {
			break
		}
		dst = append(dst, '0'+byte(nanos/unit)) // #nosec G115 -- a digit
		nanos %= unit
	}
	return dst
}

// fieldMask writes paths in lowerCamelCase, separated by commas.
func (r *reader) fieldMask(f found) error {
	var paths []string
	size := 0
	for n := r.slots[f.slots].first; n > 0; n = r.runs[n-1].next {
		for s := r.runs[n-1].span; s.start < s.end; {
			_, at := r.next(&s)
			path := string(r.src[at.start:at.end])
			shown := camel(path)
			if path == "" || snake(shown) != path {
				return fmt.Errorf("path %.40q can't be written in lowerCamelCase", path)
			}
			paths = append(paths, shown)
			if size += len(path) + 16; len(r.dst)+size > r.most {
				return codec.ErrLimit
			}
		}
	}
	r.dst = doc.AppendString(r.dst, strings.Join(paths, ","))
	return nil
}

// camel converts a path of field names to JSON's form.
func camel(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '_' && i+1 < len(s) && 'a' <= s[i+1] && s[i+1] <= 'z' {
			i++
			b.WriteByte(s[i] - 'a' + 'A')
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// snake converts it back. It returns "" for an invalid path.
func snake(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			b.WriteByte('_')
			b.WriteByte(c - 'A' + 'a')
		case c == '.' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			b.WriteByte(c)
		default:
			return ""
		}
	}
	return b.String()
}

// anyValue writes a google.protobuf.Value, which has one field set.
func (r *reader) anyValue(f found) error {
	for i := range f.message.fields {
		field := &f.message.fields[i]
		at := r.slots[f.slots+i]
		if at.first == 0 {
			continue
		}
		start := len(r.dst)
		if err := r.field(field, at); err != nil {
			return err
		}
		if field.name == "number_value" && r.dst[start] == '"' {
			return errors.New("a google.protobuf.Value can't be NaN or infinite")
		}
		return nil
	}
	r.dst = append(r.dst, "null"...)
	return nil
}

// anything writes a google.protobuf.Any, as base64 if the schema lacks its type.
func (r *reader) anything(f found) error {
	url, err := r.bytes(f, 0)
	if err != nil {
		return err
	}
	content, err := r.bytes(f, 1)
	if err != nil {
		return err
	}
	name := string(r.src[url.start:url.end])
	if name == "" && content.start < content.end {
		return errors.New("has a value without @type")
	}
	if err := r.enter('{'); err != nil {
		return err
	}
	defer func() { r.leave('}') }()
	if name == "" {
		return nil
	}
	r.dst = doc.AppendString(append(r.dst, `"@type":`...), name)
	m, err := r.types.named(name)
	switch {
	case err != nil:
		return err
	case m == nil:
		r.dst = append(r.dst, `,"value":"`...)
		r.dst = base64.StdEncoding.AppendEncode(r.dst, r.src[content.start:content.end])
		r.dst = append(r.dst, '"')
		return nil
	}
	from := len(r.spans)
	r.spans = append(r.spans, content)
	if m.special != plain {
		r.dst = append(r.dst, `,"value":`...)
		err = r.message(m, from)
	} else {
		var inner found
		if inner, err = r.scan(m, from); err == nil {
			err = r.fields(inner)
			r.drop(inner)
		}
	}
	if err != nil {
		return codec.Under(name, err)
	}
	return nil
}
