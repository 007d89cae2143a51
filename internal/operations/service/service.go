// Package service is the admin API of a process: metrics, health, profiles, and the requests of flowd ctl, on one
// listener. Start at [Start]. [StartMetrics] opens a second one, which only shows metrics and health.
//
// Every request passes guard.go. metrics.go, health.go, profile.go, api.go and pipelines.go answer it.
// push.go takes messages. openapi.go describes the answers. [Client] is the other end.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/operations/history"
	"github.com/prometheus/client_golang/prometheus"
)

// Process is what the listener shows and controls. Its methods are called concurrently. They return once the
// operation has begun; snapshots show its progress.
type Process interface {
	// Snapshots returns the current pipelines. It never waits for a pipeline. Before pipelines are started, it returns nil.
	Snapshots() []engine.Snapshot
	// Pause makes the inputs of a pipeline stop reading; "" means all pipelines, here and below.
	Pause(pipeline string) error
	// Resume makes inputs read again.
	Resume(pipeline string) error
	// Drain finishes what is in flight. The process keeps running.
	Drain(pipeline string) error
	// SetLimit changes the limit with that name, as in engine.LimitState. Pipeline and name are known to exist. The
	// pipeline is "" for a limit that pipelines share.
	SetLimit(pipeline, name string, l Limit) error
	// Push has an input of a pipeline read messages, and waits for their fates, as Push of a plan does.
	Push(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error)
	// Reload reads the pipeline files again. The error says what is wrong in them.
	Reload() error
}

// Limit is the new value of a rate limit.
type Limit struct {
	Messages int
	Per      time.Duration
	Burst    int  // 0: same as Messages
	AtOnce   bool // false: from the next window
}

// Config configures the listener.
type Config struct {
	Listen    string // other than loopback it needs TLS and TokenFile
	TokenFile string // "": a file of the user, by port, which [Client] finds
	TLS       tlsconf.Server
	Pipelines Pipelines // nil: the API does not manage pipelines
	// Tap streams messages until the request's context ends. An error is a refusal, before anything is written. nil: the
	// process has no taps.
	Tap func(http.ResponseWriter, *http.Request) error
	// Trace returns what the process remembers of an id. nil: nothing is remembered.
	Trace func(id string) (history.Trace, error)

	Version, Revision string                 // of the build, for metrics
	Metrics           []prometheus.Collector // more metrics of the process
	Exemplars         *Exemplars             // of latencies; nil: messages are not traced

	closing context.Context // ends when the server is closed: streams end with it
}

// Server is a running listener.
type Server struct {
	http   *http.Server
	addr   net.Addr
	token  token
	closed chan struct{} // no more requests are served
}

// The limits of the listener, against clients that send slowly, send too much, or never read.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	answerTimeout  = time.Minute // a reload may drain for some seconds
	idleTimeout    = 30 * time.Second
	maxHeader      = 16 << 10
	maxConnections = 128
)

// Start listens and serves until Close. ctx bounds only the start. user are the metrics of `metric` steps, or nil.
func Start(ctx context.Context, cfg Config, p Process, user prometheus.Gatherer, log *slog.Logger) (*Server, error) {
	conf, err := cfg.TLS.Config(log)
	if err != nil {
		return nil, fmt.Errorf("service.%w", err)
	}
	ln, err := listen(ctx, "service.listen", cfg.Listen)
	if err != nil {
		return nil, err
	}
	s, err := newServer(cfg, conf, ln, p, user, log)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.serve(ln, conf, log)
	log.Info("admin API listening", "address", s.Addr(), "token_file", s.token.file)
	return s, nil
}

// StartMetrics listens for scrapers and probes, and serves until Close: /metrics, /live and /ready, without a token. It
// shows numbers and names, and no data: neither the reasons why /live and /ready fail nor the metrics of `metric`
// steps, whose labels come from messages. ctx bounds only the start. Of cfg, Listen and the build count.
func StartMetrics(ctx context.Context, cfg Config, p Process, log *slog.Logger) (*Server, error) {
	ln, err := listen(ctx, "service.metrics.listen", cfg.Listen)
	if err != nil {
		return nil, err
	}
	local := loopback(ln.Addr())
	g := &guard{names: func(string) bool { return !local }, anyIP: !local, scheme: "http"}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(cfg, p, nil, log))
	mux.Handle("GET /live", g.health(false, p, Live))
	mux.Handle("GET /ready", g.health(false, p, Ready))
	s := &Server{addr: ln.Addr(), closed: make(chan struct{}), http: newHTTP(g, mux, log)}
	s.serve(ln, nil, log)
	log.Info("metrics listening", "address", s.Addr())
	return s, nil
}

