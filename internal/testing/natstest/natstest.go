// Package natstest has NATS servers with JetStream in the process of a test.
package natstest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server is a server, and a client of it that is not flowd's.
type Server struct {
	URL  string
	JS   jetstream.JetStream
	Conn *nats.Conn

	opts    server.Options // as it was started
	running *server.Server
	login   []nats.Option
}

// Start starts a server, which ends with the test. change, which may be nil, changes its options; login are the
// options of clients that may do everything.
func Start(t testing.TB, change func(o *server.Options), login ...nats.Option) *Server {
	t.Helper()
	ports, err := daemon.Ports(1) // it listens there again after a restart
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(ports[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{login: login, opts: server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir()}}
	if change != nil {
		change(&s.opts)
	}
	s.run(t)
	t.Cleanup(func() { s.Stop() })
	if s.Conn, err = nats.Connect(s.URL, append(login, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.IgnoreAuthErrorAbort(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Conn.Close)
	if s.JS, err = jetstream.New(s.Conn, jetstream.WithPublishAsyncMaxPending(1<<16)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Server) run(t testing.TB) {
	t.Helper()
	o := s.opts
	srv, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	s.running, s.URL = srv, "nats://"+srv.Addr().String()
}

// Stop stops the server; what it has on disk stays.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}

// Restart starts the server again at its address, with what it has on disk. change, which may be nil, changes its
// options.
func (s *Server) Restart(t testing.TB, change func(o *server.Options)) {
	t.Helper()
	s.Stop()
	if change != nil {
		change(&s.opts)
	}
	s.run(t)
}

// Cut ends all connections.
func (s *Server) Cut(t testing.TB) {
	t.Helper()
	all, err := s.running.Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		_ = s.running.DisconnectClientByID(c.Cid)
	}
}

// Stream creates a stream.
func (s *Server) Stream(t testing.TB, c jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	st, err := s.JS.CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Send publishes messages into a stream.
func (s *Server) Send(t testing.TB, subject string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		if _, err := s.JS.Publish(t.Context(), subject, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
}

// Fill publishes {"id": 0} to {"id": n-1} into a stream, to one of some subjects after the other.
func (s *Server) Fill(t testing.TB, n int, subjects ...string) {
	t.Helper()
	for i := range n {
		if _, err := s.JS.PublishAsync(subjects[i%len(subjects)], fmt.Appendf(nil, `{"id": %d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-s.JS.PublishAsyncComplete():
	case <-time.After(2 * time.Minute):
		t.Fatal("the stream does not confirm what it gets")
	}
}

// All are the messages of a stream, oldest first.
func (s *Server) All(t testing.TB, stream string) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	st, err := s.JS.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	state := st.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := st.GetMsg(ctx, seq)
		if err == nil {
			all = append(all, m)
		}
	}
	return all
}

// Payloads are those of a stream, oldest first.
func (s *Server) Payloads(t testing.TB, stream string) []string {
	t.Helper()
	all := []string{}
	for _, m := range s.All(t, stream) {
		all = append(all, string(m.Data))
	}
	return all
}

// Info is what a consumer says of itself.
func (s *Server) Info(t testing.TB, stream, consumer string) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := s.JS.Consumer(t.Context(), stream, consumer)
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}

// Until waits until a condition holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after two minutes: not %s", what)
		}
	}
}
