// Package http writes messages as HTTP requests. Start at [output.Write]. internal/network/httpx makes requests and says what
// responses mean.
package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// Config configures the output.
type Config struct {
	httpx.Calls `yaml:",inline"`
	Method      string    `yaml:"method" check:"oneof=POST|PUT|PATCH|DELETE|GET" doc:"Request method."`
	Body        expr.Body `yaml:"body" doc:"Request body for a message: text as it is, anything else as JSON; the payload by default."`
	Batch       string    `yaml:"batch" check:"oneof=each|array|lines" doc:"each: one request per message; array: the messages of a write as one JSON array; lines: as JSON lines."`
	Parallel    int       `yaml:"parallel" check:"min=1" doc:"Requests of one write that may be in flight at once."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"verb": "write `method`", "uri": "write `url`", "successful_on": "write `expect`",
		"max_parallel": "write `parallel`"}
}

const about = `
Sends messages as HTTP requests.

The response status decides: 2xx means delivered; 401 and 403 are of class auth; 408, 425, 429
and 5xx are transient, and Retry-After is honoured; other 4xx reject the message. Redirects are
not followed. With one request per message, metadata that steps have set is sent as headers.
A request with several messages has the headers of a trace if all belong to the same one.

If nothing was sent, because the server can't be reached, its name does not resolve or TLS
fails, the output is held: no attempt is counted. From time to time flowd connects, without a
request; when that works, it sends one message and, once that is accepted, the rest.

` + httpx.AboutTokens + "\n" + httpx.AboutProxies + `
    outputs:
      pager: {http: {url: "https://pager.example/notify/$(id)", headers: {X-Team: ops}}}
`

func init() {
	engine.Register(engine.Outputs, "http", about, Config{Method: "POST", Batch: "each", Parallel: 8}, newOutput)
}

type output struct {
	cfg    Config
	caller *httpx.Caller
}

var (
	_ engine.Opener = (*output)(nil)
	_ engine.Closer = (*output)(nil)
	_ engine.Prober = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	o := &output{cfg: c}
	o.caller = httpx.NewCaller(&o.cfg.Calls, env.Secrets)
	return o, nil
}

// Open reads certificates. Redirects are not followed.
func (o *output) Open(context.Context) error { return o.caller.Open(false) }

// Probe connects to the server, with TLS if the URL says so, and sends nothing, because any request would be a message. The next
// message shows whether the server accepts requests.
func (o *output) Probe(ctx context.Context) error { return o.caller.Reach(ctx) }

// Close drops idle connections.
func (o *output) Close(context.Context) error {
	o.caller.Close()
	return nil
}

// request is one request and the messages that it carries.
type request struct {
	url    string
	header http.Header
	body   []byte
	msgs   []*engine.Message
}

// Write sends the batch, as one request or several. Requests may overtake each other, unless an order key is twice in the batch.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	calls := o.calls(b)
	call.Beside(o.cfg.Parallel, len(calls), func(i int) { o.carry(ctx, calls[i]) })
	return nil
}

// calls turns the batch into requests. Messages that can't be part of a request fail.
func (o *output) calls(b *engine.Batch) []*request {
	var calls []*request
	same := map[string]*request{} // by URL and headers
	for m := range b.All() {
		c, err := o.prepare(m)
		var body []byte
		if err == nil {
			body, err = o.bodyOf(m)
		}
		if err != nil {
			m.Fail(err)
			continue
		}
		if o.cfg.Batch == "each" {
			c.body, c.msgs = body, []*engine.Message{m}
			calls = append(calls, c)
			continue
		}
		key := c.key()
		if first := same[key]; first != nil {
			c = first
		} else {
			same[key] = c
			calls = append(calls, c)
		}
		c.msgs = append(c.msgs, m)
		c.body = append(c.body, separator(o.cfg.Batch, len(c.msgs))...)
		c.body = append(c.body, body...)
	}
	for _, c := range calls {
		if c.complete(o.cfg.Batch); c.oneTrace() {
			o.cfg.SetTrace(c.header, c.msgs[0].Meta)
		}
	}
	return calls
}

func separator(batch string, n int) string {
	switch {
	case batch == "array" && n == 1:
		return "["
	case batch == "array":
		return ","
	case n == 1:
		return ""
	}
	return "\n"
}

// complete completes the body, and sets its type unless the configuration does.
func (c *request) complete(batch string) {
	kind := httpx.ContentType(c.body)
	switch batch {
	case "array":
		c.body = append(c.body, ']')
	case "lines":
		c.body = append(c.body, '\n')
		kind = "application/x-ndjson"
	}
	if c.header.Get("Content-Type") == "" {
		c.header.Set("Content-Type", kind)
	}
}

// oneTrace reports whether all messages have the same parent in a trace.
func (c *request) oneTrace() bool {
	first, ok := c.msgs[0].Meta.Get("traceparent")
	text, _ := first.(string)
	for _, m := range c.msgs[1:] {
		v, _ := m.Meta.Get("traceparent")
		if other, _ := v.(string); other != text {
			return false
		}
	}
	return ok
}

func (c *request) key() string {
	var b strings.Builder
	b.WriteString(c.url)
	_ = c.header.Write(&b) // sorted; writing to a Builder can't fail
	return b.String()
}

// prepare evaluates URL and headers for a message.
func (o *output) prepare(m *engine.Message) (*request, error) {
	url, header, err := o.caller.Target(m)
	if err != nil {
		return nil, err
	}
	if o.cfg.Batch == "each" {
		o.tell(header, m.Meta)
	}
	return &request{url: url, header: header}, nil
}

// tell adds metadata as headers, except for the input's own, names that the configuration sets, and names that are not valid.
func (o *output) tell(header http.Header, meta engine.Meta) {
	for name, v := range meta.Added() {
		if o.cfg.Free(name) {
			httpx.SetHeader(header, name, v)
		}
	}
}

// bodyOf returns what is sent for a message, in a form that can be combined with others.
func (o *output) bodyOf(m *engine.Message) ([]byte, error) {
	body := m.Bytes()
	if !o.cfg.Body.IsZero() {
		var err error
		if body, err = o.cfg.Body.AppendBody(nil, m); err != nil {
			return nil, err
		}
	}
	switch o.cfg.Batch {
	case "array":
		if err := codec.Valid(body); err != nil {
			return nil, err
		}
	case "lines":
		return framing.OneLine(body, "\n", "write `encode: base64` before it, or `batch: each`")
	}
	return body, nil
}

// carry sends a request, and gives its messages its result.
func (o *output) carry(ctx context.Context, c *request) {
	err := o.send(ctx, c)
	for _, m := range c.msgs {
		if err != nil {
			m.Fail(err)
		} else {
			m.Done()
		}
	}
}

func (o *output) send(ctx context.Context, c *request) error {
	res, err := o.caller.Do(ctx, o.cfg.Method, c.url, c.header, c.body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	// The status has arrived, so a body that is cut off does not matter.
	if err := httpx.Drain(res); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return httpx.Lost(ctx, res.Request, err)
	}
	return nil
}
