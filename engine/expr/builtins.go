package expr

import (
	"encoding/hex"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// builtins declares functions of this package: usage, docs, example, code. Most are expr's own with
// their arguments checked first; the rest are reimplemented where expr's lose digits,
// panic, or depend on the order of a Go map.
type builtins []struct {
	usage, doc, example string
	run                 func(f *frame, s *site, args []any) any
}

// declare declares functions of one group, by which docs list them.
func (bs builtins) declare(group string, pure bool) {
	for _, b := range bs {
		name := nameOf(b.usage)
		functions[name] = &function{
			Func: Func{Name: name, Group: group, Doc: b.doc, Usage: b.usage, Example: b.example},
			pure: pure,
			run:  b.run,
		}
	}
}

// families declare the functions of this package.
var families []func()

// family adds to families.
func family(declare func()) { families = append(families, declare) }

// declared makes the functions of this package. It runs before the first compilation: commands that compile nothing do
// without them.
var declared = sync.OnceFunc(func() {
	for _, declare := range families {
		declare()
	}
	maps.Copy(functions, plugins)
	for _, f := range functions {
		if f.sigs == nil && f.Call == nil {
			f.sigs = []signature{parseUsage(f.Usage)}
		}
	}
})

func init() {
	family(func() {
		values.declare("values", true)
		texts.declare("text", true)
		lists.declare("lists and objects", true)
		bitwise.declare("numbers", true)
		declareTimes()
		failures.declare("failures", false)
		for _, name := range []string{"len", "type", "first", "last", "take"} {
			functions[name].shallow = true
		}
		functions["len"].compiled = func(_ *site, call *node, args []node) {
			call.scalar = args[0].scalar.then(scalar.length)
			if p := args[0].path; p != nil {
				call.scalar = func(d *doc.Doc) (scalar, bool) { return readLength(d, *p) }
			}
		}
	})
}

// upstream is expr's own implementation of a function.
func upstream(name string) func(f *frame, s *site, args []any) any {
	f := builtin.Builtins[builtin.Index[name]]
	return func(_ *frame, s *site, args []any) any {
		if f.Fast != nil {
			return normal(s, f.Fast(args[0]))
		}
		v, err := f.Func(args...)
		if err != nil {
			s.fail("%s(): %s", name, err)
		}
		return normal(s, v)
	}
}

// legible is a function that rewrites the characters of a text: what is not UTF-8 has none.
func legible(of func(f *frame, s *site, args []any) any) func(f *frame, s *site, args []any) any {
	return func(f *frame, s *site, args []any) any {
		if !utf8.ValidString(args[0].(string)) {
			s.failFor("to_base64(x) and to_hex(x) give text of any bytes", "%s() needs text in UTF-8", s.name)
		}
		return of(f, s, args)
	}
}

var values = builtins{
	{"len(text|list|object|bytes) int",
		"Number of characters, elements, keys or bytes.",
		`len("héllo") → 5`,
		func(f *frame, s *site, args []any) any {
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
		func(f *frame, s *site, args []any) any {
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
		func(f *frame, s *site, args []any) any {
			if args[0] == math.MinInt {
				s.overflow()
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
		toInt},
	{"float(number|big|text) float",
		"The number, or the number in a text, as a floating-point number, rounded if necessary.",
		`float("1e3") → 1000`,
		toFloat},
	{"string(value) text",
		"Text as it is, bytes as text, a time in RFC 3339, anything else as JSON.",
		`string([1, "a"]) → "[1,\"a\"]"`,
		func(f *frame, s *site, args []any) any {
			f.encode(s.offset, args[0])
			return string(appendText(s, nil, args[0]))
		}},
	{"to_json(any) text",
		"The value as JSON, on one line, keys sorted.",
		`to_json({b: 1, a: "x"}) → "{\"a\":\"x\",\"b\":1}"`,
		func(f *frame, s *site, args []any) any {
			f.encode(s.offset, args[0])
			return string(appendJSON(s, nil, args[0]))
		}},
	{"from_json(text) any",
		"The value of a JSON text.",
		`from_json("[1, 2]") → [1, 2]`,
		func(f *frame, s *site, args []any) any {
			return f.decode(s, []byte(args[0].(string)))
		}},
	{"get(any, text|int) any",
		"The value at a path, given as text, or at an index; nil if there is none.",
		`get({a: [1, 2]}, "a[1]") → 2`,
		nil}, // compiled by itself
	{"try(any, any) any",
		"The first value or, if it can't be evaluated, the second, which is evaluated only then. An exhausted budget, a timeout and a payload " +
			"that is not a document are still errors.",
		`try(int("x"), 0) → 0`,
		nil}, // compiled by itself
	{"bytes(text|bytes) bytes",
		"The bytes of a text.",
		`len(bytes("é")) → 2`,
		func(_ *frame, _ *site, args []any) any { return []byte(value.TextOf(args[0])) }},
	{"hash(value) text",
		"A stable hash of the value, 16 hexadecimal digits (FNV-1a); equal values have equal hashes.",
		`hash("a") → "d4272417d7c77eea"`,
		func(f *frame, s *site, args []any) any {
			f.encode(s.offset, args[0])
			h := fnv.New64a()
			h.Write(appendKey(s, nil, args[0]))
			return hex.EncodeToString(h.Sum(nil))
		}},
}

var failures = builtins{
	{"throw(text) any",
		"Fails the message, with this reason.",
		`try(throw("no"), "caught") → "caught"`,
		func(_ *frame, s *site, args []any) any {
			s.fail("%s", s.said(args[0]))
			return nil
		}},
	{"assert(bool, text) bool",
		"True, or fails the message with this reason.",
		`assert(2 > 1, "odd numbers") → true`,
		func(_ *frame, s *site, args []any) any {
			if args[0] == false {
				s.fail("%s", s.said(args[1]))
			}
			return true
		}},
}

// said is a text for an error, unless it is secret.
func (s *site) said(v any) string {
	if s.secret[0] {
		return s.name + "()"
	}
	return v.(string)
}

// decode decodes a text that may not be JSON.
func (f *frame) decode(s *site, text []byte) any {
	v, err := f.decoded(s.offset, text)
	if err != nil {
		s.fail("%s(): the text is not JSON: %s", s.name, err)
	}
	return v
}

// decoded is decode for callers who say themselves what is wrong.
func (f *frame) decoded(offset int, text []byte) (any, error) {
	f.alloc(offset, len(text))
	var d doc.Doc
	d.Reset(text, nil)
	raw, _, err := d.Raw(doc.Path{})
	if err == nil {
		var v any
		if v, f.memory, err = doc.DecodeWithin(raw, f.memory); err == nil {
			return v, nil
		}
	}
	if errors.Is(err, doc.ErrLarge) {
		f.tooMuch(offset)
	}
	return nil, err
}

// whole rounds floats; integers are exact as they are.
func whole(round func(float64) float64) func(f *frame, s *site, args []any) any {
	return func(_ *frame, _ *site, args []any) any {
		if f, ok := args[0].(float64); ok {
			return round(f)
		}
		return args[0]
	}
}

// based matches an integer that says its base.
var based = regexp.MustCompile(`^[+-]?0[xXoObB][0-9a-fA-F]+$`)

func toInt(_ *frame, s *site, args []any) any {
	switch v := args[0].(type) {
	case float64:
		if v >= 1<<63 || v < -1<<63 {
			s.overflow()
		}
		return int(v)
	case string:
		if i, err := strconv.Atoi(v); err == nil {
			return i
		}
		if value.IsInteger(v) {
			return value.BigNumber(v)
		}
		if based.MatchString(v) {
			if i, err := strconv.ParseInt(v, 0, 0); err == nil {
				return int(i)
			}
		}
		s.fail("int(): %s is not a whole number", s.left(v))
	}
	return args[0]
}

func toFloat(_ *frame, s *site, args []any) any {
	var text string
	switch v := args[0].(type) {
	case int:
		return float64(v)
	case doc.Number:
		text = string(v)
	case string:
		text = v
	default:
		return v
	}
	n, ok := doc.ParseFloat([]byte(text))
	if _, err := strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrSyntax) || strings.Trim(text, "+-.0123456789eE") != "" {
		s.fail("float(): %s is not a number", s.left(args[0]))
	}
	if !ok {
		s.fail("float(): %s is beyond what a float can hold", s.left(args[0]))
	}
	return s.finite(n)
}
