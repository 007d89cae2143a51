package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// cronFields are the fields of a cron expression. Each is parsed separately, so that an error names its field.
var cronFields = [5]struct {
	name   string
	parser cron.Parser
}{
	{"minute", cron.NewParser(cron.Minute)},
	{"hour", cron.NewParser(cron.Hour)},
	{"day", cron.NewParser(cron.Dom)},
	{"month", cron.NewParser(cron.Month)},
	{"weekday", cron.NewParser(cron.Dow)},
}

// cronItem is an item of a field's list. The library also accepts items such as "" and "*-5", and panics on "TZ=".
var cronItem = regexp.MustCompile(`^(?:[*?]|\w+(?:-\w+)?)(?:/\d+)?$`)

// star is a bit that the library sets in a field without restrictions.
const star = 1 << 63

// parseCron parses five fields or a name such as @daily, after an optional time zone such as TZ=Europe/Zurich. The
// default is UTC.
func parseCron(text string) (cron.Schedule, error) {
	zone := time.UTC
	fields := strings.Fields(text)
	if len(fields) > 0 {
		if name, ok := strings.CutPrefix(strings.TrimPrefix(fields[0], "CRON_"), "TZ="); ok {
			var err error
			if zone, err = time.LoadLocation(name); err != nil || name == "" || zone == time.Local {
				return nil, fmt.Errorf("%q is not a valid time zone (write a name such as Europe/Zurich)", name)
			}
			fields = fields[1:]
		}
	}
	var c *cron.SpecSchedule
	var err error
	switch {
	case len(fields) == 1 && fields[0] == "@every" || len(fields) == 2 && fields[0] == "@every":
		return nil, errors.New("@every is not a cron expression (write the duration alone)")
	case len(fields) == 1 && strings.HasPrefix(fields[0], "@"):
		c, err = parseName(fields[0])
	case len(fields) == len(cronFields):
		c, err = parseFields(fields)
	default:
		err = fmt.Errorf("%q is neither a duration nor a cron expression of five fields", text)
	}
	if err != nil {
		return nil, err
	}
	c.Location = zone
	if next(c, time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("%q names a date that does not exist", text)
	}
	return c, nil
}

// parseName parses a name such as @daily.
func parseName(name string) (*cron.SpecSchedule, error) {
	s, err := cron.ParseStandard(name)
	if err != nil {
		return nil, fmt.Errorf("%q is unknown (use @yearly, @monthly, @weekly, @daily or @hourly)", name)
	}
	return s.(*cron.SpecSchedule), nil
}

func parseFields(fields []string) (*cron.SpecSchedule, error) {
	all := cron.SpecSchedule{Second: 1}
	into := [...]*uint64{&all.Minute, &all.Hour, &all.Dom, &all.Month, &all.Dow}
	for i, field := range fields {
		set, err := parseField(i, field)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", cronFields[i].name, field, err)
		}
		*into[i] = set
	}
	return &all, nil
}

// parseField parses a field into a set of numbers, and star.
func parseField(i int, field string) (set uint64, err error) {
	for item := range strings.SplitSeq(field, ",") {
		if !cronItem.MatchString(item) {
			return 0, fmt.Errorf("%q is not a number, a range, * or one of these with a /step", item)
		}
		if i == weekday {
			item = sunday(item)
		}
		parsed, err := cronFields[i].parser.Parse(item)
		if err != nil {
			problem, _, _ := strings.Cut(err.Error(), ": strconv.")
			return 0, errors.New(problem)
		}
		s := parsed.(*cron.SpecSchedule)
		set |= [...]uint64{s.Minute, s.Hour, s.Dom, s.Month, s.Dow}[i]
	}
	if field[0] == '*' { // the library does not treat */2 as a star, but other crons do
		set |= star
	}
	return set, nil
}

const weekday = 4 // index in cronFields

// sunday replaces 7, for Sunday, by 0 in an item of weekdays: the library only knows 0.
func sunday(item string) string {
	span, stepText, stepped := strings.Cut(item, "/")
	from, to, ranged := strings.Cut(span, "-")
	switch {
	case from == "7" && (!ranged || to == "7"):
		return "0"
	case to != "7":
		return item
	}
	first, err := parseField(weekday, from)
	step := 1
	if stepped && err == nil {
		step, err = strconv.Atoi(stepText)
	}
	if err != nil || step < 1 || first&star != 0 {
		return item // the library reports the error
	}
	var days []string
	for day := bits.TrailingZeros64(first); day <= 7; day += min(step, 8) {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

// next returns the first time after t that the expression names, or zero. It leaves out times that the zone's clocks
// skip, and returns times that they show twice twice. The library does not return if clocks have skipped a whole day,
// which last happened in 2011, in Pacific/Apia.
func next(c cron.Schedule, t time.Time) time.Time {
	n := c.Next(t)
	if n.IsZero() { // the library looks five years ahead, but around 2100 February 29 is eight years away
		n = c.Next(t.AddDate(5, 0, 0))
	}
	return n
}
