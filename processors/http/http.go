// Package http is the processor `http`: it calls a server for each message. Start at [Config]. Package
// internal/network/httpx makes requests and classifies refusals.
package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the http processor.
type Config struct {
	httpx.Calls `yaml:",inline"`
	Method      string      `yaml:"method" check:"oneof=GET|HEAD|POST|PUT|PATCH|DELETE" doc:"Request method; by default, GET without a body and POST with one."`
	Body        expr.Body   `yaml:"body" doc:"Request body: text as it is, anything else as JSON. Without it requests have no body."`
	Into        fields.Path `yaml:"into" doc:"Field for the response; without it the response replaces the payload."`
	Metadata    []string    `yaml:"metadata" doc:"Response headers that become metadata, under their names in lower case."`
	Forward     []string    `yaml:"forward" doc:"Metadata to send as headers, if a message has it."`
	Parallel    int         `yaml:"parallel" check:"min=1" doc:"Maximum number of calls in flight for the messages of one run."`
	MaxResponse schema.Size `yaml:"max_response" check:"min=1" doc:"Maximum size of a response, uncompressed; a larger one fails its message."`
}

// CheckConfig reports requests that can't be sent.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Calls.CheckConfig(report)
	for _, name := range c.Forward {
		if !c.Free(name) {
			report("forward", fmt.Sprintf("%q can't be sent: it is not a valid header name, or is already set", name),
				"set it under headers: X-Name: $(meta(\""+name+"\"))")
		}
	}
	if c.Method == http.MethodHead && !c.Body.IsZero() {
		report("body", "a HEAD request can't have a body", "remove it, or set another method")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"verb": "write `method`", "uri": "write `url`", "successful_on": "write `expect`", "result_map": "write `into`",
		"max_parallel": "write `parallel`", "extract_headers": "write `metadata`",
		"copy_response_headers": "write `metadata`",
		"timeout":               "write `timeout` on the step, beside `http`",
		"retries":               "write `retry` on the step, beside `http`",
	}
}

const help = `
Calls a server once for each message, and stores the response in a field.

A response is a document if its content type is JSON, or if it is a JSON object or
array; other text is text, and an empty response is null. Metadata: http_status, and the
headers that metadata names.

The status decides: 2xx is success; 401 and 403 fail the message with class auth;
408, 425, 429 and 5xx are transient, and Retry-After is honoured; other 4xx are
rejected. Redirects are followed if they lead to the same scheme, host and
port with the same method. Pass data in a URL through url_encode() if it may contain
characters other than letters and digits.

A request belongs to the trace of its message: its metadata traceparent, tracestate and
baggage is sent as headers. engine.trace_context switches that off.

A response counts against engine.max_in_flight.bytes as it arrives. If there is no room
for a long one, its message waits, and the call is made again when there is room.

` + httpx.AboutTokens + "\n" + httpx.AboutProxies + `
    - name: check address
      http: {url: "http://geo.example/lookup?q=$(url_encode(city))", into: geo}
      when: country == nil
      timeout: 2s
      on_error: continue
    - http: {url: "https://score.example/v1", body: "{id: id, total: total}", into: score}
`

// Traits reports that the step calls a server.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() {
	engine.Register(engine.Processors, "http", help, Config{Parallel: 8, MaxResponse: 10 << 20}, build)
}

type step struct {
	cfg    Config
	method string
	caller *httpx.Caller
}

var (
	_ engine.Opener        = (*step)(nil)
	_ engine.Closer        = (*step)(nil)
	_ engine.Traited       = (*step)(nil)
	_ call.Asker[*request] = (*step)(nil)
)

func build(c Config, env engine.Env) (engine.Processor, error) {
	s := &step{cfg: c, method: c.Method}
	if s.method == "" {
		s.method = http.MethodGet
		if !c.Body.IsZero() {
			s.method = http.MethodPost
		}
	}
	s.caller = httpx.NewCaller(&s.cfg.Calls, env.Secrets)
	return s, nil
}

