package expr

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// date is the former parse_time().
func date(f *frame, s *site, args []any) any {
	texts := args
	if value.KindOf(args[0]) == value.Zone {
		texts = args[1:]
	}
	if len(texts) == 0 || len(texts) > 3 {
		s.fail("date() needs a text, and optionally its layout and time zone")
	}
	in := time.UTC
	switch {
	case len(texts) < len(args):
		in = args[0].(*time.Location)
	case len(texts) == 3:
		in = zone(f, s, texts[2])
	}
	text, forms := texts[0].(string), dateForms
	if len(texts) > 1 {
		forms = []string{texts[1].(string)}
	}
	for _, form := range forms {
		t, err := time.ParseInLocation(form, text, in)
		if err != nil {
			continue
		}
		offset := strings.Contains(form, "-07") || strings.Contains(form, "Z07")
		if !offset && strings.Contains(form, "MST") && calendar.UnknownAbbreviation(t, in) != "" {
			name, _ := t.Zone()
			s.failFor(`name its zone: date(text, layout, "America/New_York")`,
				"date(): %s is not an abbreviation of a time zone that %s uses", s.left(name), in)
		}
		return t
	}
	s.fail("date(): %s is not a date in this layout", s.left(text))
	return nil
}

// dateForms are those of a date whose form is not given.
var dateForms = []string{
	time.DateOnly, time.TimeOnly, time.DateTime, time.RFC3339, time.RFC822, time.RFC850, time.RFC1123,
}
