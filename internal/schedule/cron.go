package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a cron expression: sets of minutes, hours, days, months and weekdays. It is no library's: those accept
// mistakes such as `1,,` or `*-5`, or do not know 7 for Sunday, and their errors do not name the field.
type cron struct {
	minutes, hours, days, months, weekdays uint64
	anyDay                                 bool // days or weekdays is *: both count, else one is enough
}

var cronFields = [5]struct {
	name     string
	min, max int
	names    string
}{
	{"minute", 0, 59, ""},
	{"hour", 0, 23, ""},
	{"day", 1, 31, ""},
	{"month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
	{"weekday", 0, 7, "sun mon tue wed thu fri sat"},
}

// parseCron reads five fields: numbers, names, lists, ranges and steps.
func parseCron(text string) (*cron, error) {
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return nil, fmt.Errorf("%q is neither a duration nor a cron expression of five fields", text)
	}
	var sets [5]uint64
	for i, part := range parts {
		for item := range strings.SplitSeq(part, ",") {
			set, err := parseCronItem(item, i)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", cronFields[i].name, part, err)
			}
			sets[i] |= set
		}
	}
	c := &cron{sets[0], sets[1], sets[2], sets[3], sets[4] | sets[4]>>7&1, parts[2][0] == '*' || parts[4][0] == '*'}
	if c.next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("%q names a date that does not exist", text)
	}
	return c, nil
}

// parseCronItem reads one of *, n, a-b, with or without /step.
func parseCronItem(item string, field int) (set uint64, err error) {
	f := cronFields[field]
	span, stepText, stepped := strings.Cut(item, "/")
	low, high, step := f.min, f.max, 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, fmt.Errorf("%q is not a valid step", stepText)
		}
	}
	if span != "*" {
		from, to, ranged := strings.Cut(span, "-")
		if low, err = cronNumber(from, field); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if high, err = cronNumber(to, field); err != nil {
				return 0, err
			}
		case !stepped:
			high = low
		}
		if high < low {
			return 0, fmt.Errorf("%s goes backwards", span)
		}
	}
	for i := low; i <= high; i += step {
		set |= 1 << i
	}
	return set, nil
}

func cronNumber(text string, field int) (int, error) {
	f := cronFields[field]
	for i, name := range strings.Fields(f.names) {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not between %d and %d", text, f.min, f.max)
	}
	return n, nil
}

// next is the first minute after t that the expression names, or zero: there is
// none within the 28 years in which the calendar repeats.
func (c *cron) next(t time.Time) time.Time {
	t = t.Truncate(time.Minute).Add(time.Minute)
	for limit := t.AddDate(28, 0, 0); t.Before(limit); {
		year, month, day := t.Date()
		switch {
		case c.months>>month&1 == 0:
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.hasDay(t):
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case c.hours>>t.Hour()&1 == 0:
			t = t.Truncate(time.Hour).Add(time.Hour)
		case c.minutes>>t.Minute()&1 == 0:
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

func (c *cron) hasDay(t time.Time) bool {
	day, weekday := c.days>>t.Day()&1 == 1, c.weekdays>>t.Weekday()&1 == 1
	if c.anyDay {
		return day && weekday
	}
	return day || weekday
}
