// Package otlp receives logs, metrics and traces by OpenTelemetry's protocol, and answers each request when its messages are settled.
// Start at [input]. request.go handles a request, and answer.go answers it.
package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/push"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Listen         string         `yaml:"listen,main" doc:"Address to listen on for gRPC, such as 127.0.0.1:4317, or :4317 for all interfaces; port 0 picks a free one. 127.0.0.1:4317 by default, unless listen_http is set."`
	ListenHTTP     string         `yaml:"listen_http" doc:"Address to listen on for requests to /v1/logs, /v1/metrics and /v1/traces, usually with port 4318. Their bodies may be protobuf or JSON."`
	Signals        []string       `yaml:"signals" check:"nonempty,oneof=logs|metrics|traces" doc:"What is accepted: logs, metrics and traces. Anything else is refused as not implemented."`
	Split          bool           `yaml:"split" doc:"Make a message of each log record, metric and span; false: of each request."`
	MaxBody        schema.Size    `yaml:"max_body" check:"min=1" doc:"Largest request, compressed or not; a larger one is refused. The messages made of a request may have eight times as many bytes."`
	MaxMessages    int            `yaml:"max_messages" check:"min=1" doc:"Messages that one request may contain; more are refused."`
	MinRate        schema.Size    `yaml:"min_rate" check:"min=1" doc:"Bytes per second at which a request must arrive, plus 20s in all."`
	MaxConnections int            `yaml:"max_connections" check:"min=1" doc:"Connections at once, for each address; more wait until one is closed."`
	MaxRequests    int            `yaml:"max_requests" check:"min=1" doc:"Fully received requests that may be in flight at once; more are asked to retry."`
	MaxWaiting     schema.Size    `yaml:"max_waiting" check:"min=1" doc:"Bytes of requests that the pipeline has not accepted yet, and of the messages made from them; more are asked to retry."`
	EarlyAck       bool           `yaml:"early_ack" doc:"Answer as soon as the messages are read. They are processed at most once: nobody learns of a message that fails later, or is lost in a crash."`
	Timeout        time.Duration  `yaml:"timeout" check:"min=1ms" doc:"Time for a request's messages to be settled; after that, the client is asked to retry. The official SDKs wait for 10s by default."`
	ExposeErrors   bool           `yaml:"expose_errors" doc:"Show clients full errors, which may name files, commands, expressions and other systems. Otherwise they get a reference, which is also in the log."`
	Auth           httpx.Auth     `yaml:"auth" doc:"Credentials that requests must carry; without it all requests are accepted."`
	TLS            tlsconf.Server `yaml:"tls" doc:"Listen with TLS."`
}

// The default address for gRPC, and for lint's example for HTTP.
const (
	defaultListen = "127.0.0.1:4317"
	exampleHTTP   = "127.0.0.1:4318"
)

// grpc is the address for gRPC, or "".
func (c *Config) grpc() string {
	if c.ListenHTTP != "" {
		return c.Listen
	}
	return cmp.Or(c.Listen, defaultListen)
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.OwnAddresses(func(field, address string) {
		example := map[string]string{"listen": defaultListen, "listen_http": exampleHTTP}[field]
		if _, message, remedy := tlsconf.Listening(address, example); message != "" {
			report(field, message, remedy)
		}
	})
	if c.MaxWaiting < c.MaxBody {
		report("max_waiting", "is less than max_body: the largest requests would never be accepted", "raise max_waiting, or lower max_body")
	}
}

// OwnAddresses reports the addresses that no other component can listen on.
func (c Config) OwnAddresses(report func(field, address string)) {
	if address := c.grpc(); address != "" {
		report("listen", address)
	}
	if c.ListenHTTP != "" {
		report("listen_http", c.ListenHTTP)
	}
}

// Traits says that each request is answered by itself, or with early_ack when it is read, and whether clients on other machines need
// no credentials.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{TakesBack: engine.TakesOne, AcksEarly: c.EarlyAck, Pushed: true}
	if c.EarlyAck {
		t.TakesBack = engine.TakesNothing
	}
	if c.Auth == (httpx.Auth{}) && c.TLS.ClientCA == "" {
		c.OwnAddresses(func(_, address string) {
			host, _, err := net.SplitHostPort(address)
			t.Exposed = t.Exposed || err == nil && !tlsconf.Loopback(host)
		})
	}
	return t
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"grpc": "write `listen`", "http": "write `listen_http`", "protocols": "write `listen` and `listen_http`",
		"endpoint": "write `listen`", "max_recv_msg_size_mib": "write `max_body`", "max_request_body_size": "write `max_body`"}
}

