// Package httpserver accepts messages as HTTP requests and answers each with its fate. Start at [input]. request.go handles a
// request, and answer.go answers it.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Listen         string   `yaml:"listen,main" check:"required" doc:"Address to listen on, such as 127.0.0.1:8080, or :8080 for all interfaces; port 0 picks a free one."`
	Path           string   `yaml:"path" doc:"Path that requests must have; one that ends with a slash matches everything below it. Paths with empty segments, .. or an encoded form of them are refused."`
	Methods        []string `yaml:"methods" check:"nonempty" doc:"Accepted methods."`
	framing.Config `yaml:",inline"`
	MaxBody        schema.Size      `yaml:"max_body" check:"min=1" doc:"Largest request body, compressed or not, and the most that framing may expand it to; a larger one gets a 413."`
	MaxMessages    int              `yaml:"max_messages" check:"min=1" doc:"Messages that one request may contain; more get a 413."`
	MinRate        schema.Size      `yaml:"min_rate" check:"min=1" doc:"Bytes per second at which a body must arrive, plus 20s in all; a slower one gets a 408."`
	MaxRequests    int              `yaml:"max_requests" check:"min=1" doc:"Fully received requests that may be in flight at once; more get a 503."`
	MaxWaiting     schema.Size      `yaml:"max_waiting" check:"min=1" doc:"Bytes of requests that the pipeline has not accepted yet, as received and as records made from them; more get a 503."`
	Reply          expr.Expr        `yaml:"reply" doc:"Reply to a message that succeeded, computed when it is read: text as it is, anything else as JSON."`
	EarlyAck       bool             `yaml:"early_ack" doc:"Answer 202 as soon as a message is read. It is processed at most once: nobody learns of a message that fails later, or is lost in a crash."`
	MaxReplies     schema.Size      `yaml:"max_replies" check:"min=1KiB" doc:"Bytes of replies that wait for their requests to end; more are retried."`
	Timeout        time.Duration    `yaml:"timeout" check:"min=1ms" doc:"Time for a request's messages to be settled; after that, the request gets a 504."`
	ExposeErrors   bool             `yaml:"expose_errors" doc:"Show clients full errors, which may name files, commands, expressions and other systems. Otherwise they get the class and a reference, which is also in the log."`
	Auth           httpx.ServerAuth `yaml:"auth" doc:"Credentials that requests must carry; without it all requests are accepted."`
	TLS            tlsconf.Server   `yaml:"tls" doc:"Listen with TLS."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if _, message, remedy := tlsconf.Listening(c.Listen, "127.0.0.1:8080"); message != "" {
		report("listen", message, remedy)
	}
	if !strings.HasPrefix(c.Path, "/") {
		report("path", fmt.Sprintf("%q does not begin with a slash", c.Path), `write "/`+c.Path+`"`)
	} else if !httpx.Plain(c.Path) {
		report("path", fmt.Sprintf("%q has empty segments, segments of dots or a backslash", c.Path),
			"write the path without them: requests with such paths are refused")
	}
	if c.MaxWaiting < c.MaxBody {
		report("max_waiting", "is less than max_body: the largest bodies would never be accepted",
			"raise max_waiting, or lower max_body")
	}
	for _, m := range c.Methods {
		if m != strings.ToUpper(m) {
			report("methods", fmt.Sprintf("%q is not a valid method", m), "write "+strings.ToUpper(m))
		}
	}
}

// OwnAddresses reports the address that no other component can listen on.
func (c Config) OwnAddresses(report func(field, address string)) { report("listen", c.Listen) }

// Traits says that each request is answered by itself, or with early_ack when it is
// read, and whether clients on other machines need no credentials.
func (c Config) Traits() engine.Traits {
	host, _, err := net.SplitHostPort(c.Listen)
	t := engine.Traits{
		TakesBack: engine.TakesOne, AcksEarly: c.EarlyAck, Pushed: true,
		Exposed: err == nil && !tlsconf.Loopback(host) && c.Auth.IsZero() && c.TLS.ClientCA == "",
	}
	if c.EarlyAck {
		t.TakesBack = engine.TakesNothing
	}
	return t
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"address": "write `listen`", "port": "write `listen`", "allowed_verbs": "write `methods`",
		"method": "write `methods`", "sync_response": "write `reply`, or an output `reply`",
		"response": "write `reply`"}
}

const about = `
Accepts HTTP requests, and answers each when its messages are settled.

A body is one message; with content type application/x-ndjson each line is one, with
application/json each element of an array, with a framing each record (whole: always
one). Statuses: 200 delivered or filtered, 202 dead-lettered, 400 not decodable, 408
sent too slowly, 413 too large or too many messages, 422 refused because of its
content, 429 over the rate limit, 503 temporarily unavailable, 504 not settled in
time.

