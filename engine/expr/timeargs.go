package expr

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var (
	_ = inRole("period", value.Text|value.Duration, func(s *site, v any) any { return periodOf(s, v) })
	_ = inRole("unit", value.Text, func(s *site, v any) any { return unixUnit(s, v) })
)

func periodOf(s *site, v any) calendar.Period {
	if d, ok := v.(time.Duration); ok && d > 0 {
		return calendar.Period{Length: d}
	}
	if text, ok := v.(string); ok {
		if p, ok := calendar.ParsePeriod(text); ok {
			return p
		}
	}
	s.fail("%s(): %s is neither a duration such as 15m nor one of %s", s.name, s.left(v), strings.Join(calendar.Periods, ", "))
	return calendar.Period{}
}

// periodAt is the period that argument i gives.
func periodAt(s *site, args []any, i int) calendar.Period {
	if p, ok := s.ready(i).(calendar.Period); ok {
		return p
	}
	return periodOf(s, args[i])
}

func unixUnit(s *site, v any) time.Duration {
	unit, ok := calendar.UnixUnits[v.(string)]
	if !ok {
		s.fail(`%s(): a unit is "s", "ms", "us" or "ns", not %s`, s.name, s.left(v))
	}
	return unit
}

// unitAt is the unit that argument i gives, or seconds if there is no such argument.
func unitAt(s *site, args []any, i int) time.Duration {
	if i >= len(args) {
		return time.Second
	}
	if u, ok := s.ready(i).(time.Duration); ok {
		return u
	}
	return unixUnit(s, args[i])
}
