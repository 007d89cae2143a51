package calendar

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// isoUnits are the units of ISO 8601. Those with a T are units of the time of day. Years and months are left out, as their lengths
// differ; a day has 24 hours here.
var isoUnits = []struct {
	name   string
	length time.Duration
}{
	{"W", 7 * 24 * time.Hour}, {"D", 24 * time.Hour}, {"TH", time.Hour}, {"TM", time.Minute}, {"TS", time.Second},
}

// ParseDuration reads a duration as Go writes it, or in ISO 8601.
func ParseDuration(text string) (time.Duration, bool) {
	unsigned := strings.TrimLeft(text, "+-")
	if !strings.HasPrefix(unsigned, "P") {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	if len(text)-len(unsigned) > 1 {
		return 0, false
	}
	return isoDuration(unsigned[1:], text[0] == '-')
}

// isoDuration reads what follows the P. Each unit may come once, in order, and the last may have a fraction.
func isoDuration(text string, negative bool) (sum time.Duration, ok bool) {
	clock, fraction := "", false
	units := isoUnits
	for text != "" {
		if rest, is := strings.CutPrefix(text, "T"); is && clock == "" {
			clock, text = "T", rest
		}
		n := 0
		for n < len(text) && (text[n]-'0' <= 9 || text[n] == '.' || text[n] == ',') {
			n++
		}
		if n == 0 || n == len(text) || fraction {
			return 0, false
		}
		unit := -1
		for i := range units {
			if units[i].name == clock+text[n:n+1] {
				unit = i
			}
		}
		if unit < 0 {
			return 0, false
		}
		var d time.Duration
		if d, fraction, ok = decimalUnits(text[:n], units[unit].length); !ok || sum > math.MaxInt64-d {
			return 0, false
		}
		sum, text, units = sum+d, text[n+1:], units[unit+1:]
	}
	if negative {
		sum = -sum
	}
	return sum, ok
}

// decimalUnits is the duration of a decimal number of units. fraction says whether the number has a fraction.
func decimalUnits(number string, unit time.Duration) (d time.Duration, fraction, ok bool) {
	whole, rest, fraction := strings.Cut(strings.Replace(number, ",", ".", 1), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, fraction, false
	}
	d = time.Duration(n) * unit
	if !fraction {
		return d, false, true
	}
	nano, left := cutFraction(rest)
	if nano < 0 || left != "" {
		return 0, true, false
	}
	part := time.Duration(nano) * (unit / time.Second)
	return d + part, true, d <= math.MaxInt64-part
}

// FormatDuration writes a duration in ISO 8601.
func FormatDuration(d time.Duration) string {
	b := make([]byte, 0, 32)
	left := uint64(d)
	if d < 0 {
		b, left = append(b, '-'), -left
	}
	b = append(b, 'P')
	const hour, minute, second = uint64(time.Hour), uint64(time.Minute), uint64(time.Second)
	clock := false
	for _, u := range []struct {
		length uint64
		sign   byte
	}{{24 * hour, 'D'}, {hour, 'H'}, {minute, 'M'}} {
		n := left / u.length
		left %= u.length
		if n == 0 {
			continue
		}
		if u.sign != 'D' && !clock {
			b, clock = append(b, 'T'), true
		}
		b = append(strconv.AppendUint(b, n, 10), u.sign)
	}
	if left == 0 && d != 0 {
		return string(b)
	}
	if !clock {
		b = append(b, 'T')
	}
	b = strconv.AppendUint(b, left/second, 10)
	if nano := left % second; nano != 0 {
		digits := strconv.AppendUint(nil, second+nano, 10)[1:] // with leading zeros
		b = append(append(b, '.'), strings.TrimRight(string(digits), "0")...)
	}
	return string(append(b, 'S'))
}