A request with several messages gets the worst status, and a list by index. More than
100 without replies are summarised: how many ended in each way, and the indexes (at)
of the first 100 that did not succeed.

A client is told what is wrong with its own message: bad JSON, a record that is too
long, what validate reports. For any other error, it gets the class and a reference
(ref) to the error in the log; with expose_errors, it gets every error.

A success gets an empty response, the one from reply, or the one from a reply output,
which takes precedence. With early_ack, every request gets a 202 as soon as it is
read: at most once.

auth.hmac verifies signed webhooks. Set these fields and the secret:

  GitHub  header: X-Hub-Signature-256, prefix: "sha256="
  Slack   header: X-Slack-Signature, prefix: "v0=", timestamp:
  {header: X-Slack-Request-Timestamp, signed: "v0:{timestamp}:{body}"}
  Stripe  header: Stripe-Signature, prefix: "v1=", timestamp: {field: t}

A timestamp limits how long an intercepted request can be replayed; a dedupe step on
the sender's event id keeps it from counting twice.

Metadata: http_method, http_path, http_query, http_remote, and headers under their
names in lower case, except those with credentials; if a reply output is configured,
also http_request and http_record, which it uses. The headers of a trace (traceparent,
tracestate, baggage) travel on: outputs send them as headers. engine.trace_context switches
that off.

    inputs:
      web: {http_server: {listen: "127.0.0.1:8080", path: /events}}
`

func init() {
	engine.Register(engine.Inputs, "http_server", about, Config{
		Path: "/", Methods: []string{"POST", "PUT"}, Config: framing.Defaults,
		MaxBody: 10 << 20, MaxMessages: 10_000, MinRate: 16 << 10, MaxRequests: 1000, MaxWaiting: 128 << 20,
		MaxReplies: 64 << 20, Timeout: 30 * time.Second,
	}, newInput)
}

type input struct {
	cfg    Config
	log    *slog.Logger
	framed bool // a framing is configured
	desk   *reply.Desk
	room   reply.Room
	refs   push.References
	queue  *push.Queue

	door *push.Door
}

var (
	_ engine.Opener  = (*input)(nil)
	_ engine.Closer  = (*input)(nil)
	_ engine.Stopper = (*input)(nil)
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*input)(nil)
	_ engine.Limited = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Index > 0 {
		return nil, errors.New("one instance accepts all connections (remove concurrency)")
	}
	return &input{
		cfg: c, log: env.Log, framed: c.Framing != framing.Framing{},
		desk: reply.Of(env.Shared), room: reply.Room{Max: int(c.MaxReplies)},
		refs:  push.References{Log: env.Log, Expose: c.ExposeErrors},
		queue: push.NewQueue(c.Timeout, c.MaxRequests, int64(c.MaxWaiting)),
		door:  push.NewDoor(),
	}, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open listens.
func (in *input) Open(ctx context.Context) error {
	conf, err := in.cfg.TLS.Config(in.log)
	if err != nil {
		return err
	}
	d, scheme := push.NewDoor(), "http"
	if conf != nil {
		scheme = "https"
	}
	at, err := d.Listen(ctx, push.Address{Address: in.cfg.Listen, TLS: conf, Timeout: in.cfg.Timeout, Log: in.log,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connection{}, new(httpx.Metas))
		},
		Handler: func(w http.ResponseWriter, r *http.Request) { in.serve(d, w, r) }})
	if err != nil {
		return err
	}
	in.door = d
	in.log.Info(fmt.Sprintf("listening on %s://%s%s", scheme, at, in.cfg.Path))
	return nil
}

// connection is the context key of what a connection keeps.
type connection struct{}

// Read adds the messages of requests that wait.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	return in, in.queue.Read(ctx, in.door, b)
}

// Ack records how messages ended, and answers requests that are complete.
func (in *input) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	in.queue.Ack(results)
	return nil, nil
}

// Limited answers 429 to requests that would have to wait until then.
func (in *input) Limited(until time.Time) { in.queue.Limited(until) }

// Stop closes the listener and refuses requests that were not read. Requests that were read still get their answers.
func (in *input) Stop(context.Context) error {
	in.queue.Stop(in.door)
	return nil
}

// Close waits for the answers until ctx ends, then closes the connections.
func (in *input) Close(ctx context.Context) error {
	if len(in.door.Servers) == 0 {
		return nil
	}
	in.queue.Close(ctx, in.door)
	in.refs.SumUp()
	in.queue.EachOpen(func(r push.Messages) { r.AllSettled() }) // they end with the process
	return nil
}
