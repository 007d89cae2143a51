// Package service is the operators' interface of a process: metrics, health,
// profiles, and the requests of flowd ctl, on one listener. Start at [Start].
//
// Every request passes guard.go; what it then gets is in metrics.go, health.go,
// profile.go and api.go. [Client] is the other end.
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
	"github.com/prometheus/client_golang/prometheus"
)

// Process is what the listener shows and controls. Its methods are called from several
// goroutines at once. They return when what they ask for has begun: the snapshots show its
// progress.
type Process interface {
	// Snapshots are the pipelines of now. It never waits for one of them.
	Snapshots() []engine.Snapshot
	// Pause makes the inputs of a pipeline stop reading; "" is all pipelines,
	// here as below.
	Pause(pipeline string) error
	// Resume makes them read again.
	Resume(pipeline string) error
	// Drain finishes what is in flight; the process stays up.
	Drain(pipeline string) error
	// SetLimit changes the limit of that name, as in engine.LimitState. The pipeline and
	// the name are known to exist; "" is given with a name that means the same limit
	// everywhere.
	SetLimit(pipeline, name string, l Limit) error
	// Reload reads the pipeline files again; the error says what is wrong in them.
	Reload() error
}

// Limit is what a rate limit becomes.
type Limit struct {
	Messages int
	Per      time.Duration
	Burst    int  // 0: as many as Messages
	AtOnce   bool // else with the next window
}

// Config configures the listener.
type Config struct {
	Listen    string // address; other than loopback it needs TLS and TokenFile
	TokenFile string // "": one of the user's own, by port, as [Client] finds it
	TLS       tlsconf.Server

	Version, Revision string // of the build, for metrics
}

// Server is a listener that runs.
type Server struct {
	http   *http.Server
	addr   net.Addr
	token  token
	closed chan struct{} // no more requests are served
}

// The limits of the listener: whoever dribbles, floods or never reads is cut off.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	answerTimeout  = time.Minute // a reload drains for some seconds
	idleTimeout    = 30 * time.Second
	maxHeader      = 16 << 10
	maxConnections = 128
)

// Start listens and answers until Close; ctx bounds the start alone. user are
// the metrics of `metric` steps, or nil.
func Start(ctx context.Context, cfg Config, p Process, user prometheus.Gatherer, log *slog.Logger) (*Server, error) {
	conf, err := cfg.TLS.Config(log)
	if err != nil {
		return nil, fmt.Errorf("service.%w", err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("service.listen %q: %w (give a free address, such as 127.0.0.1:9600)", cfg.Listen, err)
	}
	s, err := newServer(cfg, conf, ln, p, user, log)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	open := newCrowd(ln, maxConnections)
	ln, s.http.ConnState = open, open.changed
	if conf != nil {
		ln = tls.NewListener(ln, conf)
	}
	go func() {
		defer close(s.closed)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the operators' interface has ended", "error", err)
		}
	}()
	log.Info("the operators' interface listens", "address", s.Addr(), "token_file", s.token.file)
	return s, nil
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
	return &Server{
		addr: ln.Addr(), token: tok, closed: make(chan struct{}),
		http: &http.Server{
			Handler:           g.around(survive(routes(cfg, g, local, p, user, log), log)),
			ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
			WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
			ErrorLog: httpx.ErrorLog(log),
		},
	}, nil
}

// routes lists the endpoints and who may use them. On loopback, anyone on the machine may
// see names and numbers; elsewhere only one word about health.
func routes(cfg Config, g *guard, local bool, p Process, user prometheus.Gatherer, log *slog.Logger) http.Handler {
	m := metricsHandler(cfg, p, user, log)
	if !local {
		m = g.tokenOnly(m)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	mux.Handle("GET /live", g.health(local, p, Live))
	mux.Handle("GET /ready", g.health(local, p, Ready))

	mux.Handle("GET /debug/pprof/{profile}", g.tokenOnly(http.HandlerFunc(profile)))

	a := &api{process: p, log: log}
	mux.Handle("GET /api/v1/state", g.tokenOnly(http.HandlerFunc(a.state)))
	for name, do := range map[string]func(*http.Request) ([]string, error){
		"pause": a.pause, "resume": a.resume, "drain": a.drain, "reload": a.reload, "limit": a.limit,
	} {
		mux.Handle("POST /api/v1/"+name, g.tokenOnly(a.action(name, do)))
	}
	return mux
}

// Addr is the address that is listened on, with the port that a port 0 became.
func (s *Server) Addr() string { return s.addr.String() }

// Close takes no more requests and waits, as long as ctx allows, for those under
// way. When it returns, the address is free.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.closed
	return err
}
