package generate

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// schedule is when messages are due: every so often, or by a cron expression.
type schedule struct {
	every time.Duration
	cron  *cron
}

// UnmarshalConfig reads a duration or a cron expression.
func (s *schedule) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	parsed, err := parseSchedule(text)
	if err != nil {
		d.Report(n, schema.Problem{
			Code:    "bad-value",
			Message: err.Error(),
			Remedy:  `write a duration such as 250ms, or minute, hour, day, month and weekday: "*/5 * * * *"`,
		})
		return
	}
	*s = parsed
}

// DescribeConfig is text.
func (s *schedule) DescribeConfig() *schema.Type {
	return schema.AnyOf("duration or cron expression", "")
}

func parseSchedule(text string) (schedule, error) {
	if every, err := time.ParseDuration(text); err == nil {
		if every <= 0 {
			return schedule{}, fmt.Errorf("interval %q is not positive", text)
		}
		return schedule{every: every}, nil
	}
	c, err := parseCron(text)
	if err != nil {
		return schedule{}, err
	}
	return schedule{cron: c}, nil
}

// IsZero says whether messages are due at all times.
func (s *schedule) IsZero() bool { return s.every == 0 && s.cron == nil }

// first is when the first message is due: at once, or when the cron expression says.
func (s *schedule) first(now time.Time) time.Time {
	if s.cron != nil {
		return s.cron.next(now.UTC())
	}
	return now
}

func (s *schedule) next(due time.Time) time.Time {
	if s.cron != nil {
		return s.cron.next(due)
	}
	return due.Add(s.every)
}

// skip is when the first message not before earliest is due.
func (s *schedule) skip(due, earliest time.Time) time.Time {
	if s.cron != nil {
		return s.cron.next(earliest.UTC().Add(-time.Nanosecond))
	}
	missed := earliest.Sub(due) / s.every
	return due.Add(missed * s.every)
}
