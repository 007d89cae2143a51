// Package http writes messages as HTTP requests. Start at [output.Write]; what
// an answer means is in answer.go, what data may choose of a URL in url.go.
package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/httpx"
	"github.com/flowd-io/flowd/internal/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	URL      expr.Template             `yaml:"url,main" check:"required" doc:"Where to send. Scheme and host are written literally; what data adds can't change them."`
	Method   string                    `yaml:"method" check:"oneof=POST|PUT|PATCH|DELETE|GET" doc:"Method of the requests."`
	Headers  schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name."`
	Body     expr.Template             `yaml:"body" doc:"What is sent of a message; its payload by default."`
	Batch    string                    `yaml:"batch" check:"oneof=each|array|lines" doc:"each: one request a message; array: the messages of a write as one JSON array; lines: as lines of JSON."`
	Parallel int                       `yaml:"parallel" check:"min=1" doc:"Requests of one write that are under way at once."`
	Auth     httpx.Auth                `yaml:"auth" doc:"Credentials to show."`
	Expect   []int                     `yaml:"expect" check:"min=200,max=599" doc:"Statuses that mean success; 200 to 299 by default."`
	TLS      tlsconf.Client            `yaml:"tls" doc:"TLS beyond the system's defaults."`
}

// reserved are the headers that a request sets itself.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}

// CheckConfig reports what can't be sent.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if why := checkURL(&c.URL); why != "" {
		report("url", why, "write as http://host/path/$(id)")
	}
	for name := range c.Headers.All() {
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case !isToken(name):
			report("headers", fmt.Sprintf("%q is no name of a header", name), "use letters, digits and -")
		case slices.Contains(reserved, canonical):
			report("headers", name+" is set by the request itself", "remove it")
		}
	}
}

// Words are what users of other systems write.
func (*Config) Words() map[string]string {
	return map[string]string{"verb": "write `method`", "uri": "write `url`", "successful_on": "write `expect`", "max_parallel": "write `parallel`"}
}

const about = `
Sends messages as HTTP requests.

Answers decide: 2xx is delivered; 401 and 403 are of class auth; 408, 425, 429
and 5xx are transient, with Retry-After honoured; other 4xx reject the message.
Redirects are not followed. With one request a message, metadata that steps have
set goes along as headers.

    outputs:
      pager: {http: {url: "https://pager.example/notify/$(id)", headers: {X-Team: ops}}}
`

func init() {
	engine.Register(engine.Outputs, "http", about, Config{Method: "POST", Batch: "each", Parallel: 8}, newOutput)
}

type output struct {
	cfg    Config
	guard  guard
	client *http.Client
}

var (
	_ engine.Opener = (*output)(nil)
	_ engine.Closer = (*output)(nil)
)

func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	return &output{cfg: c, guard: newGuard(&c.URL)}, nil
}

// Open reads certificates; connections are made by the first write.
func (o *output) Open(context.Context) error {
	conf, err := o.cfg.TLS.Config()
	if err != nil {
		return err
	}
	o.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect would carry payload and credentials to where no one said.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// Close drops idle connections.
func (o *output) Close(context.Context) error {
	o.client.CloseIdleConnections()
	return nil
}

// call is one request and the messages that it carries.
type call struct {
	url    string
	header http.Header
	body   []byte
	msgs   []*engine.Message
}

// Write sends the batch, as one request or as many. Without an order key twice
// in a batch, these may overtake each other.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	calls := o.calls(b)
	if len(calls) == 1 {
		o.carry(ctx, calls[0])
		return nil
	}
	var wg sync.WaitGroup
	next := make(chan *call)
	for range min(o.cfg.Parallel, len(calls)) {
		wg.Go(func() {
			for c := range next {
				o.carry(ctx, c)
			}
		})
	}
	for _, c := range calls {
		next <- c
	}
	close(next)
	wg.Wait()
	return nil
}

