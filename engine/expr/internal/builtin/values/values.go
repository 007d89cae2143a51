// Package values has the functions for values of any kind: len, type, string, int, to_json, get, try, hash, and those that
// fail a message.
package values

import (
	"encoding/hex"
	"hash/fnv"
	"math"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of all kinds of values.
func Declare() {
	values.Declare("values", true)
	failures.Declare("failures", false)
	lang.Lookup("len").Shallow, lang.Lookup("type").Shallow = true, true
	lang.Lookup("len").Shortcuts = func(_ *lang.Site, call *lang.Node, args []lang.Node) {
		call.Scalar = args[0].Scalar.Then(lang.Scalar.Length)
		if p := args[0].Path; p != nil {
			call.Scalar = func(d *doc.Doc) (lang.Scalar, bool) { return lang.ReadLength(d, *p) }
		}
	}
}

var values = lang.Builtins{
	{"len(text|list|object|bytes) int",
		"Number of characters, elements, keys or bytes.",
		`len("héllo") → 5`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			switch v := args[0].(type) {
			case string:
				return utf8.RuneCountInString(v)
			case []any:
				return len(v)
			case []byte:
				return len(v)
			default:
				return len(v.(map[string]any))
			}
		}},
	{"type(any) text",
		"Name of the value's type: nil, bool, int, float, string, bytes, array, map, time, duration, zone.",
		`type([1]) → "array"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			switch value.KindOf(args[0]) {
			case value.Big:
				return "int"
			case value.Bytes:
				return "bytes"
			case value.Time:
				return "time"
			case value.Duration:
				return "duration"
			case value.Zone:
				return "zone"
			}
			return builtin.Type(args[0])
		}},
	{"abs(number) number",
		"The number without its sign.",
		`abs(-2.5) → 2.5`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			if args[0] == math.MinInt {
				s.FailOverflow()
			}
			return builtin.Abs(args[0])
		}},
	{"ceil(number) number",
		"The number rounded up to a whole number.",
		`ceil(1.2) → 2`,
		whole(math.Ceil)},
	{"floor(number) number",
		"The number rounded down to a whole number.",
		`floor(-1.2) → -2`,
		whole(math.Floor)},
	{"round(number) number",
		"The nearest whole number; halves round away from zero.",
		`round(2.5) → 3`,
		whole(math.Round)},
	{"int(number|big|text) int|big",
		"The number without its fraction, or the integer in a text, in decimal or after 0x, 0o or 0b.",
		"int(\"42\") → 42\nint(\"0x2a\") → 42",
		lang.ToInt},
	{"float(number|big|text) float",
		"The number, or the number in a text, as a floating-point number, rounded if necessary.",
		`float("1e3") → 1000`,
		lang.ToFloat},
	{"string(value) text",
		"Text as it is, bytes as text, a time in RFC 3339, anything else as JSON.",
		`string([1, "a"]) → "[1,\"a\"]"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.ChargeText(s.Offset, args[0])
			return string(lang.AppendText(s, nil, args[0]))
		}},
	{"to_json(any) text",
		"The value as JSON, on one line, keys sorted.",
		`to_json({b: 1, a: "x"}) → "{\"a\":\"x\",\"b\":1}"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.ChargeText(s.Offset, args[0])
			return string(lang.AppendJSON(s, nil, args[0]))
		}},
	{"from_json(text) any",
		"The value of a JSON text.",
		`from_json("[1, 2]") → [1, 2]`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return f.DecodeText(s, []byte(args[0].(string)))
		}},
	{"get(any, text|int) any",
		"The value at a path, given as text, or at an index; nil if there is none.",
		`get({a: [1, 2]}, "a[1]") → 2`,
		nil}, // package lang compiles it
	{"try(any, any) any",
		"The first value or, if it can't be evaluated, the second, which is evaluated only then. An exhausted budget, a timeout and a payload " +
			"that is not a document are still errors.",
		`try(int("x"), 0) → 0`,
		nil}, // package lang compiles it
	{"bytes(text|bytes) bytes",
		"The bytes of a text.",
		`len(bytes("é")) → 2`,
		func(_ *lang.Frame, _ *lang.Site, args []any) any { return []byte(value.TextOf(args[0])) }},
	{"hash(value) text",
		"A stable hash of the value, 16 hexadecimal digits (FNV-1a); equal values have equal hashes.",
		`hash("a") → "d4272417d7c77eea"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.ChargeText(s.Offset, args[0])
			h := fnv.New64a()
			h.Write(lang.AppendKeyOf(s, nil, args[0]))
			return hex.EncodeToString(h.Sum(nil))
		}},
}

var failures = lang.Builtins{
	{"throw(text) any",
		"Fails the message, with this reason.",
		`try(throw("no"), "caught") → "caught"`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			s.Fail("%s", reason(s, args[0]))
			return nil
		}},
	{"assert(bool, text) bool",
		"True, or fails the message with this reason.",
		`assert(2 > 1, "odd numbers") → true`,
		func(_ *lang.Frame, s *lang.Site, args []any) any {
			if args[0] == false {
				s.Fail("%s", reason(s, args[1]))
			}
			return true
		}},
}

// reason is a text for an error, unless it is secret.
func reason(s *lang.Site, v any) string {
	if s.Secret[0] {
		return s.Name + "()"
	}
	return v.(string)
}

// whole rounds floats. Integers stay as they are.
func whole(round func(float64) float64) func(f *lang.Frame, s *lang.Site, args []any) any {
	return func(_ *lang.Frame, _ *lang.Site, args []any) any {
		if f, ok := args[0].(float64); ok {
			return round(f)
		}
		return args[0]
	}
}
