package expr

import (
	"encoding/hex"
	"errors"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"

	"github.com/flowd-io/flowd/engine/doc"
)

// builtins declares functions of this package: usage, docs, code. Most are expr's own with
// their arguments checked first; the rest are reimplemented where expr's lose digits,
// panic, or depend on the order of a Go map.
type builtins []struct {
	usage string
	doc   string
	run   func(f *frame, s *site, args []any) any
}

func (bs builtins) declare(pure bool) {
	for _, b := range bs {
		name, _, _ := strings.Cut(b.usage, "(")
		functions[name] = &function{
			Func: Func{Name: name, Doc: b.doc, Usage: b.usage},
			sigs: []signature{parseUsage(b.usage)},
			pure: pure,
			run:  b.run,
		}
	}
}

func init() {
	values.declare(true)
	texts.declare(true)
	lists.declare(true)
	bitwise.declare(true)
	times.declare(true)
	clocks.declare(false)
	for _, name := range []string{"len", "type", "first", "last", "take"} {
		functions[name].shallow = true
	}
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
			fail(s.offset, "%s(): %s", name, err)
		}
		return normal(s, v)
	}
}

var values = builtins{
	{"len(text|list|object) int", "Number of characters, elements or keys.", func(f *frame, s *site, args []any) any {
		switch v := args[0].(type) {
		case string:
			return utf8.RuneCountInString(v)
		case []any:
			return len(v)
		default:
			return len(v.(map[string]any))
		}
	}},
	{"type(any) text", "Name of the value's type: nil, bool, int, float, string, array, map.",
		func(f *frame, s *site, args []any) any {
			if kindOf(args[0]) == kBig {
				return "int"
			}
			return builtin.Type(args[0])
		}},
	{"abs(number) number", "The number without its sign.", func(f *frame, s *site, args []any) any {
		if args[0] == math.MinInt {
			s.overflow()
		}
		return builtin.Abs(args[0])
	}},
	{"ceil(number) number", "The number rounded up to a whole number.", whole(math.Ceil)},
	{"floor(number) number", "The number rounded down to a whole number.", whole(math.Floor)},
	{"round(number) number", "The nearest whole number; halves go away from zero.", whole(math.Round)},
	{"int(number|big|text) int|big", "The number without its fraction, or the integer that a text gives.", toInt},
	{"float(number|big|text) float", "The number with a fraction, rounded if need be, or the number that a text gives.",
		toFloat},
	{"string(value) text", "Text as it is, a time in RFC 3339, anything else as JSON.",
		func(f *frame, s *site, args []any) any {
			f.encode(s.offset, args[0])
			return string(appendText(s, nil, args[0]))
		}},
	{"toJSON(any) text", "The value as JSON, on one line, keys sorted.", func(f *frame, s *site, args []any) any {
		f.encode(s.offset, args[0])
		return string(appendJSON(s, nil, args[0]))
	}},
	{"fromJSON(text) any", "The value of a JSON text.", func(f *frame, s *site, args []any) any {
		return f.decode(s, []byte(args[0].(string)))
	}},
	{"get(any, text|int) any", "The value at a path, given as text, or at an index; nil if there is none.",
		nil}, // compiled by itself
	{"hash(value) text", "A stable hash of the value, 16 hexadecimal digits (FNV-1a); equal values have equal hashes.",
		func(f *frame, s *site, args []any) any {
			f.encode(s.offset, args[0])
			h := fnv.New64a()
			h.Write(appendKey(s, nil, args[0]))
			return hex.EncodeToString(h.Sum(nil))
		}},
}

// decode decodes a text that may not be JSON.
func (f *frame) decode(s *site, text []byte) any {
	f.alloc(s.offset, len(text))
	var d doc.Doc
	d.Reset(text, nil)
	raw, _, err := d.Raw(doc.Path{})
	if err == nil {
		var v any
		if v, f.memory, err = doc.DecodeWithin(raw, f.memory); err == nil {
			return v
		}
	}
	if errors.Is(err, doc.ErrLarge) {
		f.tooMuch(s.offset)
	}
	fail(s.offset, "fromJSON(): the text is not JSON: %s", err)
	return nil
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
		if integer(v) {
			return bigNumber(v)
		}
		fail(s.offset, "int(): %s is not a whole number", s.left(v))
	}
	return args[0]
}

// bigNumber is an integer beyond int64 in JSON's spelling.
func bigNumber(text string) doc.Number {
	digits, negative := strings.CutPrefix(text, "-")
	digits = strings.TrimLeft(digits, "0")
	if negative {
		digits = "-" + digits
	}
	return doc.Number(digits)
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
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "+-.0123456789eE") != "" {
		fail(s.offset, "float(): %s is not a number", s.left(args[0]))
	}
	return s.finite(n)
}
