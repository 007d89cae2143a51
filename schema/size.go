package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 64KiB, 5MiB or 1GB. A bare number counts bytes.
type Size int64

type sizeUnit struct {
	name  string
	bytes int64
}

var units = []sizeUnit{
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3},
	{"B", 1},
}

// String formats the size in the largest unit that gives a whole number.
func (s Size) String() string {
	for _, u := range units {
		if n := int64(s); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// MarshalText formats like String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSize parses a size. Units are KiB to PiB (1024) and KB to PB (1000), spelled like this. The error says what to
// write, if that is clear.
func ParseSize(text string) (Size, error) {
	number, unit := splitNumber(text)
	if number == "" {
		return 0, errors.New("is not a valid size such as 64KiB")
	}
	i := slices.IndexFunc(units, func(u sizeUnit) bool { return u.name == cmp.Or(unit, "B") })
	if i < 0 {
		if near := strings.TrimSpace(unit); near != "" && near != unit && nearUnit(near) == near {
			return 0, remedied{"is not a size: there is a blank in it", "write " + number + near}
		}
		if near := nearUnit(unit); near != "" {
			return 0, remedied{"is not a size: no unit " + strconv.Quote(strings.TrimSpace(unit)),
				"write " + number + near}
		}
		return 0, remedied{"is not a valid size such as 64KiB", "units are B, KiB, MiB, GiB, KB, MB, GB"}
	}
	n, ok := new(big.Rat).SetString(number) // #nosec G113 -- 40 digits at most, and no exponent
	if !ok {
		return 0, errors.New("is not a valid size such as 64KiB")
	}
	n.Mul(n, new(big.Rat).SetInt64(units[i].bytes))
	switch {
	case !n.IsInt():
		return 0, errors.New("is not a whole number of bytes")
	case !n.Num().IsInt64():
		return 0, fmt.Errorf("is too large, at most %d bytes", int64(math.MaxInt64))
	}
	return Size(n.Num().Int64()), nil
}

// splitNumber splits text after its leading decimal number. The number is "" if there is none, or if it is longer
// than any size, since parsing it could take long.
func splitNumber(text string) (number, rest string) {
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.' && end > 0) {
		end++
	}
	number = text[:end]
	if len(number) > 40 || strings.Count(number, ".") > 1 || strings.HasSuffix(number, ".") {
		return "", text
	}
	return number, text[end:]
}

// nearUnit returns the unit that a misspelt one means: kb is KB, m is MiB.
func nearUnit(unit string) string {
	unit = strings.ToLower(strings.TrimSpace(unit))
	switch unit {
	case "byte", "bytes":
		return "B"
	case "k", "m", "g", "t", "p", "ki", "mi", "gi", "ti", "pi":
		return strings.ToUpper(unit[:1]) + "iB"
	}
	for _, u := range units {
		if strings.ToLower(u.name) == unit {
			return u.name
		}
	}
	return ""
}

// remedied is an error with a remedy.
type remedied struct{ message, remedy string }

func (r remedied) Error() string { return r.message }
