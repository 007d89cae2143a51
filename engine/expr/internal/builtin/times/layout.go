package times

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var _ = lang.Role("layout", value.Text, func(s *lang.Site, v any) any {
	l := layoutOf(s, v.(string))
	if s.Name == "parse_time" {
		readable(s, l)
	}
	return l
})

var layouts = memo.Map[string, *calendar.Layout]{Most: maxTexts}

// layoutAt is the layout that argument i gives.
func layoutAt(s *lang.Site, f *lang.Frame, args []any, i int) *calendar.Layout {
	if l, ok := s.Prepared(i).(*calendar.Layout); ok {
		return l
	}
	text := args[i].(string)
	if l, ok := layouts.Get(text); ok {
		return l
	}
	f.Step(s.Offset, 50+len(text)) // to compile it formats a few times
	l := layoutOf(s, text)
	layouts.Put(strings.Clone(text), l)
	return l
}

func layoutOf(s *lang.Site, text string) *calendar.Layout {
	if len(text) > calendar.MaxLayout {
		s.Fail("%s(): a layout may have at most %d bytes", s.Name, calendar.MaxLayout)
	}
	l, wrong := calendar.CompileLayout(text)
	switch {
	case l != nil:
	case wrong != "":
		noDirective(s, wrong)
	default:
		s.FailWith(meantLayout(s, text),
			"%s(): nothing of Go's reference time, 2006-01-02 15:04:05, is in the layout %s", s.Name, s.Show(text))
	}
	return l
}

// readable ends the evaluation if no text can be read by the layout.
func readable(s *lang.Site, l *calendar.Layout) {
	if why, help := l.Unreadable(); why != "" {
		s.FailWith(help, "%s(): the layout %s", s.Name, why)
	}
}

// noDirective ends the evaluation because text does not begin with a directive.
func noDirective(s *lang.Site, text string) {
	remedy := "strftime has %Y %m %d %H %M %S %f %b %a %j %p %z %Z %s and others; write %% for a %"
	shown := strings.TrimLeft(text[1:], "-_0123456789:.")
	_, size := utf8.DecodeRuneInString(shown)
	shown = text[:len(text)-len(shown)+size]
	switch {
	case s.Secret[0]:
		s.Fail("%s(): the layout has a directive that does not exist", s.Name)
	case strings.HasPrefix(text, "%.") && strings.HasSuffix(shown, "f"):
		remedy = "write ." + strings.Replace(strings.Replace(shown, ".f", "f", 1), "%.", "%", 1)
	case shown == "%i":
		remedy = "minutes are %M"
	case shown == "%":
		remedy = "write %% for a %"
	}
	s.FailWith(remedy, "%s(): %s is not a directive of strftime", s.Name, value.Clip(shown))
}

// meantLayout is the remedy for a layout as Java has them.
func meantLayout(s *lang.Site, text string) string {
	meant := javaLayout.Replace(text)
	if s.Secret[0] || meant == text {
		return `write it in this way, or as strftime does: "%Y-%m-%d %H:%M:%S"`
	}
	return fmt.Sprintf("write %q", value.Clip(meant))
}

var javaLayout = strings.NewReplacer("yyyy", "%Y", "YYYY", "%Y", "yy", "%y", "YY", "%y",
	"MMMM", "%B", "MMM", "%b", "MM", "%m", "dd", "%d", "DD", "%d", "HH", "%H", "hh", "%I", "mm", "%M", "ss", "%S", "SSS", "%L", "XXX", "%:z",
	"EEEE", "%A", "EEE", "%a", "'T'", "T")
