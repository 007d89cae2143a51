package expr

import (
	"math"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// dated is a time that has a text in RFC 3339, or ends the evaluation: years have four digits there, and offsets are
// less than a day.
func (s *site) dated(t time.Time) time.Time {
	if _, offset := t.Zone(); offset <= -secondsPerDay || offset >= secondsPerDay {
		t = t.UTC()
	}
	if y := doc.Timestamp(t).Year(); y < 1 || y > 9999 {
		s.fail("the result of %s is in the year %d; times go from the year 1 to 9999", s.name, y)
	}
	return t
}

const secondsPerDay = 24 * 60 * 60

// shifted is what became of t by a duration. A time that was read without a year, in the year 0, may stay there.
func (s *site) shifted(t, moved time.Time) time.Time {
	if t.Year() == 0 && moved.Year() == 0 {
		return moved
	}
	return s.dated(moved)
}

// apart is a - b.
func (s *site) apart(a, b time.Time) time.Duration {
	d := a.Sub(b)
	if d == math.MaxInt64 || d == math.MinInt64 {
		s.failFor("unix(a) - unix(b) gives the seconds between any two",
			"the times are more than 292 years apart, which no duration is")
	}
	return d
}

// local is the time at which clocks in a zone show what wall shows in UTC. Of two such times it is the first. Where
// clocks skip it, it is as long after the gap's beginning as they would show without one: 02:30 becomes 03:30.
func local(wall time.Time, in *time.Location) time.Time {
	if in == time.UTC {
		return wall
	}
	at := func(offset int) time.Time { return wall.Add(-time.Duration(offset) * time.Second).In(in) }
	offset := offsetOf(wall.In(in))
	t := at(offset)
	const near = 48 * time.Hour // more than an offset and a change of it
	start, end := t.ZoneBounds()
	changed, changes := !start.IsZero() && t.Sub(start) < near, !end.IsZero() && end.Sub(t) < near
	if !changed && !changes {
		return t
	}
	offsets := []int{offsetOf(t)}
	if changed {
		offsets = append([]int{offsetOf(start.Add(-1))}, offsets...)
	}
	if changes {
		offsets = append(offsets, offsetOf(end))
	}
	for _, o := range offsets {
		if t := at(o); offsetOf(t) == o {
			return t
		}
	}
	for i, o := range offsets[1:] { // a gap: the offset before it is not yet that of the time, nor the one after it
		if before, after := at(offsets[i]), at(o); offsetOf(before) == o && offsetOf(after) == offsets[i] {
			return before
		}
	}
	return t
}

func offsetOf(t time.Time) int {
	_, offset := t.Zone()
	return offset
}

// wallOf is what clocks in the zone of t show, as a time in UTC.
func wallOf(t time.Time) time.Time {
	return t.Add(time.Duration(offsetOf(t)) * time.Second).UTC()
}

// fixedZone is a zone of one offset, in seconds.
func fixedZone(offset int) *time.Location {
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone("", offset)
}