// listen opens a listener at the address in a field.
func listen(ctx context.Context, field, address string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w (give a free address or port)", field, address, err)
	}
	return ln, nil
}

// serve accepts connections until Close.
func (s *Server) serve(ln net.Listener, conf *tls.Config, log *slog.Logger) {
	open := newCrowd(ln, maxConnections)
	ln, s.http.ConnState = open, open.changed
	if conf != nil {
		ln = tls.NewListener(ln, conf)
	}
	go func() {
		defer close(s.closed)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("listener stopped", "address", s.Addr(), "error", err)
		}
	}()
}

// newHTTP makes a server within the limits.
func newHTTP(g *guard, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           g.around(survive(h, log)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: httpx.ErrorLog(log),
	}
}

func newServer(cfg Config, conf *tls.Config, ln net.Listener, p Process, user prometheus.Gatherer,
	log *slog.Logger) (*Server, error) {
	local := loopback(ln.Addr())
	switch {
	case !local && conf == nil:
		return nil,
			fmt.Errorf("service.listen %q is not a loopback address (listen on 127.0.0.1, or set service.tls and service.token_file)", cfg.Listen)
	case !local && cfg.TokenFile == "":
		return nil,
			fmt.Errorf("service.listen %q is not a loopback address (listen on 127.0.0.1, or set service.token_file, too)", cfg.Listen)
	}
	tok, err := serverToken(cfg.TokenFile, ln.Addr())
	if err != nil {
		return nil, err
	}
	g := &guard{names: trustedNames(cfg.Listen, conf), anyIP: !local, scheme: "http", token: tok}
	if conf != nil {
		g.scheme = "https"
		conf.NextProtos = []string{"http/1.1"}
	}
	closing, stop := context.WithCancel(context.Background())
	cfg.closing = closing
	s := &Server{addr: ln.Addr(), token: tok, closed: make(chan struct{}),
		http: newHTTP(g, routes(cfg, g, local, p, user, log), log)}
	s.http.RegisterOnShutdown(stop)
	return s, nil
}

// routes lists the endpoints and who may use them. On loopback, anyone on the machine may see names and numbers.
// Elsewhere, they only see one word about health.
func routes(cfg Config, g *guard, local bool, p Process, user prometheus.Gatherer, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints(cfg, g, local, p, user, log) {
		h := e.serve
		if e.token {
			h = g.tokenOnly(h)
		}
		mux.Handle(e.pattern, h)
	}
	return mux
}