// Open reads certificates. The first call connects.
func (s *step) Open(context.Context) error { return s.caller.Open(true) }

// Close closes idle connections.
func (s *step) Close(context.Context) error {
	s.caller.Close()
	return nil
}

// Traits reports how many calls are in flight at once.
func (s *step) Traits() engine.Traits { return engine.Traits{Together: s.cfg.Parallel} }

// Process makes the calls. They end with ctx.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	call.Each(ctx, b, s.cfg.Parallel, s)
	return nil
}

// request is a request with its answer.
type request struct {
	m      *engine.Message // its credits pay for the answer
	url    string
	header http.Header
	body   []byte

	status int
	answer []byte
	got    http.Header
}

// Prepare evaluates the expressions of a message's request.
func (s *step) Prepare(m *engine.Message) (*request, error) {
	if !s.cfg.Into.Path.IsZero() {
		if err := m.Doc().Valid(); err != nil {
			return nil, err // there is no document to hold the answer
		}
	}
	url, header, err := s.caller.Target(m)
	if err != nil {
		return nil, err
	}
	c := &request{m: m, url: url, header: header}
	s.forward(header, m.Meta)
	if s.cfg.Body.IsZero() {
		return c, nil
	}
	if c.body, err = s.cfg.Body.AppendBody(nil, m); err != nil {
		return nil, err
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", httpx.ContentType(c.body))
	}
	return c, nil
}

// forward adds metadata to the headers.
func (s *step) forward(header http.Header, meta engine.Meta) {
	s.cfg.SetTrace(header, meta)
	for _, name := range s.cfg.Forward {
		if v, ok := meta.Get(name); ok {
			httpx.SetHeader(header, name, v)
		}
	}
}

// Call sends the request and reads its answer.
func (s *step) Call(ctx context.Context, c *request) error {
	res, err := s.caller.Do(ctx, s.method, c.url, c.header, c.body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	limit := int64(s.cfg.MaxResponse)
	if res.ContentLength > limit && s.method != http.MethodHead {
		return s.tooLarge()
	}
	c.status, c.got = res.StatusCode, res.Header
	var full *engine.Error
	switch c.answer, err = call.ReadAll(c.m, res.Body, limit); {
	case errors.As(err, &full):
		return err
	case err != nil:
		return httpx.Lost(ctx, res.Request, err)
	}
	if int64(len(c.answer)) > limit {
		return s.tooLarge()
	}
	return nil
}

func (s *step) tooLarge() error {
	return engine.Errorf(engine.Permanent,
		"the answer is longer than max_response, %s (raise it, if answers may be that long)", s.cfg.MaxResponse)
}

// Finish stores the answer in the message.
func (s *step) Finish(m *engine.Message, c *request) error {
	if s.cfg.Into.IsZero() {
		m.SetBytes(c.answer)
	} else if err := s.put(m, c); err != nil {
		return err
	}
	m.Meta = m.Meta.With("http_status", c.status)
	for _, name := range s.cfg.Metadata {
		if values := c.got.Values(name); len(values) > 0 {
			m.Meta = m.Meta.With(strings.ToLower(name), strings.Join(values, ", "))
		}
	}
	return nil
}

func (s *step) put(m *engine.Message, c *request) error {
	raw := bytes.TrimSpace(c.answer)
	var err error
	if len(raw) > 0 && isJSON(c.got.Get("Content-Type")) {
		if err = codec.Valid(raw); err != nil {
			// The message's own bytes are valid, so this is not its error.
			return engine.Errorf(engine.Decode, "the answer's content type is JSON, but it is not valid: %v", err)
		}
	} else if raw, err = codec.Answer(raw, false); err != nil {
		return err
	}
	return m.Doc().SetRaw(s.cfg.Into.Path, raw)
}

func isJSON(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}
