package bloblang

import (
	"strconv"
	"strings"
)

// time translates a value to a time: from RFC 3339 or seconds since 1970, unless it is a time already.
func (a *asked) time(n node) expression {
	x := a.expr(n, a.e)
	switch x.kind {
	case timeKind:
		return x
	case number:
		return function("from_unix", timeKind, x)
	case unknown:
		y := a.named(x, func(x string) expression {
			return expression{text: "type(" + x + ") == \"string\" ? parse_time(" + x + ") : from_unix(" + x + ")",
				bind: bindTernary}
		})
		y.kind = timeKind
		return y
	}
	return function("parse_time", timeKind, x)
}

func parseTime(a *asked) expression {
	return function("parse_time", timeKind, a.of(), a.arg(0))
}

func formatTime(a *asked) expression {
	args := []expression{a.time(a.n.of)}
	if !a.has(0) {
		x := args[0]
		if a.has(1) {
			x = function("in_zone", timeKind, x, a.arg(1))
		}
		return function("string", text, x)
	}
	args = append(args, a.arg(0))
	if a.has(1) {
		args = append(args, a.arg(1))
	}
	return function("format_time", text, args...)
}

// nanoseconds returns the text of a duration that an argument gives in nanoseconds, as parse_duration() or a number.
func (a *asked) nanoseconds(n node) (string, bool) {
	if c, ok := n.(*call); ok && strings.HasPrefix(c.name, "parse_duration") && c.of != nil {
		if v, ok := a.literalOf(c.of); ok {
			s, ok := v.(string)
			return s, ok
		}
	}
	if v, ok := a.literalOf(n); ok {
		if i, ok := v.(int64); ok {
			return strconv.FormatInt(i, 10) + "ns", true
		}
	}
	return "", false
}

func roundTime(a *asked) expression {
	d, ok := a.nanoseconds(a.node(0))
	if !ok {
		return a.unknown(
			"ts_round() can be translated only with a duration that is written here; write round_time(t, \"1h\").")
	}
	return function("round_time", timeKind, a.time(a.n.of), literalText(d))
}

func subtractTime(a *asked) expression {
	ns := literalText("ns")
	return infix(function("unix", number, a.time(a.n.of), ns), "-", bindAdd,
		function("unix", number, a.time(a.node(0)), ns), number)
}

var isoDate = pattern(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(T.+)?$`)

func addDuration(a *asked, sign int) expression {
	s, ok := a.text(0)
	parts := isoDate().FindStringSubmatch(s)
	x := a.time(a.n.of)
	if !ok {
		op := map[int]string{1: "+", -1: "-"}[sign]
		a.differs(a.n, "A duration with years or months fails.")
		return infix(x, op, bindAdd, function("duration", unknown, a.arg(0)), timeKind)
	}
	if parts == nil {
		return a.unknown("%q can't be translated; write add_date(t, years, months, days) and duration().", s)
	}
	n := func(i int) int { v, _ := strconv.Atoi(parts[i]); return sign * v }
	years, months, days := n(1), n(2), n(3)*7+n(4)
	if years != 0 || months != 0 || days != 0 {
		args := []expression{x, literalInt(int64(years)), literalInt(int64(months)), literalInt(int64(days))}
		if days == 0 {
			args = args[:3]
			if months == 0 {
				args = args[:2]
			}
		}
		x = function("add_date", timeKind, args...)
	}
	if parts[5] != "" {
		op := map[int]string{1: "+", -1: "-"}[sign]
		x = infix(x, op, bindAdd, function("duration", unknown, literalText("P"+parts[5])), timeKind)
	}
	return x
}

func parseDuration(a *asked) expression {
	return function("int", number, infix(function("duration", unknown, a.of()), "/", bindMultiply,
		whole(`duration("1ns")`, unknown), number))
}

func timestamp(a *asked) expression {
	x := a.time(a.n.of)
	if a.has(0) {
		return function("try", timeKind, x, a.time(a.node(0)))
	}
	return x
}