// endpoints returns what the listener answers.
func endpoints(cfg Config, g *guard, local bool, p Process, user prometheus.Gatherer, log *slog.Logger) []endpoint {
	a := &api{process: p, pipelines: cfg.Pipelines, log: log, taps: cfg.Tap, traces: cfg.Trace, closing: cfg.closing,
		pushes: make(chan struct{}, mostPushes)}
	action := func(name, summary string, body any, do func(*http.Request) ([]string, error)) endpoint {
		return endpoint{pattern: "POST /api/v1/" + name, token: true, serve: a.action(name, do), summary: summary, body: body,
			answers: map[int]any{http.StatusOK: done{}}}
	}
	operate := func(action, summary string, do func(Pipelines, string) error) endpoint {
		return endpoint{pattern: "POST /api/v1/pipelines/{name}/" + action, token: true,
			serve: a.managing(a.operatePipeline(action, do)), summary: summary, body: struct{}{},
			answers: map[int]any{http.StatusOK: done{}}}
	}
	push := func(pattern, summary string) endpoint {
		return endpoint{pattern: "POST /api/v1/pipelines/{name}/" + pattern, token: true, serve: http.HandlerFunc(a.push),
			summary: summary, body: media(linesType), query: []string{"wait"}, answers: map[int]any{http.StatusOK: pushedList{}}}
	}
	health := map[int]any{http.StatusOK: Health{}, http.StatusServiceUnavailable: Health{}}
	return documented([]endpoint{
		{pattern: "GET /metrics", token: !local, serve: metricsHandler(cfg, p, user, log), summary: "Metrics for Prometheus.",
			answers: map[int]any{http.StatusOK: media("text/plain")}},
		{pattern: "GET /live", serve: g.health(local, p, Live), answers: health,
			summary: "Whether all loops, steps and writes keep their deadlines."},
		{pattern: "GET /ready", serve: g.health(local, p, Ready), answers: health, summary: "Whether all inputs and outputs work."},
		{pattern: "GET /debug/pprof/{profile}", token: true, serve: http.HandlerFunc(profile), query: []string{"seconds", "debug"},
			summary: "A profile of the process for go tool pprof: profile, heap, goroutine, trace and others.",
			answers: map[int]any{http.StatusOK: media("application/octet-stream")}},

		{pattern: "GET /api/v1/tap", token: true, serve: http.HandlerFunc(a.tap), query: []string{"rate"},
			texts:   []string{"pipeline", "component", "where", "failed"},
			summary: "Live messages, a JSON object per line, until the client closes the connection. Secrets are hidden.",
			answers: map[int]any{http.StatusOK: media(linesType)}},
		{pattern: "GET /api/v1/state", token: true, serve: http.HandlerFunc(a.state), summary: "What all pipelines are doing.",
			answers: map[int]any{http.StatusOK: State{}}},
		{pattern: "GET /api/v1/trace", token: true, serve: http.HandlerFunc(a.trace), texts: []string{"id"},
			summary: "The ways of the last messages with an id; see service.history.",
			answers: map[int]any{http.StatusOK: history.Trace{}}},
		action("pause", "Makes inputs stop reading, of one pipeline or of all.", onPipeline{}, a.pause),
		action("resume", "Makes inputs read again.", onPipeline{}, a.resume),
		action("drain", "Finishes what is in flight, and stays up.", onPipeline{}, a.drain),
		action("reload", "Reads the pipeline files again. Nothing changes if one has an error.", struct{}{}, a.reload),
		action("limit", "Changes a rate limit.", limitRequest{}, a.limit),
		push("messages", "Sends messages into the only input of a pipeline, and waits for their fates, up to `wait` seconds."),
		push("inputs/{input}/messages", "Sends messages into an input of a pipeline, likewise."),

		{pattern: "GET /api/v1/pipelines", token: true, serve: a.managing(a.listPipelines), summary: "Lists all pipelines.",
			answers: map[int]any{http.StatusOK: PipelineList{}}},
		{pattern: "GET /api/v1/pipelines/{name}", token: true, serve: a.managing(a.readPipeline),
			summary: "Returns the YAML of a pipeline.", answers: map[int]any{http.StatusOK: media(yamlTypes[0])}},
		{pattern: "PUT /api/v1/pipelines/{name}", token: true, serve: a.managing(a.putPipeline), body: media(yamlTypes[0]),
			summary: "Creates or replaces a pipeline. Nothing changes if it is not valid.",
			answers: map[int]any{http.StatusOK: done{}, http.StatusCreated: done{}, http.StatusUnprocessableEntity: refusal{},
				http.StatusServiceUnavailable: refusal{}}},
		{pattern: "DELETE /api/v1/pipelines/{name}", token: true, serve: a.managing(a.deletePipeline),
			summary: "Deletes a pipeline. Its messages in flight finish.", answers: map[int]any{http.StatusOK: done{}}},
		operate("start", "Runs a pipeline unless it runs.", Pipelines.Start),
		operate("stop", "Finishes what is in flight of a pipeline, which stays stopped until it is started.", Pipelines.Stop),
		operate("restart", "Closes everything that a pipeline has open, and runs it again.", Pipelines.Restart),
	}, cfg.Version)
}

// Addr returns the address of the listener, with the actual port if port 0 was configured.
func (s *Server) Addr() string { return s.addr.String() }

// Close stops accepting requests, and waits for running ones until ctx ends. When it returns, the address is free.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.closed
	return err
}