const about = `
Receives logs, metrics and traces by OpenTelemetry's protocol (OTLP), over gRPC and HTTP.

Each log record, metric and span is a message: a request of OTLP in its JSON form, with this
one record in it, and with its resource and scope. Anything that reads OTLP as lines of JSON
understands it, and the output otlp makes requests of such messages again:

  {"resourceLogs": [{"resource": {"attributes": [{"key": "service.name",
  "value": {"stringValue": "shop"}}]}, "scopeLogs": [{"scope": {"name": "checkout"},
  "logRecords": [{"timeUnixNano": "1767225600000000000", "severityNumber": 9,
  "body": {"stringValue": "paid"}}]}]}]}

Metrics have resourceMetrics, scopeMetrics and metrics, and traces resourceSpans, scopeSpans
and spans. A metric keeps all data points that its request has. As OTLP defines it, numbers
with 64 bits are texts, and ids of traces and spans are in hexadecimal digits.

A request is answered when its messages are settled. If some failed for good, or were dropped
because they failed, the answer is a partial success that counts them, so that the client does
not send them again. If a message can be tried again later, the client is asked to send the
whole request again (UNAVAILABLE or 503): messages of it that were delivered then arrive
twice. A request that is over the rate limit, or for which there is no room, gets
RESOURCE_EXHAUSTED or 429; one that can't be decoded gets INVALID_ARGUMENT or 400. Where a
retry helps, the answer says when. With early_ack, a request is answered as soon as its
messages are read: at most once.

A client learns what is wrong with its own messages. For any other error, it gets a reference
(ref) to the error in the log; with expose_errors, it gets every error.

Metadata: signal (logs, metrics or traces), service_name (the attribute service.name of the
resource), trace_id (of a log record or span), and http_remote. If the request itself belongs
to a trace, its headers traceparent, tracestate and baggage travel on with its messages,
unless engine.trace_context switches that off.

    inputs:
      telemetry: {otlp: {listen: "127.0.0.1:4317", listen_http: "127.0.0.1:4318"}}
`

func init() {
	engine.Register(engine.Inputs, "otlp", about, Config{
		Signals: []string{"logs", "metrics", "traces"}, Split: true,
		MaxBody: 10 << 20, MaxMessages: 100_000, MinRate: 16 << 10, MaxConnections: 1000, MaxRequests: 1000, MaxWaiting: 128 << 20,
		Timeout: 30 * time.Second,
	}, newInput)
}

type input struct {
	cfg   Config
	log   *slog.Logger
	refs  push.References
	queue *push.Queue

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
		cfg: c, log: env.Log,
		refs:  push.References{Log: env.Log, Expose: c.ExposeErrors},
		queue: push.NewQueue(c.Timeout, c.MaxRequests, int64(c.MaxWaiting)),
		door:  push.NewDoor(),
	}, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// Open listens.
func (in *input) Open(ctx context.Context) (err error) {
	d := push.NewDoor()
	defer func() {
		if err != nil {
			in.queue.Close(ctx, d)
		}
	}()
	var grpc, plain http.Protocols
	grpc.SetHTTP2(true)
	grpc.SetUnencryptedHTTP2(true)
	plain.SetHTTP1(true)
	plain.SetHTTP2(true)
	if address := in.cfg.grpc(); address != "" {
		if err := in.listen(ctx, d, "grpc", address, &grpc, in.serveGRPC); err != nil {
			return err
		}
	}
	if in.cfg.ListenHTTP != "" {
		if err := in.listen(ctx, d, "http", in.cfg.ListenHTTP, &plain, in.serveHTTP); err != nil {
			return err
		}
	}
	in.door = d
	return nil
}

// listen starts a server.
func (in *input) listen(ctx context.Context, d *push.Door, scheme, address string, protocols *http.Protocols,
	serve func(*push.Door, http.ResponseWriter, *http.Request)) error {
	conf, err := in.cfg.TLS.Config(in.log)
	if err != nil {
		return err
	}
	if conf != nil {
		scheme += "s"
	}
	at, err := d.Listen(ctx, push.Address{Address: address, TLS: conf, Timeout: in.cfg.Timeout, MaxConnections: in.cfg.MaxConnections,
		Log: in.log, Protocols: protocols, Handler: func(w http.ResponseWriter, r *http.Request) { serve(d, w, r) }})
	if err != nil {
		return err
	}
	in.log.Info(fmt.Sprintf("listening on %s://%s", scheme, at))
	return nil
}

// Read adds the messages of requests that wait.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	return in, in.queue.Read(ctx, in.door, b)
}

// Ack records how messages ended, and answers requests that are complete.
func (in *input) Ack(_ context.Context, results []engine.Result) ([]engine.Result, error) {
	in.queue.Ack(results)
	return nil, nil
}

// Limited refuses requests that would have to wait until then.
func (in *input) Limited(until time.Time) { in.queue.Limited(until) }

// Stop closes the listeners and refuses requests that were not read. Requests that were read still get their answers.
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
	return nil
}

// accepts says whether a signal is accepted.
func (in *input) accepts(s otlpdocs.Signal) bool { return slices.Contains(in.cfg.Signals, s.String()) }
