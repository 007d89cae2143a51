package calendar

import "time"

// Part is a part of a time by its name, or nil if there is no part of this name.
func Part(t time.Time, name string) any {
	for _, p := range Parts {
		if p.Name == name {
			return p.Of(t)
		}
	}
	return nil
}

// Parts are the parts of a time: time_parts() gives all, and t.year reads one.
var Parts = []struct {
	Name string
	Of   func(t time.Time) any
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

// isoWeekday is 1 for Monday to 7 for Sunday.
func isoWeekday(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }

// zoneName is a zone's name, or its offset at t if it has none.
func zoneName(t time.Time) string {
	if name := t.Location().String(); name != "" {
		return name
	}
	return t.Format("-07:00")
}
