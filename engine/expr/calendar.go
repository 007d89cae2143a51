package expr

import (
	"math"
	"slices"
	"time"
)

// periods are what times are cut to, in the calendar of their zone.
var periods = []string{"second", "minute", "hour", "day", "week", "month", "quarter", "year"}

// period is a part of the calendar, or a duration.
type period struct {
	unit   string
	length time.Duration
}

// parsePeriod reads the name of a period, or a duration that is more than 0.
func parsePeriod(text string) (p period, ok bool) {
	if slices.Contains(periods, text) {
		return period{unit: text}, true
	}
	d, ok := parseDuration(text)
	return period{length: d}, ok && d > 0
}

// floor is the beginning of the period that t is in. Durations count from the beginning of the year 1, in UTC.
func (p period) floor(t time.Time) time.Time {
	wall := wallOf(t)
	year, month, day := wall.Date()
	switch p.unit {
	case "":
		return t.Truncate(p.length)
	case "second":
		return t.Add(-time.Duration(t.Nanosecond()))
	case "minute":
		return floorClock(t, wall.Truncate(time.Minute))
	case "hour":
		return floorClock(t, wall.Truncate(time.Hour))
	case "week":
		day -= isoWeekday(wall) - 1
	case "month":
		day = 1
	case "quarter":
		month, day = (month-1)/3*3+1, 1
	case "year":
		month, day = 1, 1
	}
	return local(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), t.Location())
}

// floorClock is when clocks showed wall, the beginning of the hour or minute that t is in. Of two such hours it is that
// of t; where clocks skipped the beginning, it is the first moment after that.
func floorClock(t, wall time.Time) time.Time {
	same := wall.Add(-time.Duration(offsetOf(t)) * time.Second).In(t.Location())
	if offsetOf(same) == offsetOf(t) {
		return same
	}
	if other := local(wall, t.Location()); !other.After(t) {
		return other
	}
	start, _ := t.ZoneBounds()
	return start
}

// ceiling is the beginning of the period after the one that begins at start.
func (p period) ceiling(start time.Time) time.Time {
	years, months, days := 0, 0, 0
	switch p.unit {
	case "second":
		return start.Add(time.Second)
	case "minute":
		return p.afterClock(start, time.Minute)
	case "hour":
		return p.afterClock(start, time.Hour)
	case "day":
		days = 1
	case "week":
		days = 7
	case "month":
		months = 1
	case "quarter":
		months = 3
	case "year":
		years = 1
	}
	year, month, day := wallOf(start).Date()
	return local(time.Date(year+years, month+time.Month(months), day+days, 0, 0, 0, 0, time.UTC), start.Location())
}

// afterClock is ceiling for hours and minutes. One in which clocks are set back or forward by less is longer or shorter.
func (p period) afterClock(start time.Time, length time.Duration) time.Time {
	next := start.Add(length)
	if begun := p.floor(next); begun.After(start) {
		return begun
	}
	wall := wallOf(next)
	return next.Add(length - wall.Sub(wall.Truncate(length)))
}

// round is the nearer end of the period that t is in; halves go up.
func (p period) round(t time.Time) time.Time {
	if p.unit == "" {
		return t.Round(p.length)
	}
	start := p.floor(t)
	end := p.ceiling(start)
	if t.Sub(start) < end.Sub(t) {
		return start
	}
	return end
}

// addDate moves t by the calendar of its zone: years and months first, to the last day of a month that is too short,
// then days. Clocks show the same time there, if they do at all. ok is false if the result is far beyond all years.
func addDate(t time.Time, years, months, days int) (moved time.Time, ok bool) {
	const most = 20_000 * 366
	if max(years, months, days) > most || min(years, months, days) < -most {
		return t, false
	}
	wall := wallOf(t)
	year, month, day := wall.Date()
	first := time.Date(year+years, month+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	day = min(day, daysIn(first.Year(), int(first.Month())))
	moved = first.AddDate(0, 0, day-1+days).Add(wall.Sub(time.Date(year, month, wall.Day(), 0, 0, 0, 0, time.UTC)))
	same := moved.Add(-time.Duration(offsetOf(t)) * time.Second).In(t.Location())
	if offsetOf(same) == offsetOf(t) { // of two hours with the same number, that of t
		return same, true
	}
	return local(moved, t.Location()), true
}

// timePart is a part of a time by its name, or nil.
func timePart(t time.Time, name string) any {
	for _, p := range timeParts {
		if p.name == name {
			return p.of(t)
		}
	}
	return nil
}

// timeParts are what time_parts() gives, and what can be read of a time as t.year.
var timeParts = []struct {
	name string
	of   func(t time.Time) any
}{
	{"year", func(t time.Time) any { return t.Year() }},
	{"quarter", func(t time.Time) any { return (int(t.Month()) + 2) / 3 }},
	{"month", func(t time.Time) any { return int(t.Month()) }},
	{"day", func(t time.Time) any { return t.Day() }},
	{"hour", func(t time.Time) any { return t.Hour() }},
	{"minute", func(t time.Time) any { return t.Minute() }},
	{"second", func(t time.Time) any { return t.Second() }},
	{"nanosecond", func(t time.Time) any { return t.Nanosecond() }},
	{"weekday", func(t time.Time) any { return isoWeekday(t) }},
	{"yearday", func(t time.Time) any { return t.YearDay() }},
	{"week", func(t time.Time) any { _, week := t.ISOWeek(); return week }},
	{"iso_year", func(t time.Time) any { year, _ := t.ISOWeek(); return year }},
	{"zone", func(t time.Time) any { return zoneName(t) }},
	{"offset", func(t time.Time) any { return offsetOf(t) }},
}

// unixUnits are the units in which times since 1970 are counted.
var unixUnits = map[string]time.Duration{
	"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "µs": time.Microsecond, "ns": time.Nanosecond,
}

// fromUnix is a time so many units after 1970; v is an int or a float64. Fractions are rounded to microseconds: floats
// have no more digits. ok is false if the time is not within the years 1 to 9999.
func fromUnix(v any, unit time.Duration) (t time.Time, ok bool) {
	n, ok := v.(int)
	var fraction time.Duration
	if f, isFloat := v.(float64); isFloat {
		whole, rest := math.Modf(f)
		n, ok = int(whole), math.Abs(whole) < 1<<62
		fraction = time.Duration(math.Round(rest*float64(unit)/1e3)) * time.Microsecond
	}
	if !ok {
		return t, false
	}
	perSecond := int(time.Second / unit)
	t = time.Unix(int64(n/perSecond), int64(n%perSecond)*int64(unit)).Add(fraction).UTC()
	return t, t.Year() >= 1 && t.Year() <= 9999
}

// toUnix is how many units t is after 1970. ok is false if 64 bits do not hold its nanoseconds.
func toUnix(t time.Time, unit time.Duration) (n int, ok bool) {
	if unit > time.Nanosecond {
		return int(t.Unix()*int64(time.Second/unit) + int64(t.Nanosecond())/int64(unit)), true
	}
	nano := t.UnixNano()
	return int(nano), time.Unix(0, nano).Equal(t)
}
