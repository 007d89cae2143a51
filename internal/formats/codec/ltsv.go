package codec

import (
	"fmt"
	"strings"
)

// LTSV reads and writes lines of labelled values between tabs.
type LTSV struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

var (
	_ Expanding = (*LTSV)(nil)
	_ Expanding = (*Form)(nil)
)

// Decode decodes to an object. A repeated label becomes a list.
func (c *LTSV) Decode(dst, payload []byte) ([]byte, error) {
	var all pairs
	for field := range strings.SplitSeq(strings.TrimRight(string(payload), "\r\n"), "\t") {
		label, value, ok := strings.Cut(field, ":")
		switch {
		case field == "":
			continue
		case !ok || label == "":
			return dst, fmt.Errorf("ltsv: %.40q has no label, such as in name:value", field)
		case strings.Contains(field, "\n"):
			return dst, fmt.Errorf("ltsv: there is a line after the value of %.40q (split the lines first)", label)
		}
		all.put(pair{key: label, value: value})
	}
	return all.decoded(dst, "ltsv", c.Numbers)
}

// Working returns the memory for the list of values.
func (c *LTSV) Working(payload []byte) int { return pairsWorking(payload, '\t') }

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *LTSV) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) {
	return c.Decode(dst, payload)
}

// pairsWorking returns the memory for pairs separated by a character.
func pairsWorking(payload []byte, separator byte) int {
	const each = 220 // for growing lists, and a map
	return each*(1+strings.Count(str(payload), string(rune(separator)))) + len(payload)
}

// decoded appends the pairs as an object.
func (all *pairs) decoded(dst []byte, format string, numbers bool) ([]byte, error) {
	o := newObject(dst, numbers)
	for _, p := range all.list {
		if err := o.addPair(p); err != nil {
			return dst, fmt.Errorf("%s: %w", format, err)
		}
	}
	return o.end(), nil
}

// Encode writes the fields of an object on one line. Null is empty.
func (c *LTSV) Encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("ltsv: %s is not an object", kind(json))
	}
	start := len(dst)
	for label, value := range repeated(json) {
		text := Cell(value)
		switch {
		case label == "" || strings.ContainsAny(label, ":\t\r\n"):
			return dst[:start], fmt.Errorf("ltsv: %q can't be a label (give it another name with `rename`)", label)
		case strings.ContainsAny(text, "\t\r\n"):
			return dst[:start], fmt.Errorf("ltsv: the value of %q has a tab or a line break", label)
		}
		if len(dst) > start {
			dst = append(dst, '\t')
		}
		dst = append(dst, label...)
		dst = append(dst, ':')
		dst = append(dst, text...)
	}
	return dst, nil
}
