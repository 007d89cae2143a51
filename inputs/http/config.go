// Package http reads the answers of an HTTP server: by polling it, page by page, or as a stream of events. Start at
// [input.Read]; requests and pages are in poll.go, an answer is cut into records in page.go, and streams are in
// stream.go. How a request is made, and what its answer means, is in internal/network/httpx.
package http

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/schedule"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	httpx.Calls         `yaml:",inline" scope:"cursor"`
	Method              string            `yaml:"method" check:"oneof=GET|POST|PUT|PATCH" doc:"Request method; by default, GET without a body and POST with one."`
	Body                expr.Body         `yaml:"body" scope:"cursor" doc:"Request body: text as it is, anything else as JSON. Without it, requests have no body."`
	Interval            schedule.Schedule `yaml:"interval" doc:"Time from one poll to the next: a duration, or a cron expression: five fields or @yearly, @monthly, @weekly, @daily or @hourly, in UTC or, as in \"TZ=Europe/Zurich 0 2 * * *\", in a time zone; a time that its clocks skip is left out, one that they show twice comes twice. Without it, the input ends after one poll."`
	Stream              string            `yaml:"stream" check:"oneof=sse|ndjson" doc:"The response does not end, and is read as it arrives: sse means server-sent events, ndjson one JSON document per line. If it does end, it is requested again."`
	Items               expr.Expr         `yaml:"items" scope:"cursor,answer" doc:"List in the response, a JSON document, whose elements are the messages, such as data.items. Without it, framing divides the response."`
	Cursor              expr.Expr         `yaml:"cursor" scope:"cursor,answer" doc:"Position that a response reaches, such as next_cursor or last(items)?.id: cursor() in the next request. If it is nil, cursor() keeps its value. In a stream, it is the position of each message."`
	Checkpoint          string            `yaml:"checkpoint" doc:"File that records the cursor up to which all messages are settled, and what identifies the last response. A restart continues after it."`
	Next                expr.Expr         `yaml:"next" scope:"cursor,answer" doc:"URL of the next page, from the response; nil or an empty text means that there is none."`
	Pages               string            `yaml:"pages" check:"oneof=link|cursor" doc:"How to find more pages: link follows rel=next in the Link header; cursor repeats the request with the new cursor until a response has no messages."`
	Framing             framing.Framing   `yaml:"framing" doc:"How a response is divided into records; json by default."`
	MaxRecord           schema.Size       `yaml:"max_record" check:"min=1" doc:"Largest record. A larger one becomes a failed message of class decode with the beginning of the record, marked by the metadata truncated and original_size; the response continues after it."`
	framing.Compression `yaml:",inline"`
	Metadata            []string      `yaml:"metadata" doc:"Response headers that become metadata, under their names in lower case."`
	MaxBody             schema.Size   `yaml:"max_body" check:"min=1" doc:"Largest response, uncompressed. It is held in memory as a whole; a stream has no such limit."`
	Timeout             time.Duration `yaml:"timeout" check:"min=1ms" doc:"How long to wait for a whole response; for a stream, for its beginning."`
	IdleTimeout         time.Duration `yaml:"idle_timeout" check:"min=1ms" doc:"How long a stream may send nothing, not even a comment, before it is requested again."`
}

var defaults = Config{MaxRecord: framing.Defaults.MaxRecord, MaxBody: 16 << 20, Timeout: 30 * time.Second,
	IdleTimeout: 5 * time.Minute}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Calls.CheckConfig(report)
	if c.Stream != "" {
		c.checkStream(report)
	}
	if c.Pages != "" && !c.Next.IsZero() {
		report("pages", "next already says where the next page is", "remove one")
	}
	if c.Pages == "cursor" && c.Cursor.IsZero() {
		report("pages", "the next page is requested with the cursor, and there is none", "add cursor")
	}
	if !c.Cursor.IsZero() && !c.asksWith("cursor") {
		report("cursor", "no request depends on it", "write $(cursor()) in url or headers, or cursor() in body")
	}
	if !c.Items.IsZero() && c.Framing != (framing.Framing{}) {
		report("framing", "the elements of items are the records", "remove one")
	}
	if !c.Body.IsZero() && c.Method == http.MethodGet {
		report("body", "few servers read the body of a GET request", "remove it, or set method: POST")
	}
}

// OwnFile returns the field and the path of the checkpoint.
func (c Config) OwnFile() (field, path string) { return "checkpoint", c.Checkpoint }

