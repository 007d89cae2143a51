package schema

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// scalar decodes one value. The field decides what the text means, not YAML: a text field takes 017, yes and 1.50 as
// written.
func (d *Decoder) scalar(n *Node, v reflect.Value, s *shape) {
	if !n.scalar() {
		if s.kind == secretKind {
			d.hideAll(n)
		}
		d.wrong(n, s, oneOf(d.at.field))
		return
	}
	pieces, ok := d.resolve(n)
	text := joined(pieces)
	if s.kind == secretKind {
		d.secrets.Add(text)
	}
	if !ok {
		return
	}
	message, remedy := d.set(v, s, text, concealed(pieces))
	if message != "" {
		d.report(n, BadValue, quoted(n, pieces, s)+" "+message, remedy)
	}
}

// set sets v from a text, or returns why it can't. It does not quote secret text.
func (d *Decoder) set(v reflect.Value, s *shape, text string, secret bool) (message, remedy string) {
	f, old := d.at.field, settable(v)
	err := parse(v, s, text)
	switch r := (remedied{}); {
	case err != nil && secret:
		return "is not " + s.expected(), ""
	case errors.As(err, &r):
		return r.message, cmp.Or(r.remedy, example(f, s, old))
	case err != nil:
		return err.Error(), ""
	case f == nil:
		return "", ""
	}
	message, remedy = f.check.broken(s.kind, text)
	if message != "" && f.check.oneof == nil {
		remedy = cmp.Or(zeroMeans(f, text), leftOut(f, s, old), remedy)
	}
	if secret || s.kind == secretKind {
		remedy = ""
	}
	return message, remedy
}

// parse parses a text as the kind of v. An error's text continues a sentence that begins with the value.
func parse(v reflect.Value, s *shape, text string) error {
	switch s.kind {
	case textKind:
		v.SetString(text)
	case secretKind:
		v.Set(reflect.ValueOf(Secret{text}))
	case boolKind:
		return put(v, text, parseBool)
	case intKind, uintKind:
		return parseWhole(v, s, text)
	case floatKind:
		return put(v, text, parseFloat)
	case durationKind:
		return put(v, text, parseDuration)
	case sizeKind:
		return put(v, text, ParseSize)
	case textualKind:
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("can't be read: %w", err)
		}
	}
	return nil
}

// put sets v to the parsed text.
func put[T any](v reflect.Value, text string, parse func(string) (T, error)) error {
	meant, err := parse(text)
	if err == nil {
		v.Set(reflect.ValueOf(meant).Convert(v.Type()))
	}
	return err
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	const message = "is neither true nor false"
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y", "t", "1", "enabled":
		return false, remedied{message, "write true"}
	case "false", "no", "off", "n", "f", "0", "disabled":
		return false, remedied{message, "write false"}
	}
	return false, remedied{message, ""}
}

// decimal reports whether all readers read text as the same whole number.
func decimal(text string) bool {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	return text == "0" || text != "" && text[0] != '0' && strings.TrimLeft(text, "0123456789") == ""
}

func parseWhole(v reflect.Value, s *shape, text string) error {
	if !decimal(text) {
		return remedied{"is not a whole number", asWhole(text)}
	}
	bits := s.rt.Bits()
	if s.kind == uintKind {
		u, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, bits)
		if err != nil {
			return fmt.Errorf("is out of range: 0 to %d", uint64(math.MaxUint64)>>(64-bits))
		}
		v.SetUint(u)
		return nil
	}
	i, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		most := int64(math.MaxInt64) >> (64 - bits)
		return fmt.Errorf("is out of range: %d to %d", -most-1, most)
	}
	v.SetInt(i)
	return nil
}

// asWhole says how to write a number that readers read differently, or returns "".
func asWhole(text string) string {
	if plain := strings.TrimLeft(text, "0"); decimal(plain) {
		if octal, err := strconv.ParseInt(text, 8, 64); err == nil {
			return fmt.Sprintf("write %s, or %d for the octal number", plain, octal)
		}
		return "write " + plain
	}
	if i, err := strconv.ParseInt(text, 0, 64); err == nil { // 0x1f, 0o17, 1_000
		return fmt.Sprintf("write %d", i)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return fmt.Sprintf("write %.0f", f)
	}
	for unit, factor := range map[string]float64{"k": 1e3, "m": 1e6} {
		digits, ok := strings.CutSuffix(strings.ToLower(text), unit)
		f, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if ok && err == nil && math.Abs(f) < 1e6 && f*factor == math.Trunc(f*factor) {
			return fmt.Sprintf("write %.0f", f*factor)
		}
	}
	return ""
}

func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64) // also accepts 0x1p-2 and Inf
	if errors.Is(err, strconv.ErrSyntax) || strings.TrimLeft(text, "0123456789.eE+-") != "" {
		return 0, remedied{"is not a number", ""}
	}
	if mantissa, _, _ := strings.Cut(strings.ToLower(text), "e"); err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return 0, errors.New("is out of range for a number")
	}
	return f, nil
}

// quoted shows a scalar in a problem: its value and origin, or only its place if the value is secret.
func quoted(n *Node, pieces []Piece, s *shape) string {
	switch {
	case s.kind == secretKind && len(pieces) == 1 && !pieces[0].Placeholder:
		return "the value"
	case s.kind == secretKind, concealed(pieces):
		return "the value of " + n.Text
	}
	text := joined(pieces)
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	if text != n.Text && hasPlaceholder(n.Text) {
		return strconv.Quote(text) + " (from " + n.Text + ")"
	}
	return strconv.Quote(text)
}
