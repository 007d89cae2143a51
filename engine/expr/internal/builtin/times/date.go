package times

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// date is the former form of parse_time(), whose arguments come in several orders.
func date(f *lang.Frame, s *lang.Site, args []any) any {
	texts := args
	if value.KindOf(args[0]) == value.Zone {
		texts = args[1:]
	}
	if len(texts) == 0 || len(texts) > 3 {
		s.Fail("date() needs a text, and optionally its layout and time zone")
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
			s.FailWith(`name its zone: date(text, layout, "America/New_York")`,
				"date(): %s is not an abbreviation of a time zone that %s uses", s.Show(name), in)
		}
		return t
	}
	s.Fail("date(): %s is not a date in this layout", s.Show(text))
	return nil
}

// dateForms are the layouts that date() tries if none is given.
var dateForms = []string{
	time.DateOnly, time.TimeOnly, time.DateTime, time.RFC3339, time.RFC822, time.RFC850, time.RFC1123,
}
