package expr

import (
	"strings"
	"time"
	_ "time/tzdata" // for machines and containers without a database of zones
)

// maxTexts is how many zones, and how many layouts, of messages are kept.
const maxTexts = 1000

var zones = kept[string, *time.Location]{most: maxTexts}

// zoneSteps is what it costs to look for a zone in files.
const zoneSteps = 500

var _ = inRole("timezone", kText|kZone, func(s *site, v any) any { return zoneOf(s, v) })

// zone is a time zone by its name in a message.
func zone(f *frame, s *site, v any) *time.Location {
	name, ok := v.(string)
	if !ok {
		return v.(*time.Location)
	}
	if z, ok := zones.get(name); ok {
		return z
	}
	f.step(s.offset, zoneSteps)
	z := zoneOf(s, v)
	zones.put(strings.Clone(name), z)
	return z
}

// zoneOf is a zone, or the one that a text names.
func zoneOf(s *site, v any) *time.Location {
	name, ok := v.(string)
	if !ok {
		return v.(*time.Location)
	}
	z, ok := loadZone(name)
	if !ok {
		s.fail("%s is not a time zone such as Europe/Zurich", s.left(v))
	}
	return z
}

// loadZone loads a zone by its name, or by an offset such as +02:00.
func loadZone(name string) (z *time.Location, ok bool) {
	if offset, rest, ok := cutOffset(name); ok && rest == "" {
		return fixedZone(offset), true
	}
	// Names begin with capitals. What does not, beside them, is as the machine has it, or counts leap seconds.
	if name != "" && name != "Local" && len(name) <= 64 && 'A' <= name[0] && name[0] <= 'Z' {
		z, err := time.LoadLocation(name)
		return z, err == nil
	}
	return nil, false
}

// zoneAt is the zone that argument i names, if there is one; else UTC.
func (s *site) zoneAt(f *frame, args []any, i int) *time.Location {
	if i >= len(args) {
		return time.UTC
	}
	if z, ok := s.ready(i).(*time.Location); ok {
		return z
	}
	return zone(f, s, args[i])
}

// zoneName is a zone's name, or its offset at t if it has none.
func zoneName(t time.Time) string {
	if name := t.Location().String(); name != "" {
		return name
	}
	return t.Format("-07:00")
}
