package cli

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/lmittmann/tint"
)

// logging is the process's log on a console. Its form is set once the
// configuration is read, when components have their loggers already.
type logging struct {
	level slog.LevelVar
	json  atomic.Bool
	log   *slog.Logger
}

func newLogging(con *console) *logging {
	l := &logging{}
	h := eitherHandler{json: &l.json, asJSON: slog.NewJSONHandler(con, &slog.HandlerOptions{Level: &l.level})}
	if con.terminal {
		h.asText = tint.NewTextHandler(con, &tint.Options{Level: &l.level, TimeFormat: time.TimeOnly, NoColor: !con.color})
	} else {
		h.asText = slog.NewTextHandler(con, &slog.HandlerOptions{Level: &l.level})
	}
	l.log = slog.New(h)
	return l
}

// configure does what the section service.log says.
func (l *logging) configure(c config.Log) {
	l.json.Store(c.Format == "json")
	_ = l.level.UnmarshalText([]byte(c.Level)) // checked by config; "" leaves info
}

// eitherHandler is two handlers of which json chooses at each record.
type eitherHandler struct {
	json           *atomic.Bool
	asJSON, asText slog.Handler
}

func (h eitherHandler) chosen() slog.Handler {
	if h.json.Load() {
		return h.asJSON
	}
	return h.asText
}

func (h eitherHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.chosen().Enabled(ctx, l)
}

func (h eitherHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.chosen().Handle(ctx, r)
}

func (h eitherHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return eitherHandler{h.json, h.asJSON.WithAttrs(attrs), h.asText.WithAttrs(attrs)}
}

func (h eitherHandler) WithGroup(name string) slog.Handler {
	return eitherHandler{h.json, h.asJSON.WithGroup(name), h.asText.WithGroup(name)}
}
