package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// Fit returns text as a terminal may show it in one line, cut to a number of columns.
func Fit(text string, width int) string { return safe(text, width) }

// safe returns text as a terminal may show it in one line, cut to a number of columns. Control characters become visible,
// and so does what is not UTF-8.
func safe(text string, width int) string {
	if width <= 0 {
		return ""
	}
	const widest = 8 // bytes of a column, with combining marks, for most scripts
	whole := len(text) <= widest*width
	if !whole { // a text may have a megabyte
		text = text[:widest*width]
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case controls.Is(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	shown := b.String()
	if whole && ansi.StringWidth(shown) <= width {
		return shown
	}
	return ansi.Truncate(shown, width-1, "") + "…"
}

// cell returns text in exactly so many columns.
func cell(text string, width int) string {
	shown := safe(text, width)
	return shown + strings.Repeat(" ", max(0, width-ansi.StringWidth(shown)))
}

// right is like cell, at the right edge.
func right(text string, width int) string {
	shown := safe(text, width)
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(shown))) + shown
}

// short formats a number with three digits, such as 12.3k.
func short(n float64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= 0.9995*u.size { // 999.5 rounds to 1000
			return strconv.FormatFloat(n/u.size, 'g', 3, 64) + u.unit
		}
	}
	if n >= 1 || n <= 0 {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// volume formats a number of bytes, such as 1.2M.
func volume(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if size < 999.5 {
			break
		}
		size, unit = size/1024, next
	}
	return strconv.FormatFloat(size, 'g', 3, 64) + unit
}

// span formats seconds with two or three digits, or returns "-" for zero.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d <= 0:
		return "-"
	case d < time.Millisecond:
		return strconv.FormatInt(max(1, d.Microseconds()), 10) + "µs"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(seconds*1e3, 'f', 1, 64) + "ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 100*time.Second:
		return strconv.FormatFloat(seconds, 'g', 3, 64) + "s"
	case d < 100*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// counts lists numbers by name, the largest first.
func counts(n map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	var all []string
	for _, name := range names {
		if n[name] > 0 {
			all = append(all, short(float64(n[name]))+" "+name)
		}
	}
	return strings.Join(all, ", ")
}

// limited describes a rate limit.
func limited(l service.Rate) string {
	text := fmt.Sprintf("%d/%s", l.Messages, time.Duration(l.Per*float64(time.Second)))
	if l.Keys > 0 {
		text += ", " + short(float64(l.Keys)) + " keys"
	}
	return text
}
