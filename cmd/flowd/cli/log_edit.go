package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// painter is the screen that tint writes to. Its escape sequences are all tint's own, since plain removes
// others.
type painter struct{ to io.Writer }

func (p painter) Write(text []byte) (int, error) {
	if _, err := p.to.Write(bytes.ReplaceAll(text, []byte("\x1b["), []byte(ink))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// plain removes what tint would pass to the terminal: control characters, and \x1b, which tint takes for its own
// quoting.
func plain(text string) string {
	return strings.ReplaceAll(string(shownBytes(nil, []byte(text))), `\x1b`, `\u001b`)
}

// editor masks secrets in a log's text before it is quoted.
type editor struct {
	slog.Handler
	edit   func(string) string
	chosen func() bool // false: another handler writes the record
}

// Enabled reports whether this handler writes the record.
func (h editor) Enabled(ctx context.Context, l slog.Level) bool {
	return h.chosen() && h.Handler.Enabled(ctx, l)
}

// Handle writes the record with edited text.
func (h editor) Handle(ctx context.Context, r slog.Record) error {
	edited := slog.NewRecord(r.Time, r.Level, h.edit(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		edited.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, edited)
}

// WithAttrs edits attributes that all records share.
func (h editor) WithAttrs(attrs []slog.Attr) slog.Handler {
	return editor{h.Handler.WithAttrs(h.attrs(attrs)), h.edit, h.chosen}
}

// WithGroup edits the attributes of the group, too.
func (h editor) WithGroup(name string) slog.Handler {
	return editor{h.Handler.WithGroup(name), h.edit, h.chosen}
}

func (h editor) attrs(attrs []slog.Attr) []slog.Attr {
	edited := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		edited[i] = h.attr(a)
	}
	return edited
}

func (h editor) attr(a slog.Attr) slog.Attr {
	a.Key, a.Value = h.edit(a.Key), a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		text := h.edit(a.Value.String())
		if after, found := strings.CutPrefix(h.edit(a.Key+"="+text), a.Key+"="); found {
			text = after // some secrets are recognized only after their key
		}
		a.Value = slog.StringValue(text)
	case slog.KindGroup:
		a.Value = slog.GroupValue(h.attrs(a.Value.Group())...)
	case slog.KindAny: // keeps the value's own formatting unless its text changes
		text := fmt.Sprintf("%+v", a.Value.Any())
		if edited := h.edit(text); edited != text {
			a.Value = slog.StringValue(edited)
		}
	}
	return a
}
