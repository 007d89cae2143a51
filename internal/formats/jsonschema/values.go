package jsonschema

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

var typeNames = [...]string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typeOf returns the JSON Schema type of a value, without integer.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return reflect.TypeOf(v).String()
}

func wrongType(v any, want string) string { return "got " + typeOf(v) + ", want " + want }

func equalItems(i, j int) string {
	return "items at " + strconv.Itoa(i) + " and " + strconv.Itoa(j) + " are equal"
}

// rational returns the exact value of a number.
func rational(v any) *big.Rat {
	n, _ := v.(json.Number)
	r, ok := new(big.Rat).SetString(string(n)) // #nosec G113 -- 1000 digits at most, see bounded
	if !ok {
		return new(big.Rat)
	}
	return r
}

// small returns the value of a number written as an integer of at most 18 digits.
func small(n json.Number) (int64, bool) {
	if len(n) > 18 {
		return 0, false
	}
	var i int64
	digits := strings.TrimPrefix(string(n), "-")
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int64(c-'0')
	}
	if len(digits) < len(n) {
		i = -i
	}
	return i, true
}

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	return rational(n).IsInt()
}

// compare compares a number with a bound: -1, 0 or 1.
func (b *bound) compare(n json.Number) int {
	if i, ok := small(n); ok && b.fits {
		switch {
		case i < b.small:
			return -1
		case i > b.small:
			return 1
		}
		return 0
	}
	return rational(n).Cmp(b.exact)
}

// divides reports whether a number is a multiple of the bound.
func (b *bound) divides(n json.Number) bool {
	if i, ok := small(n); ok && b.fits {
		return i%b.small == 0
	}
	return new(big.Rat).Quo(rational(n), b.exact).IsInt()
}

// equal compares values as JSON Schema does: 1 and 1.0 are the same number.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || rational(a).Cmp(rational(b)) == 0)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, ok := b[key]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	switch b.(type) { // can't be compared
	case []any, map[string]any:
		return false
	}
	return a == b
}

// values are the allowed values of enum or const.
type values struct {
	texts  map[string]bool
	others map[string]bool // in the form of canonical
	words  string          // the finding for other values
}

func newValues(all []any) *values {
	v := &values{texts: map[string]bool{}, others: map[string]bool{}}
	words := make([]string, len(all))
	plain := true
	for i, one := range all {
		switch one := one.(type) {
		case string:
			v.texts[one] = true
			words[i] = "'" + one + "'"
			continue
		case []any, map[string]any:
			plain = false
		case json.Number:
			words[i] = string(one)
		case bool:
			words[i] = strconv.FormatBool(one)
		default:
			words[i] = "null"
		}
		v.others[string(canonical(nil, one))] = true
	}
	switch {
	case !plain:
		v.words = "is none of the values that are allowed"
	case len(all) == 1:
		v.words = "must be " + words[0]
	default:
		v.words = "must be one of " + strings.Join(words, ", ")
	}
	return v
}

// weigh returns how many steps a look-up takes.
func (v *values) weigh(one any) int {
	if _, text := one.(string); text || len(v.others) == 0 {
		return 0
	}
	return weigh(one)
}

func (v *values) has(one any) bool {
	if s, ok := one.(string); ok {
		return v.texts[s]
	}
	if len(v.others) == 0 {
		return false
	}
	var room [64]byte
	return v.others[string(canonical(room[:0], one))]
}

// few is the number of items up to which comparing them is faster than canonical forms.
const few = 12

// twins finds two equal items.
func twins(all []any) (i, j int, ok bool) {
	if len(all) <= few && weigh(all) <= 4*few {
		for j := range all {
			for i := range j {
				if equal(all[i], all[j]) {
					return i, j, true
				}
			}
		}
		return 0, 0, false
	}
	seen := make(map[string]int, len(all))
	var text []byte
	for j, v := range all {
		text = canonical(text[:0], v)
		if i, ok := seen[string(text)]; ok {
			return i, j, true
		}
		seen[string(text)] = j
	}
	return 0, 0, false
}

// canonical appends a text that is equal exactly for equal values.
func canonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case json.Number:
		if i, ok := small(v); ok {
			return strconv.AppendInt(b, i, 10)
		}
		return append(b, rational(v).RatString()...)
	case string:
		return strconv.AppendQuote(b, v)
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(canonical(b, item), ',')
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, key := range sorted(v) {
			b = append(canonical(append(strconv.AppendQuote(b, key), ':'), v[key]), ',')
		}
		return append(b, '}')
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}
