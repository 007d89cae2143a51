package times

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var (
	_ = lang.Role("period", value.Text|value.Duration, func(s *lang.Site, v any) any { return periodOf(s, v) })
	_ = lang.Role("unit", value.Text, func(s *lang.Site, v any) any { return unixUnit(s, v) })
)

func periodOf(s *lang.Site, v any) calendar.Period {
	if d, ok := v.(time.Duration); ok && d > 0 {
		return calendar.Period{Length: d}
	}
	if text, ok := v.(string); ok {
		if p, ok := calendar.ParsePeriod(text); ok {
			return p
		}
	}
	s.Fail("%s(): %s is neither a duration such as 15m nor one of %s", s.Name, s.Show(v), strings.Join(calendar.Periods, ", "))
	return calendar.Period{}
}

// periodAt is the period that argument i gives.
func periodAt(s *lang.Site, args []any, i int) calendar.Period {
	if p, ok := s.Prepared(i).(calendar.Period); ok {
		return p
	}
	return periodOf(s, args[i])
}

func unixUnit(s *lang.Site, v any) time.Duration {
	unit, ok := calendar.UnixUnits[v.(string)]
	if !ok {
		s.Fail(`%s(): a unit is "s", "ms", "us" or "ns", not %s`, s.Name, s.Show(v))
	}
	return unit
}

// unitAt is the unit that argument i gives, or seconds if there is no such argument.
func unitAt(s *lang.Site, args []any, i int) time.Duration {
	if i >= len(args) {
		return time.Second
	}
	if u, ok := s.Prepared(i).(time.Duration); ok {
		return u
	}
	return unixUnit(s, args[i])
}
