package times

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// maxTexts is how many zones, and how many layouts, from messages are kept.
const maxTexts = 1000

var zones = memo.Map[string, *time.Location]{Most: maxTexts}

// zoneSteps is how many steps it costs to look for a zone in files.
const zoneSteps = 500

var _ = lang.Role("timezone", value.Text|value.Zone, func(s *lang.Site, v any) any { return zoneOf(s, v) })

// zone is a time zone by its name in a message.
func zone(f *lang.Frame, s *lang.Site, v any) *time.Location {
	name, ok := v.(string)
	if !ok {
		return v.(*time.Location)
	}
	if z, ok := zones.Get(name); ok {
		return z
	}
	f.Step(s.Offset, zoneSteps)
	z := zoneOf(s, v)
	zones.Put(strings.Clone(name), z)
	return z
}

// zoneOf is a zone, or the one that a text names.
func zoneOf(s *lang.Site, v any) *time.Location {
	name, ok := v.(string)
	if !ok {
		return v.(*time.Location)
	}
	z, ok := calendar.LoadZone(name)
	if !ok {
		s.Fail("%s is not a time zone such as Europe/Zurich", s.Show(v))
	}
	return z
}

// zoneAt is the zone that argument i names, or UTC if there is no such argument.
func zoneAt(s *lang.Site, f *lang.Frame, args []any, i int) *time.Location {
	if i >= len(args) {
		return time.UTC
	}
	if z, ok := s.Prepared(i).(*time.Location); ok {
		return z
	}
	return zone(f, s, args[i])
}
