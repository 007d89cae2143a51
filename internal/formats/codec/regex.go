package codec

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/flowd-io/flowd/schema"
)

// Regex decodes text with the named groups of a pattern. It can't encode.
type Regex struct {
	Pattern Regexp `yaml:"pattern,main" check:"required" doc:"Regular expression (RE2) with a named group for each field: (?P<status>\\d+)."`
	Numbers bool   `yaml:"numbers" doc:"Turns values that are JSON numbers into numbers."`
}

// Decode decodes to an object of the named groups. A group without a match is null.
func (c *Regex) Decode(dst, payload []byte) ([]byte, error) {
	m := c.Pattern.FindSubmatchIndex(payload)
	if m == nil {
		return dst, errors.New("regex: the payload does not match the pattern")
	}
	o := newObject(dst, c.Numbers)
	for i, name := range c.Pattern.SubexpNames() {
		if name == "" {
			continue
		}
		var err error
		if from, to := m[2*i], m[2*i+1]; from < 0 {
			err = o.addRaw(name, "null")
		} else {
			err = o.add(name, string(payload[from:to]))
		}
		if err != nil {
			return dst, fmt.Errorf("regex: %w", err)
		}
	}
	return o.end(), nil
}

// Encode returns an error: this format can only be decoded.
func (c *Regex) Encode(dst, _ []byte) ([]byte, error) {
	return dst, errors.New("regex: a pattern can't be encoded")
}

// Regexp is a config field that holds a regular expression with named groups.
type Regexp struct{ *regexp.Regexp }

// String returns the pattern, or "" if it was not valid.
func (r Regexp) String() string {
	if r.Regexp == nil {
		return ""
	}
	return r.Regexp.String()
}

// maxPattern bounds the source of a pattern, in bytes, before it is compiled.
const maxPattern = 16 << 10

// UnmarshalConfig compiles the pattern.
func (r *Regexp) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	var err error
	if *r, err = ParseRegexp(text); err != nil {
		p := schema.Problem{Code: schema.BadValue, Message: err.Error(),
			Remedy: `write a group such as (?P<status>\d+) for each field`}
		if errors.Is(err, errGroupTwice) {
			p.Remedy = "give each group its own name"
		}
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			p.Message, p.Remedy = fmt.Sprintf("%q is not a valid regular expression: %s", text, bad.Code),
				"use RE2 syntax"
		}
		d.Report(n, p)
	}
}

// DescribeConfig describes text.
func (r *Regexp) DescribeConfig() *schema.Type { return schema.AnyOf("regular expression", "") }

// ParseRegexp compiles a pattern with at least one named group and without duplicate names.
func ParseRegexp(text string) (Regexp, error) {
	if len(text) > maxPattern {
		return Regexp{}, fmt.Errorf("the pattern is longer than %d KiB", maxPattern>>10)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return Regexp{}, err
	}
	names := slices.DeleteFunc(slices.Clone(re.SubexpNames()), func(name string) bool { return name == "" })
	if len(names) == 0 {
		return Regexp{}, errors.New("the pattern has no named group")
	}
	if twice, ok := duplicate(names); ok {
		return Regexp{}, fmt.Errorf("group %q %w", twice, errGroupTwice)
	}
	return Regexp{re}, nil
}

var errGroupTwice = errors.New("occurs twice")
