// Package window is the batcher `window`: it gathers messages by time. Start at [Config]. batcher.Add is the whole
// policy.
package window

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the window batcher.
type Config struct {
	Every    time.Duration `yaml:"every,main" check:"min=1ms,max=8784h" doc:"Length of a window. Windows begin at whole multiples of it since 1970, UTC: 1h windows begin on the hour."`
	Slide    time.Duration `yaml:"slide" check:"min=1ms" doc:"Time from the beginning of one window to the beginning of the next; by default windows do not overlap. A message is copied into each of its every/slide windows: at most 100."`
	Offset   time.Duration `yaml:"offset" doc:"Shifts all windows by this time: with every 24h, -8h gives days in UTC+8."`
	Session  time.Duration `yaml:"session" check:"min=1ms,max=8784h" doc:"Instead of every: a window ends when no message of its key has arrived for this long."`
	Time     expr.Expr     `yaml:"time" doc:"Time of the message's event: a time, text in RFC 3339, or a Unix time in seconds (up to 11 digits before the point), milliseconds (12 to 14), microseconds (15 to 17) or nanoseconds (18, 19). By default, when the message arrives here."`
	Lateness time.Duration `yaml:"lateness" check:"min=0s,max=8784h" doc:"How long a window stays open after its end, for events out of order; only with time."`
	MaxAhead time.Duration `yaml:"max_ahead" check:"min=1ms" doc:"A message whose event is further ahead of the clock than this fails, and does not close windows. By default there is no limit. Only with time."`
	MaxKeys  int           `yaml:"max_keys" check:"min=0" doc:"Maximum number of keys with open windows. Beyond it, the windows of the least recently used key leave. With 0, only engine.max_in_flight limits them."`
}

// maxCopies bounds the windows that one message can be in.
const maxCopies = 100

// CheckConfig reports settings that do not define windows.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	switch {
	case c.Every == 0 && c.Session == 0:
		report("", "a window needs every or session",
			"write `every: 1m`, or `session: 30s` for windows that end when a key falls silent")
	case c.Every > 0 && c.Session > 0:
		report("session", "a window has a fixed length or is a session, not both", "remove every or session")
	}
	switch {
	case c.Slide == 0:
	case c.Every == 0:
		report("slide", "only windows of a fixed length can slide", "give the length as every")
	case c.Slide > c.Every:
		report("slide", "messages between two windows would be in no window", fmt.Sprintf("write %v or less", c.Every))
	case (c.Every-1)/c.Slide >= maxCopies:
		report("slide", fmt.Sprintf("each message would be in %d windows, more than %d", (c.Every-1)/c.Slide+1,
			maxCopies), fmt.Sprintf("write %v or more", (c.Every-1)/maxCopies+1))
	}
	switch {
	case c.Offset == 0:
	case c.Every == 0:
		report("offset", "a session can't have an offset", "remove it")
	case c.Offset.Abs() >= c.step():
		report("offset", fmt.Sprintf("windows begin every %v, so %v moves them too far", c.step(), c.Offset),
			fmt.Sprintf("write %v", c.Offset%c.step()))
	}
	if c.Time.IsZero() && c.Lateness > 0 {
		report("lateness", "messages are never late by the clock",
			"remove it, or say where the event's time is: `time: created_at`")
	}
	if c.Time.IsZero() && c.MaxAhead > 0 {
		report("max_ahead", "messages are never ahead of their own arrival",
			"remove it, or say where the event's time is: `time: created_at`")
	}
}

// step returns the time between the beginnings of two windows.
func (c *Config) step() time.Duration {
	if c.Slide > 0 {
		return c.Slide
	}
	return c.Every
}

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	return map[string]string{
		"size":              "write `every`",
		"period":            "write `every`",
		"hop":               "write `slide`",
		"gap":               "write `session`",
		"timestamp":         "write `time`",
		"timestamp_mapping": "write `time`",
		"allowed_lateness":  "write `lateness`",
		"watermark":         "write `lateness`",
	}
}

const help = `
Collects messages into time windows, a set of windows for each value of key.

Without time a window closes by the clock. With it, a window closes when an event of
any key arrives whose time is at least the window's end plus lateness; until then it
stays open, whatever the clock says. A message whose windows have all closed fails with
class late. Workers overtake each other: allow for that in lateness, or set
engine.workers to 1.

An event at a window's end belongs to the next one. A session stays open from its
first event until session after its last; events that bridge two sessions merge
them. An empty window sends nothing.

All messages of open windows are in flight, so engine.max_in_flight must allow for as
many as arrive within every, times every/slide. If room runs out, or there are more keys
than max_keys, windows leave in parts, with a warning: window().part numbers them from 1,
and is more than 1 for later parts. At the end of the input and of a drain all windows
leave as they are. batch_trigger() of a window that has closed is timeout.

    batchers:
      by the clock: {window: 1m, match: fast, output: lake}
      by events:
        key: customer.id
        window: {every: 1m, time: created_at, lateness: 10s}
        processors:
          - aggregate: {from: window().start, customer: batch_key(), total: "sum(messages(), .total)"}
        output: lake
`

func init() {
	engine.Register(engine.Batchers, "window", help, Config{}, build)
}

func build(c Config, env engine.Env) (engine.Batcher, error) {
	return newBatcher(c, (*engine.Message).BatchKey, env.Log), nil
}
