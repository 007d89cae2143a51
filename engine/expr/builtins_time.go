package expr

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"
)

var times = builtins{
	{"date(text|zone, [text], [text], [text]) time",
		"The time that a text gives; the second text is its layout (Go's reference time), the third its time zone, UTC by default. An ambiguous abbreviation such as EST needs that zone.", date},
	{"duration(text) duration", `The duration that a text gives: "1h30m".`, func(f *frame, s *site, args []any) any {
		d, err := time.ParseDuration(args[0].(string))
		if err != nil {
			fail(s.offset, "duration(): %s is not a duration such as 250ms or 1h30m", s.left(args[0]))
		}
		return d
	}},
	{"timezone(text) zone", `A time zone by name: "Europe/Zurich".`,
		func(f *frame, s *site, args []any) any { return zone(s, args[0].(string)) }},
	{"format(time, text) text", "The time in a layout, written as Go's reference time: 2006-01-02 15:04:05.",
		func(f *frame, s *site, args []any) any {
			f.room(s.offset, len(args[1].(string))*4)
			return args[0].(time.Time).Format(args[1].(string))
		}},
	{"unix(time) int", "Seconds since 1970.", func(f *frame, s *site, args []any) any {
		return int(args[0].(time.Time).Unix())
	}},
	{"seconds(duration) float", "The duration in seconds.",
		func(f *frame, s *site, args []any) any { return args[0].(time.Duration).Seconds() }},
}

var clocks = builtins{
	{"now([zone]) time", "The current time, in UTC unless a zone is given.", func(f *frame, s *site, args []any) any {
		if len(args) == 1 {
			return now().In(args[0].(*time.Location))
		}
		return now().UTC()
	}},
	{"uuid() text", "A random UUID, version 4.", func(f *frame, s *site, args []any) any {
		var u [16]byte
		rand.Read(u[:])
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
	}},
}

func date(_ *frame, s *site, args []any) any {
	texts := args
	if kindOf(args[0]) == kZone {
		texts = args[1:]
	}
	if len(texts) == 0 || len(texts) > 3 {
		fail(s.offset, "date() needs a text, and optionally its layout and time zone")
	}
	in := time.UTC
	switch {
	case len(texts) < len(args):
		in = args[0].(*time.Location)
	case len(texts) == 3:
		in = zone(s, texts[2].(string))
	}
	text, forms := texts[0].(string), dateForms
	if len(texts) > 1 {
		forms = []string{texts[1].(string)}
	}
	for _, form := range forms {
		if t, err := time.ParseInLocation(form, text, in); err == nil {
			return known(s, t, form, in)
		}
	}
	fail(s.offset, "date(): %s is not a date in this layout", s.left(text))
	return nil
}

// dateForms are those of a date whose form is not given.
var dateForms = []string{
	time.DateOnly, time.TimeOnly, time.DateTime, time.RFC3339, time.RFC822, time.RFC850, time.RFC1123,
}

// known is t, unless the text names its zone by an abbreviation that the zone in
// does not have: package time makes one up then, with the clock of UTC.
func known(s *site, t time.Time, form string, in *time.Location) time.Time {
	name, offset := t.Zone()
	made := t.Location() != in && t.Location() != time.UTC && offset == 0 && name != "GMT"
	if made && strings.Contains(form, "MST") && !strings.Contains(form, "-07") && !strings.Contains(form, "Z07") {
		failFor(s.offset, `name its zone: date(text, layout, "America/New_York")`,
			"date(): %s is not an abbreviation of a time zone that %s uses", s.left(name), in)
	}
	return t
}

// maxZones bounds the cache of time zones, whose names may come from messages.
const maxZones = 1000

var zones = struct {
	sync.RWMutex
	byName map[string]*time.Location
}{byName: map[string]*time.Location{}}

func zone(s *site, name string) *time.Location {
	zones.RLock()
	z, ok := zones.byName[name]
	zones.RUnlock()
	if ok {
		return z
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		fail(s.offset, "%s is not a time zone such as Europe/Zurich", s.left(name))
	}
	zones.Lock()
	defer zones.Unlock()
	if len(zones.byName) < maxZones {
		zones.byName[name] = z
	}
	return z
}
