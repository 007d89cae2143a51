package retry

import (
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/internal/guard"
)

// Outage decides when the log reports a failure that lasts: when it begins, when its reason changes, and again after 1, 5
// and 15 minutes and then every hour, so that an operator who has missed the first line finds a later one. The zero Outage
// has not begun. It is not safe for concurrent use.
type Outage struct {
	began    time.Time
	reminded int             // of reminders, or of hours behind them
	reported map[uint64]bool // reasons, by [cause.Reason]
}

// Report is a reason to log a failure.
type Report int

// The reports of an [Outage].
const (
	Silent  Report = iota // nothing new
	Begins                // the first failure
	Changes               // the error has a reason that was not reported yet
	Lasts                 // a reminder
)

// reminders are the times of reminders after the beginning; the last interval repeats hourly.
var reminders = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}

// maxReported bounds the reasons that are reported, since some errors differ each time.
const maxReported = 50

// Fails is called with each failure, and says whether to log it. An error that wraps another only says where that occurred,
// such as in a write or a probe, so the reason is that of the innermost error.
func (o *Outage) Fails(now time.Time, err error) Report {
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	reason := cause.Reason(guard.FirstLine(err))
	if o.reported == nil {
		*o = Outage{began: now, reported: map[uint64]bool{reason: true}}
		return Begins
	}
	due := false
	for now.Sub(o.began) >= o.reminder() {
		o.reminded++
		due = true
	}
	switch {
	case !o.reported[reason] && len(o.reported) < maxReported:
		o.reported[reason] = true
		return Changes
	case due:
		return Lasts
	}
	return Silent
}

// Lasted returns how long the outage has lasted, for the log.
func (o *Outage) Lasted(now time.Time) time.Duration { return now.Sub(o.began).Round(time.Second) }

// reminder returns when the next reminder is due, from the beginning.
func (o *Outage) reminder() time.Duration {
	if o.reminded < len(reminders) {
		return reminders[o.reminded]
	}
	return time.Duration(o.reminded-len(reminders)+1) * time.Hour
}