// calls makes requests of the batch; messages of which none can be made fail.
func (o *output) calls(b *engine.Batch) []*call {
	var calls []*call
	same := map[string]*call{} // by URL and headers
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
		c.complete(o.cfg.Batch)
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

// complete ends the body and names its type, unless the configuration does.
func (c *call) complete(batch string) {
	kind := "application/json"
	switch {
	case batch == "array":
		c.body = append(c.body, ']')
	case batch == "lines":
		c.body = append(c.body, '\n')
		kind = "application/x-ndjson"
	case len(c.body) == 0 || c.body[0] != '{' && c.body[0] != '[':
		kind = "application/octet-stream"
	}
	if c.header.Get("Content-Type") == "" {
		c.header.Set("Content-Type", kind)
	}
}

func (c *call) key() string {
	var b strings.Builder
	b.WriteString(c.url)
	_ = c.header.Write(&b) // sorted; a Builder takes all
	return b.String()
}

// prepare evaluates URL and headers for a message.
func (o *output) prepare(m *engine.Message) (*call, error) {
	url, err := o.cfg.URL.Text(m)
	if err != nil {
		return nil, err
	}
	if err := o.guard.check(url); err != nil {
		return nil, engine.WithClass(engine.Rejected, err)
	}
	c := &call{url: url, header: make(http.Header, o.cfg.Headers.Len()+2)}
	for name, value := range o.cfg.Headers.All() {
		text, err := value.Text(m)
		if err != nil {
			return nil, err
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, engine.Errorf(engine.Rejected, "header %s: the value has control characters", name)
		}
		c.header.Set(name, text)
	}
	if o.cfg.Batch == "each" {
		c.tell(m.Meta)
	}
	return c, nil
}

// tell adds metadata that is not the input's own as headers, where the
// configuration has not set them and their names allow it.
func (c *call) tell(meta engine.Meta) {
	for name, v := range meta.Added() {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, set := c.header[canonical]; set || !isToken(name) || slices.Contains(reserved, canonical) || canonical == "Authorization" {
			continue
		}
		text, ok := v.(string)
		if !ok {
			raw, err := doc.Append(nil, v)
			if err != nil {
				continue
			}
			text = string(raw)
		}
		c.header.Set(name, strings.Map(oneLined, text))
	}
}

// oneLined replaces what can't stand in a header's value.
func oneLined(r rune) rune {
	if r < ' ' && r != '\t' || r == 0x7f {
		return ' '
	}
	return r
}

// bodyOf is what is sent of a message, in a form that can stand beside others.
func (o *output) bodyOf(m *engine.Message) ([]byte, error) {
	body := m.Bytes()
	if !o.cfg.Body.IsZero() {
		var err error
		if body, err = o.cfg.Body.Append(nil, m); err != nil {
			return nil, err
		}
	}
	switch o.cfg.Batch {
	case "array":
		if err := validJSON(body); err != nil {
			return nil, err
		}
	case "lines":
		if bytes.IndexByte(body, '\n') >= 0 {
			return oneLine(body)
		}
	}
	return body, nil
}

// carry sends a request and lets its messages end as it does.
func (o *output) carry(ctx context.Context, c *call) {
	err := o.send(ctx, c)
	for _, m := range c.msgs {
		if err != nil {
			m.Fail(err)
		} else {
			m.Done()
		}
	}
}

func (o *output) send(ctx context.Context, c *call) error {
	req, err := http.NewRequestWithContext(ctx, o.cfg.Method, c.url, bytes.NewReader(c.body))
	if err != nil {
		return engine.WithClass(engine.Rejected, err)
	}
	req.Header = c.header
	o.cfg.Auth.Set(req)
	res, err := o.client.Do(req)
	if err != nil {
		// The error's text has the URL, with whatever secrets are in its query.
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return fmt.Errorf("%s: %w", shown(req.URL), err)
	}
	return o.judge(req, res)
}
