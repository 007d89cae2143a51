package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/calendar"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var _ = inRole("layout", value.Text, func(s *site, v any) any {
	l := layoutOf(s, v.(string))
	if s.name == "parse_time" {
		readable(s, l)
	}
	return l
})

var layouts = memo.Map[string, *calendar.Layout]{Most: maxTexts}

// layoutAt is the layout that argument i gives.
func (s *site) layoutAt(f *frame, args []any, i int) *calendar.Layout {
	if l, ok := s.ready(i).(*calendar.Layout); ok {
		return l
	}
	text := args[i].(string)
	if l, ok := layouts.Get(text); ok {
		return l
	}
	f.step(s.offset, 50+len(text)) // which is tried out on a few times
	l := layoutOf(s, text)
	layouts.Put(strings.Clone(text), l)
	return l
}

func layoutOf(s *site, text string) *calendar.Layout {
	if len(text) > calendar.MaxLayout {
		s.fail("%s(): a layout may have at most %d bytes", s.name, calendar.MaxLayout)
	}
	l, wrong := calendar.CompileLayout(text)
	switch {
	case l != nil:
	case wrong != "":
		s.noDirective(wrong)
	default:
		s.failFor(s.meantLayout(text),
			"%s(): nothing of Go's reference time, 2006-01-02 15:04:05, is in the layout %s", s.name, s.left(text))
	}
	return l
}

// readable ends the evaluation if no text can be read by the layout.
func readable(s *site, l *calendar.Layout) {
	if why, help := l.Unreadable(); why != "" {
		s.failFor(help, "%s(): the layout %s", s.name, why)
	}
}

// noDirective ends the evaluation: what text begins with is not a directive.
func (s *site) noDirective(text string) {
	remedy := "strftime has %Y %m %d %H %M %S %f %b %a %j %p %z %Z %s and others; write %% for a %"
	shown := strings.TrimLeft(text[1:], "-_0123456789:.")
	_, size := utf8.DecodeRuneInString(shown)
	shown = text[:len(text)-len(shown)+size]
	switch {
	case s.secret[0]:
		s.fail("%s(): the layout has a directive that does not exist", s.name)
	case strings.HasPrefix(text, "%.") && strings.HasSuffix(shown, "f"):
		remedy = "write ." + strings.Replace(strings.Replace(shown, ".f", "f", 1), "%.", "%", 1)
	case shown == "%i":
		remedy = "minutes are %M"
	case shown == "%":
		remedy = "write %% for a %"
	}
	s.failFor(remedy, "%s(): %s is not a directive of strftime", s.name, value.Clip(shown))
}

// meantLayout is what helps someone who writes layouts as Java does.
func (s *site) meantLayout(text string) string {
	meant := javaLayout.Replace(text)
	if s.secret[0] || meant == text {
		return `write it in this way, or as strftime does: "%Y-%m-%d %H:%M:%S"`
	}
	return fmt.Sprintf("write %q", value.Clip(meant))
}

var javaLayout = strings.NewReplacer("yyyy", "%Y", "YYYY", "%Y", "yy", "%y", "YY", "%y",
	"MMMM", "%B", "MMM", "%b", "MM", "%m", "dd", "%d", "DD", "%d", "HH", "%H", "hh", "%I", "mm", "%M", "ss", "%S", "SSS", "%L", "XXX", "%:z",
	"EEEE", "%A", "EEE", "%a", "'T'", "T")
