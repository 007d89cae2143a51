package codec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// CEF reads and writes events in ArcSight's Common Event Format.
type CEF struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

var _ Expanding = (*CEF)(nil)

// cefHeader are the fields between bars, in order.
var cefHeader = [...]string{"cefVersion", "deviceVendor", "deviceProduct", "deviceVersion",
	"deviceEventClassId", "name", "severity"}

const (
	cefPrefix    = "prefix"    // text before CEF:, such as a syslog header
	cefExtension = "extension" // the pairs after the last bar
)

// Decode decodes to an object of the header's fields, with an object of the extension's.
func (c *CEF) Decode(dst, payload []byte) ([]byte, error) {
	s := strings.TrimRight(string(payload), " \r\n")
	at := strings.Index(s, "CEF:")
	if at < 0 {
		return dst, errors.New(`cef: the event lacks "CEF:"`)
	}
	o := newObject(dst, c.Numbers)
	var err error
	if prefix := strings.TrimSpace(s[:at]); prefix != "" {
		err = o.addText(cefPrefix, prefix)
	}
	rest := s[at+len("CEF:"):]
	for i, name := range cefHeader {
		var field string
		var ok bool
		field, rest, ok = cutCEF(rest)
		if !ok && i < len(cefHeader)-1 {
			return dst, fmt.Errorf("cef: there is no | after %s, the header ends too early", name)
		}
		if err == nil {
			err = o.add(name, field)
		}
	}
	if err == nil {
		err = o.addRaw(cefExtension, "{")
	}
	o.fields = 0
	if err == nil {
		err = o.addCEF(strings.TrimLeft(rest, " "))
	}
	if err != nil {
		return dst, fmt.Errorf("cef: %w", err)
	}
	o.dst = append(o.dst, '}')
	return o.end(), nil
}

// cutCEF returns a field of the header, and the text after its bar.
func cutCEF(s string) (field, rest string, ok bool) {
	field, rest, ok = cutUnescaped(s, '|')
	return cefUnescape.Replace(field), rest, ok
}

var (
	cefUnescape    = strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\=`, `=`, `\n`, "\n", `\r`, "\r")
	cefEscapeField = strings.NewReplacer(`\`, `\\`, `|`, `\|`)
	cefEscapeValue = strings.NewReplacer(`\`, `\\`, `=`, `\=`, "\n", `\n`, "\r", `\r`)
)

// addCEF adds the pairs of an extension. A value may contain spaces: it ends where a space and the next key follow.
func (o *object) addCEF(s string) error {
	var all pairs
	key, equals := 0, nextCEF(s, 0)
	if s != "" && (equals < 0 || strings.Contains(s[:equals], " ")) {
		return fmt.Errorf("%.40q is not an extension such as key=value", s)
	}
	for equals >= 0 {
		next, end := nextCEF(s, equals+1), len(s)
		if next >= 0 {
			end = strings.LastIndexByte(s[:next], ' ')
		}
		all.put(pair{key: s[key:equals], value: cefUnescape.Replace(strings.TrimRight(s[equals+1:end], " "))})
		key, equals = end+1, next
	}
	for _, p := range all.list {
		if err := o.addPair(p); err != nil {
			return err
		}
	}
	return nil
}

// nextCEF returns the index of the next = after a key, or -1. Values such as URLs contain others.
func nextCEF(s string, from int) int {
	word := from
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			word = -1
		case c == ' ':
			word = i + 1
		case c == '=' && word >= 0 && i > word && (word > from || from == 0):
			return i
		case !isCEFKey(c):
			word = -1
		}
	}
	return -1
}

func isCEFKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' ||
		c == '.' || c == '-' || c == '[' || c == ']'
}

// Working returns the memory for the list of pairs.
func (c *CEF) Working(payload []byte) int { return pairsWorking(payload, '=') + 2*len(payload) }

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *CEF) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) { return c.Decode(dst, payload) }

// Encode writes an object in the form of Decode. Missing fields of the header are empty; cefVersion is 0.
func (c *CEF) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("cef: %s is not an object", kind(json))
	}
	header := [len(cefHeader)]string{"0"}
	var prefix string
	var extension []byte
	for key, value := range doc.Members(json) {
		at := slices.Index(cefHeader[:], key)
		switch {
		case at >= 0:
			if header[at] = Cell(value); strings.ContainsAny(header[at], "\r\n") {
				return dst, fmt.Errorf("cef: %s has a line break", key)
			}
		case key == cefPrefix:
			if prefix = Cell(value); strings.Contains(prefix, "CEF:") {
				return dst, fmt.Errorf("cef: %s contains another event", key)
			}
		case key == cefExtension && value[0] == '{':
			extension = value
		case key == cefExtension:
			return dst, fmt.Errorf("cef: %s is %s and not an object", key, kind(value))
		default:
			return dst, fmt.Errorf("cef: %q is not a field of the header (move it into %s)", Clip(key), cefExtension)
		}
	}
	before := dst
	if prefix != "" {
		dst = append(append(dst, prefix...), ' ')
	}
	dst = append(dst, "CEF:"...)
	for _, field := range header {
		dst = append(dst, cefEscapeField.Replace(field)...)
		dst = append(dst, '|')
	}
	out, err := appendCEF(dst, extension)
	if err != nil {
		return before, fmt.Errorf("cef: %w", err)
	}
	return out, nil
}

// appendCEF appends the pairs of an object, if there is one. Null is left out.
func appendCEF(dst, object []byte) ([]byte, error) {
	if object == nil {
		return dst, nil
	}
	first := true
	for key, value := range repeated(object) {
		if string(value) == "null" {
			continue
		}
		if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c >= utf8.RuneSelf || !isCEFKey(byte(c)) }) {
			return dst, Under(cefExtension, fmt.Errorf("%q can't be a key (give it another name with `rename`)", Clip(key)))
		}
		if !first {
			dst = append(dst, ' ')
		}
		first = false
		dst = append(dst, key...)
		dst = append(dst, '=')
		dst = append(dst, cefEscapeValue.Replace(text(value))...)
	}
	return dst, nil
}
