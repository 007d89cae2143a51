package calendar

import "time"

// SecondsPerDay is the length of a day of 24 hours.
const SecondsPerDay = 24 * 60 * 60

// fromWall is the time at which clocks in a zone show what wall shows in UTC. If they show it twice, it is the first time.
// If they skip it, it is as long after the beginning of the gap as they would show without one: 02:30 becomes 03:30.
func fromWall(wall time.Time, in *time.Location) time.Time {
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
