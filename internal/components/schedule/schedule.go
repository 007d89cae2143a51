// Package schedule determines when inputs act by themselves: see [Schedule].
package schedule

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/schema"
	"github.com/robfig/cron/v3"
)

// Schedule is a config field: an interval, or a cron expression.
type Schedule struct {
	every time.Duration
	cron  cron.Schedule // nil: an interval
}

// UnmarshalConfig decodes a duration or a cron expression.
func (s *Schedule) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	parsed, err := parse(text)
	if err != nil {
		d.Report(n, schema.Problem{
			Code:    "bad-value",
			Message: err.Error(),
			Remedy:  `write a duration such as 250ms, or minute, hour, day, month and weekday: "*/5 * * * *", "TZ=Europe/Zurich 0 2 * * *"`,
		})
		return
	}
	*s = parsed
}

// DescribeConfig describes text.
func (s *Schedule) DescribeConfig() *schema.Type {
	return schema.AnyOf("duration or cron expression", "")
}

func parse(text string) (Schedule, error) {
	if every, err := time.ParseDuration(text); err == nil {
		if every <= 0 {
			return Schedule{}, fmt.Errorf("interval %q is not positive", text)
		}
		return Schedule{every: every}, nil
	}
	c, err := parseCron(text)
	if err != nil {
		return Schedule{}, err
	}
	return Schedule{cron: c}, nil
}

// IsZero reports whether there is no schedule: everything is due at once.
func (s *Schedule) IsZero() bool { return s.every == 0 && s.cron == nil }

// First returns the first due time: now, or as the cron expression says.
func (s *Schedule) First(now time.Time) time.Time {
	if s.cron != nil {
		return next(s.cron, now.UTC())
	}
	return now
}

// Next returns the due time after due.
func (s *Schedule) Next(due time.Time) time.Time {
	if s.cron != nil {
		return next(s.cron, due)
	}
	return due.Add(s.every)
}

// Skip returns the first due time after due that is not before earliest.
func (s *Schedule) Skip(due, earliest time.Time) time.Time {
	if s.cron != nil {
		return next(s.cron, earliest.UTC().Add(-time.Nanosecond))
	}
	missed := earliest.Sub(due) / s.every
	return due.Add(missed * s.every)
}

// Wait shows for which time an input waits; it is that input's engine.Scheduled. The zero value waits for none. It is safe for
// concurrent use.
type Wait struct{ until atomic.Int64 } // unix nanoseconds; 0: no time

// Begin says that the input waits until a time. It returns a function that ends the wait.
func (w *Wait) Begin(until time.Time) (end func()) {
	w.until.Store(until.UnixNano())
	return func() { w.until.Store(0) }
}

// Due returns the time; zero: the input waits for none.
func (w *Wait) Due() time.Time {
	if at := w.until.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
