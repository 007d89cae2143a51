package cli

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/internal/operations/telemetry"
	"github.com/flowd-io/flowd/schema"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
)

// The formats of the log.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatLogfmt = "logfmt"
)

// logFlags are the flags that override the section service.log.
type logFlags struct {
	level  oneOf
	format oneOf
}

const formatFlag = "log-format"

// add adds the flags to a command.
func (f *logFlags) add(cmd *cobra.Command) {
	f.level.allowed = []string{"debug", "info", "warn", "error"}
	f.format.allowed = []string{formatText, formatJSON, formatLogfmt}
	for name, flag := range map[string]*oneOf{"log-level": &f.level, formatFlag: &f.format} {
		cmd.Flags().Var(flag, name, map[string]string{
			"log-level": "lowest `LEVEL` that is logged: ", formatFlag: "`FORMAT` of the log, and with json or logfmt of all of stderr: ",
		}[name]+strings.Join(flag.allowed, ", "))
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(flag.allowed, cobra.ShellCompDirectiveNoFileComp))
	}
}

// oneOf is the value of a flag that is one of several words, or "".
type oneOf struct {
	value   string
	allowed []string
}

func (o *oneOf) String() string { return o.value }
func (o *oneOf) Type() string   { return "string" }

// Set sets the value.
func (o *oneOf) Set(word string) error {
	if !slices.Contains(o.allowed, word) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, ", "))
	}
	o.value = word
	return nil
}

// logging is the process's log on a console. Components have their loggers before the configuration is read, so its
// levels and format can change later.
type logging struct {
	con    *console
	flags  logFlags
	levels levels
	format atomic.Pointer[string]
	sums   *logsum.Handler
	log    *slog.Logger

	formats slog.Handler    // writes a record in the format, whatever its level
	local   *slog.Logger    // like log, but its records are not sent by OTLP
	sent    *telemetry.Logs // by OTLP
	sentTo  *otlp.Sender    // nil: nothing is sent
}

// newLogging makes a log that masks secrets.
func newLogging(con *console, secrets *schema.Secrets, flags logFlags) *logging {
	l := &logging{con: con, flags: flags, sent: &telemetry.Logs{}}
	in := func(format string) func() bool { return func() bool { return *l.format.Load() == format } }
	all := &slog.HandlerOptions{Level: slog.Level(math.MinInt)} // levels decides
	text := &tint.Options{Level: all.Level, TimeFormat: time.RFC3339, NoColor: !con.color}
	if con.terminal {
		text.TimeFormat = time.TimeOnly
	}
	to := lines{con}
	l.formats = telemetry.Traced(slog.NewMultiHandler(
		editor{slog.NewJSONHandler(to, all), secrets.Mask, in(formatJSON)},
		editor{slog.NewTextHandler(to, all), secrets.Mask, in(formatLogfmt)},
		editor{tint.NewTextHandler(painter{to}, text),
			func(text string) string { return plain(secrets.Mask(text)) }, in(formatText)}))
	l.configure(config.Log{})
	always := func() bool { return true }
	l.sums = logsum.New(slog.NewMultiHandler(l.formats, editor{l.sent.Handler(), secrets.Mask, always}))
	l.log = slog.New(leveled{l.sums, &l.levels, ""})
	l.local = slog.New(leveled{logsum.New(l.formats), &l.levels, ""})
	return l
}

// configure applies the section service.log.
func (l *logging) configure(c config.Log) {
	l.levels.set(cmp.Or(l.flags.level.value, c.Level), c.Components)
	usual := formatLogfmt
	if l.con.terminal {
		usual = formatText
	}
	chosen := cmp.Or(l.flags.format.value, c.Format)
	format := cmp.Or(chosen, usual)
	l.format.Store(&format)
	var records slog.Handler
	if chosen == formatJSON || chosen == formatLogfmt {
		records = l.formats
	}
	l.con.useRecords(records)
}

// send sends the log by OTLP as the section service.log says.
func (l *logging) send(to *otlp.Sender) error {
	if otlp.Disabled() {
		to = nil
	}
	if reflect.DeepEqual(to, l.sentTo) {
		return nil
	}
	if to == nil {
		l.sent.Close()
	} else if err := l.sent.Send(*to, version().Version, l.local); err != nil {
		return err
	}
	l.sentTo = to
	return nil
}

// libraries makes Go's standard logger part of this log. Libraries write to it unasked, and what they quote of a
// server needs the same masking, limit and summing up.
func (l *logging) libraries(secrets *schema.Secrets) {
	slog.SetDefault(l.log)
	telemetry.UseLog(l.local)
	log.SetFlags(0)
	log.SetOutput(said{l.log, secrets})
}

// said receives the lines of libraries.
type said struct {
	log     *slog.Logger
	secrets *schema.Secrets
}

const mostSaid = 500 // bytes of a line

func (s said) Write(line []byte) (int, error) {
	s.log.Warn("message from a library", "text", call.Head(line, mostSaid, s.secrets))
	return len(line), nil
}

// levels are the lowest levels that are logged. They can be read while they change.
type levels struct{ now atomic.Pointer[levelSet] }

type levelSet struct {
	rest   slog.Level            // of everything that is not listed
	lowest slog.Level            // of all
	of     map[string]slog.Level // of components, by name
}

// set sets the levels. Unknown words mean info, since config has reported them.
func (l *levels) set(rest string, components map[string]string) {
	s := &levelSet{rest: levelOf(rest), lowest: levelOf(rest), of: map[string]slog.Level{}}
	for name, word := range components {
		s.of[name] = levelOf(word)
		s.lowest = min(s.lowest, s.of[name])
	}
	l.now.Store(s)
}

func levelOf(word string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(word))
	return level
}

// lowestOf returns the lowest level of a component. A step in a named list is known by its name in the list, too.
func (s *levelSet) lowestOf(component string) slog.Level {
	if level, ok := s.of[component]; ok {
		return level
	}
	if level, ok := s.of[component[strings.LastIndexByte(component, '/')+1:]]; ok {
		return level
	}
	return s.rest
}

// leveled passes on records that have the lowest level of their component, or a higher one.
type leveled struct {
	slog.Handler
	levels    *levels
	component string // of the logger; "": only a record's attributes may name one
}

// Enabled reports whether records of a level may be passed on.
func (h leveled) Enabled(_ context.Context, l slog.Level) bool {
	s := h.levels.now.Load()
	if h.component != "" {
		return l >= s.lowestOf(h.component)
	}
	return l >= s.lowest
}

// Handle passes a record on.
func (h leveled) Handle(ctx context.Context, r slog.Record) error {
	if s := h.levels.now.Load(); h.component == "" && len(s.of) > 0 {
		lowest := s.rest
		r.Attrs(func(a slog.Attr) bool {
			name := componentOf(a)
			if name != "" {
				lowest = s.lowestOf(name)
			}
			return name == ""
		})
		if r.Level < lowest {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs finds the component of a logger.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.component = cmp.Or(h.component, componentOf(a))
	}
	return leveled{h.Handler.WithAttrs(attrs), h.levels, h.component}
}

// WithGroup adds a group.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.levels, h.component}
}

// componentOf returns the name of the component that an attribute names, or "".
func componentOf(a slog.Attr) string {
	if a.Value.Kind() != slog.KindString {
		return ""
	}
	switch a.Key {
	case "name", "input", "output":
		return a.Value.String()
	case "place": // "step check", "output lake"
		_, name, _ := strings.Cut(a.Value.String(), " ")
		return name
	}
	return ""
}
