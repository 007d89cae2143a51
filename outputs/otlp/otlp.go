// Package otlp sends logs, metrics and traces by OpenTelemetry's protocol. Start at [output.Write]. send.go makes one request.
package otlp

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/otlpdocs"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	otlp.Client `yaml:",inline"`
	MaxRequest  schema.Size `yaml:"max_request" check:"min=1KiB" doc:"Largest request before compression; a batch with more is sent as several. A message that is larger by itself is sent alone. Receivers of the collector accept 4MiB over gRPC by default."`
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"url": "write `endpoint`", "insecure": "write `endpoint: \"http://…\"` for a receiver without TLS"}
}

const about = `
Sends logs, metrics and traces by OpenTelemetry's protocol (OTLP), over gRPC or HTTP.

Messages are requests of OTLP in its JSON form, with any number of records, as the input otlp
makes them (see flowd docs inputs/otlp). A write makes one request for each signal: records of
equal resources and scopes are joined. A message that is not OTLP fails alone, with class decode.

As OTLP defines it, UNAVAILABLE and some other codes of gRPC, or the statuses 429, 502, 503 and
504, are transient, and the delay that the receiver asks for is honoured. RESOURCE_EXHAUSTED
is transient if it comes with a delay. Refused credentials are of class auth. Anything else
rejects the messages of the request.

If the receiver accepts a request in part, it says how many records it has rejected, but not
which. So all messages of that request are rejected, and a dead letter may contain records that
have arrived. Smaller batches make that rarer; with batches of one message, only what was
rejected fails.

If nothing was sent, because the receiver can't be reached, its name does not resolve or TLS
fails, the output is held: no attempt is counted.

Requests go through a proxy if the environment names one: HTTP_PROXY and HTTPS_PROXY.

    outputs:
      collector: {otlp: {endpoint: "https://otel.example:4317", compression: none}}
`

func init() {
	engine.Register(engine.Outputs, "otlp", about, Config{MaxRequest: 3 << 20}, newOutput)
}

type output struct {
	cfg     Config
	log     *slog.Logger
	secrets *schema.Secrets
	targets [3]*target             // by signal
	failed  atomic.Pointer[target] // the one that could not be reached last
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Prober  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	return &output{cfg: c, log: env.Log, secrets: env.Secrets}, nil
}

// Traits says that a request costs about as much for many messages as for few.
func (o *output) Traits() engine.Traits { return engine.Traits{Bulk: true} }

// Open reads certificates and the environment. The first request connects.
func (o *output) Open(context.Context) error {
	for _, s := range otlpdocs.All {
		t, err := newTarget(o.cfg.Client, s, o.secrets)
		if err != nil {
			return engine.WithClass(engine.Permanent, err)
		}
		o.targets[s] = t
	}
	return nil
}

// Close drops idle connections.
func (o *output) Close(context.Context) error {
	for _, t := range o.targets {
		t.client.CloseIdleConnections()
	}
	return nil
}

// Probe connects to the receiver that could not be reached last, and sends nothing.
func (o *output) Probe(ctx context.Context) error {
	if t := o.failed.Load(); t != nil {
		return httpx.Reach(ctx, t.network, t.url)
	}
	return nil
}

// request is one request and the messages that it carries.
type request struct {
	signal otlpdocs.Signal
	parts  [][]byte // of its messages
	size   int
	msgs   []*engine.Message
}

// parallel is how many requests of a write are in flight at once.
const parallel = 4

// Write sends the batch as one request for each signal, or as several if it is large.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	all := o.requests(b)
	call.Beside(parallel, len(all), func(i int) { o.carry(ctx, all[i]) })
	return nil
}

// requests divides the batch into requests. Messages that are not OTLP fail.
func (o *output) requests(b *engine.Batch) (all []*request) {
	var open [3]*request
	for m := range b.All() {
		signal, part, err := otlpdocs.Encode(m.Bytes())
		switch {
		case err != nil:
			m.Fail(err)
			continue
		case len(part) == 0: // it has no records
			m.Done()
			continue
		}
		r := open[signal]
		if r == nil || r.size+len(part) > int(o.cfg.MaxRequest) {
			r = &request{signal: signal}
			open[signal] = r
			all = append(all, r)
		}
		r.parts, r.size, r.msgs = append(r.parts, part), r.size+len(part), append(r.msgs, m)
	}
	return all
}

// carry sends a request, and gives its messages its result.
func (o *output) carry(ctx context.Context, r *request) {
	t := o.targets[r.signal]
	answer, err := t.send(ctx, otlpdocs.Merge(r.parts))
	switch {
	case err != nil:
		if engine.ErrorOf(err, "").Holds {
			o.failed.Store(t)
		}
	case answer.Rejected > 0:
		err = engine.Errorf(engine.Rejected, "%s: the receiver has rejected %d %s of a request with %d messages: %s",
			t.shown, answer.Rejected, r.signal.Units(), len(r.msgs), call.Head([]byte(answer.Message), maxQuoted, t.secrets))
	case answer.Message != "":
		o.log.Warn("the receiver has accepted a request with a warning", "receiver", t.shown,
			"warning", call.Head([]byte(answer.Message), maxQuoted, t.secrets))
	}
	for _, m := range r.msgs {
		if err != nil {
			m.Fail(err)
		} else {
			m.Done()
		}
	}
}