// checkStream reports fields that streams do not have.
func (c *Config) checkStream(report func(path, message, remedy string)) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"interval", !c.Interval.IsZero()}, {"items", !c.Items.IsZero()}, {"next", !c.Next.IsZero()},
		{"pages", c.Pages != ""}, {"framing", c.Framing != (framing.Framing{})},
		{"compression", c.Compression.Compression != ""},
	} {
		if f.set {
			report(f.name, "a stream has no pages", "remove it, or stream")
		}
	}
	if c.Stream == "ndjson" && c.Cursor.IsZero() && c.Checkpoint != "" {
		report("checkpoint", "there is no cursor to record", "add cursor, or remove it")
	}
}

// asksWith reports whether a request, or the next page, depends on a function.
func (c *Config) asksWith(name string) bool {
	all := slices.Concat(c.URL.Calls(), c.Body.Calls(), c.Next.Calls())
	for _, h := range c.Headers.All() {
		all = append(all, h.Calls()...)
	}
	return calls(all, name)
}

func calls(all expr.Calls, name string) bool {
	return slices.ContainsFunc(all, func(c expr.Call) bool { return c.Name == name })
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	words := map[string]string{
		"verb": "write `method`", "uri": "write `url`", "schedule": "write `interval`", "every": "write `interval`",
		"poll_interval": "write `interval`", "successful_on": "write `expect`", "codec": "write `framing`",
		"scanner": "write `framing`", "extract_headers": "write `metadata`", "oauth2": "write `auth: {oauth2: …}`",
		"basic_auth": "write `auth: {basic: …}`", "payload": "write `body`", "pagination": "write `pages` or `next`",
		"max_response": "write `max_body`", "sse": "write `stream: sse`", "rate_limit": "write `rate_limit` beside `http`",
	}
	return words
}

const about = `
Reads the responses of an HTTP server: polls it, or reads a stream that does not end.

A poll makes one request, or one per page: next is an expression for the URL of the next page,
pages: link follows the Link header, pages: cursor repeats the request with the new cursor
until a response has no messages. Pages with another scheme, host or port are refused, since
they would receive the credentials. Without interval, the input ends after one poll.

A response is read completely before its first message is sent on, so one that is cut off
leaves nothing behind. It is JSON unless framing says otherwise: documents, or the elements of
one array; items names the list in an envelope. In items, next and cursor, fields are those of
the response; header(name) and last_record() are also available. Metadata: http_url (without
query), http_status, http_page, line (the number of the record), and the headers that metadata
names.

cursor() is nil at first, then the last value of cursor. A checkpoint records the cursor up to
which all messages are settled: that of a response or, with next and pages: link, that of a
whole poll. After a restart, responses that were not settled completely are read again. A
response with an ETag, or a reliable Last-Modified, is only sent again once it has changed: 304
means nothing new. Pages that repeat end the poll, with an error in the log.

A server that can't be reached, or that answers 429, 5xx or not at all, is asked again after a
growing pause, honouring Retry-After. So is one that answers another 4xx, or sends no JSON but,
say, a login page; without interval, these end the input. Redirects are followed if they lead
to the same scheme, host and port with the same method.

stream: sse reads events, with metadata event (its type) and event_id. When the stream is
reopened, the id of the last event is sent as Last-Event-ID; after a restart, that of the
checkpoint. This id is also cursor(), unless cursor says otherwise. A stream that ends is
reopened after the time that it specified, or about three seconds. A 204 response ends the
input.

` + httpx.AboutTokens + "\n" + httpx.AboutProxies + `
    inputs:
      orders:
        http:
          url: "https://shop.example/orders?after=$(url_encode(cursor() ?? ''))"
          auth: {bearer: "${SHOP_TOKEN:-secret}"}
          items: orders
          cursor: last(orders)?.id
          pages: cursor
          checkpoint: orders.checkpoint
          interval: 30s
      news: {http: {url: "https://news.example/events", stream: sse, checkpoint: news.checkpoint}}
`

func init() {
	expr.Register(expr.Func{Name: "header", Group: "sources", Scope: "answer", Usage: "header(text) text|nil",
		Types: []any{new(func(string) any)}, Example: `header("X-Next") → "12"`,
		Doc: "A header of the response, or nil; only in the input http.",
		Call: func(src expr.Source, args ...any) (any, error) {
			a, ok := src.(*answer)
			if !ok {
				return nil, fmt.Errorf("header() is a header of the response, and there is no response here")
			}
			return a.value(args[0].(string)), nil
		}})
	expr.Register(expr.Func{Name: "last_record", Group: "sources", Scope: "answer", Usage: "last_record() any",
		Types: []any{new(func() any)}, Example: `last_record()?.id → 7`,
		Doc: "The last record of the response: a document or text, or nil if there is none; only in the input http.",
		Call: func(src expr.Source, _ ...any) (any, error) {
			a, ok := src.(*answer)
			if !ok {
				return nil, fmt.Errorf("last_record() is a record of the response, and there is no response here")
			}
			return a.lastRecord()
		}})
	engine.Register(engine.Inputs, "http", about, defaults, newInput)
}
