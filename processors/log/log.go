// Package log is the processor `log`: it writes messages to flowd's own log.
// Start at [Config].
package log

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"unicode"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the log processor.
type Config struct {
	Message expr.Template         `yaml:"message,main" check:"required" doc:"Text of the line."`
	Level   string                `yaml:"level" check:"oneof=debug|info|warn|error" doc:"Level of the line."`
	Fields  schema.Map[expr.Expr] `yaml:"fields" doc:"Values to log with the text, by name."`
}

var defaults = Config{Level: "info"}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

const help = `
Writes a line to flowd's log, on stderr, for each message. The message itself
continues unchanged.

    - log: order $(id) is late
    - log:
        message: order is late
        level: warn
        fields: {id: id, minutes: delay / 60}
`

func init() {
	engine.Register(engine.Processors, "log", help, defaults, build)
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	level := levels[c.Level]
	return engine.ProcessorFunc(func(ctx context.Context, m *engine.Message) error {
		if !env.Log.Enabled(ctx, level) {
			return nil
		}
		text, err := c.Message.Text(m)
		if err != nil {
			return err
		}
		attrs := make([]slog.Attr, 0, c.Fields.Len())
		for name, field := range c.Fields.All() {
			v, err := field.Eval(m)
			if err != nil {
				return err
			}
			attrs = append(attrs, slog.Any(name, plain(v)))
		}
		env.Log.LogAttrs(logsum.EachIn(ctx), level, printable(text), attrs...)
		return nil
	}), nil
}

// plain formats a value in the same way for all handlers: lists and objects as JSON.
func plain(v any) any {
	switch v := v.(type) {
	case string:
		return printable(v)
	case []any, map[string]any:
		text, err := doc.Append(nil, v)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return v
}

// printable escapes characters that could forge a log line or control a terminal. If a handler quotes the text again,
// that does no harm.
func printable(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
