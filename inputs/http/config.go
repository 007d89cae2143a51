// Package http reads the answers of an HTTP server: by polling it, page by page, or as a stream of events. Start at
// [input.Read]; requests and pages are in poll.go, an answer is cut into records in page.go, and streams are in
// stream.go. How a request is made, and what its answer means, is in internal/httpx.
package http

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/framing"
	"github.com/flowd-io/flowd/internal/httpx"
	"github.com/flowd-io/flowd/internal/schedule"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	httpx.Calls         `yaml:",inline" scope:"cursor"`
	Method              string            `yaml:"method" check:"oneof=GET|POST|PUT|PATCH" doc:"Method of the requests; GET without a body and POST with one by default."`
	Body                expr.Body         `yaml:"body" scope:"cursor" doc:"What is sent: text as it is, anything else as JSON. Without it requests have no body."`
	Interval            schedule.Schedule `yaml:"interval" doc:"Time from one poll to the next: a duration, or a cron expression of five fields (UTC). Without it the input ends after one poll."`
	Stream              string            `yaml:"stream" check:"oneof=sse|ndjson" doc:"The answer does not end, and is read as it comes: sse are server-sent events, ndjson is one JSON document per line. When it ends, it is asked for again."`
	Items               expr.Expr         `yaml:"items" scope:"cursor,answer" doc:"List in the answer, a JSON document, whose elements are the messages, such as data.items. Without it, framing divides the answer."`
	Cursor              expr.Expr         `yaml:"cursor" scope:"cursor,answer" doc:"How far an answer is, such as next_cursor or last(items)?.id: cursor() of the next request. If it is nil, cursor() stays what it is. In a stream it is that of each message."`
	Checkpoint          string            `yaml:"checkpoint" doc:"File that records the cursor before which all messages are settled, and what identifies the last answer. A restart continues after it."`
	Next                expr.Expr         `yaml:"next" scope:"cursor,answer" doc:"URL of the next page, in the answer; nil or an empty text: there is none."`
	Pages               string            `yaml:"pages" check:"oneof=link|cursor" doc:"Where more pages are: link follows rel=next of the header Link; cursor asks again with the new cursor until an answer has no messages."`
	Framing             framing.Framing   `yaml:"framing" doc:"How an answer is divided into records; json by default."`
	MaxRecord           schema.Size       `yaml:"max_record" check:"min=1" doc:"Largest record. A larger one becomes a failed message of class decode with the beginning of the record, marked by the metadata truncated and original_size; the answer continues after it."`
	framing.Compression `yaml:",inline"`
	Metadata            []string      `yaml:"metadata" doc:"Headers of the answer that become metadata, by their names in lower case."`
	MaxBody             schema.Size   `yaml:"max_body" check:"min=1" doc:"Largest answer, uncompressed. It is in memory as a whole; a stream has no such bound."`
	Timeout             time.Duration `yaml:"timeout" check:"min=1ms" doc:"How long to wait for a whole answer; of a stream, for its beginning."`
	IdleTimeout         time.Duration `yaml:"idle_timeout" check:"min=1ms" doc:"How long a stream may give nothing, not even a comment, before it is asked for again."`
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
		report("pages", "next says already where the next page is", "remove one")
	}
	if c.Pages == "cursor" && c.Cursor.IsZero() {
		report("pages", "there is no cursor to ask with", "add cursor")
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

// checkStream reports what a stream does not have.
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
			report(f.name, "a stream has none", "remove it, or stream")
		}
	}
	if c.Stream == "ndjson" && c.Cursor.IsZero() && c.Checkpoint != "" {
		report("checkpoint", "there is no cursor to record", "add cursor, or remove it")
	}
}

// asksWith says whether a request, or the next page, depends on a function.
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

// Words are what users of other systems write.
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
Reads the answers of an HTTP server: polls it, or reads a stream that does not end.

A poll makes one request, or one per page: next is an expression that gives the URL of the
next page, pages: link follows the header Link, pages: cursor repeats the request with the
new cursor until an answer has no messages. Pages of another scheme, host or port are
refused, since they would get the credentials. Without interval the input ends after one
poll.

An answer is read as a whole before the first message of it is sent on, so that one that is cut
off leaves nothing behind. It is JSON unless framing says otherwise: documents, or the
elements of one array; items names the list in an envelope. The fields in items, next and
cursor are those of the answer; header(name) and last_record() are known there.
Metadata: http_url (without query), http_status, http_page, line (the number of the record),
and the headers that metadata names.

cursor() is nil at first, then what cursor has given. A checkpoint has the cursor before which
all messages are settled: that of an answer, or, with next and pages: link, that of a whole
poll. After a restart, answers that were not settled as a whole are read again. An answer
with an ETag, or a Last-Modified that is reliable, is only sent again once it has changed:
304 is no news. Pages that come round again end the poll, with an error in the log.

What can't be reached or answers 429, 5xx or not at all is asked again after a growing pause, with Retry-After
honoured. So is what answers 4xx or no JSON, such as a login page; without interval, these
end the input. Redirects are followed if they lead to the same scheme, host and port with the
same method.

stream: sse reads events; metadata: event (its type) and event_id. The id of the last event
is sent as Last-Event-ID when the stream is opened again, after a restart that of the checkpoint,
and it is cursor() unless cursor says otherwise. A stream that ends is opened again after
the time that it named, or about three seconds. An answer of 204 ends the input.

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
		Doc: "A header of the answer that an input has got, or nil.",
		Call: func(src expr.Source, args ...any) (any, error) {
			a, ok := src.(*answer)
			if !ok {
				return nil, fmt.Errorf("header() is only known of an answer")
			}
			return a.value(args[0].(string)), nil
		}})
	expr.Register(expr.Func{Name: "last_record", Group: "sources", Scope: "answer", Usage: "last_record() any",
		Types: []any{new(func() any)}, Example: `last_record()?.id → 7`,
		Doc: "The last record of the answer that an input has got: a document, or text; nil: it has none.",
		Call: func(src expr.Source, _ ...any) (any, error) {
			a, ok := src.(*answer)
			if !ok {
				return nil, fmt.Errorf("last_record() is only known of an answer")
			}
			return a.lastRecord()
		}})
	engine.Register(engine.Inputs, "http", about, defaults, newInput)
}
