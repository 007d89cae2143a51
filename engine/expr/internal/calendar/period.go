package calendar

import (
	"slices"
	"time"
)

// Periods are the names of the periods to which times are truncated, in the calendar of their zone.
var Periods = []string{"second", "minute", "hour", "day", "week", "month", "quarter", "year"}

// Period is a part of the calendar, such as a month, or a duration.
type Period struct {
	unit   string // "": a duration
	Length time.Duration
}

// ParsePeriod reads the name of a period, or a duration that is more than 0.
func ParsePeriod(text string) (p Period, ok bool) {
	if slices.Contains(Periods, text) {
		return Period{unit: text}, true
	}
	d, ok := ParseDuration(text)
	return Period{Length: d}, ok && d > 0
}

// Floor is the beginning of the period that t is in. Durations count from the beginning of the year 1, in UTC.
func (p Period) Floor(t time.Time) time.Time {
	wall := wallOf(t)
	year, month, day := wall.Date()
	switch p.unit {
	case "":
		return t.Truncate(p.Length)
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
	return fromWall(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), t.Location())
}

// floorClock is when clocks showed wall, the beginning of the hour or minute that t is in. If they showed it twice, it is the time
// with the offset of t. If they skipped it, it is the first moment after that.
func floorClock(t, wall time.Time) time.Time {
	same := wall.Add(-time.Duration(offsetOf(t)) * time.Second).In(t.Location())
	if offsetOf(same) == offsetOf(t) {
		return same
	}
	if other := fromWall(wall, t.Location()); !other.After(t) {
		return other
	}
	start, _ := t.ZoneBounds()
	return start
}

// ceiling is the beginning of the period after the one that begins at start.
func (p Period) ceiling(start time.Time) time.Time {
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
	return fromWall(time.Date(year+years, month+time.Month(months), day+days, 0, 0, 0, 0, time.UTC), start.Location())
}

// afterClock is ceiling for hours and minutes. They are longer or shorter if clocks are set back or forward within them.
func (p Period) afterClock(start time.Time, length time.Duration) time.Time {
	next := start.Add(length)
	if begun := p.Floor(next); begun.After(start) {
		return begun
	}
	wall := wallOf(next)
	return next.Add(length - wall.Sub(wall.Truncate(length)))
}

// Round is the nearer end of the period that t is in; halves go up.
func (p Period) Round(t time.Time) time.Time {
	if p.unit == "" {
		return t.Round(p.Length)
	}
	start := p.Floor(t)
	end := p.ceiling(start)
	if t.Sub(start) < end.Sub(t) {
		return start
	}
	return end
}

// AddDate moves t by the calendar of its zone: years and months first, to the last day of a month that is too short,
// then days. Clocks show the same time there, if they do at all. ok is false if the result is far beyond all years.
func AddDate(t time.Time, years, months, days int) (moved time.Time, ok bool) {
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
	if offsetOf(same) == offsetOf(t) { // if clocks show this hour twice, the one with the offset of t
		return same, true
	}
	return fromWall(moved, t.Location()), true
}
