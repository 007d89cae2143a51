package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory, whose deadlines keep virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn, 10), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9600} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func TestWhoDribblesIsCutOff(t *testing.T) {
	file := tokenFile(t)
	tests := []struct {
		name, begin string
		within      time.Duration
	}{
		{"headers", "GET /live HTTP/1.1\r\nHost: localhost\r\nX-A: ", headerTimeout},
		{"a body", "POST /api/v1/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenText +
			"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", readTimeout},
		{"nothing at all", "", headerTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := newPipes()
				p := &fake{snapshots: twoPipelines()}
				s, err := newServer(Config{Listen: "127.0.0.1:9600", TokenFile: file}, nil, ln, p, nil,
					slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- s.http.Serve(ln) }()
				c := ln.dial()
				if _, err := io.WriteString(c, tt.begin); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, _ = io.Copy(io.Discard, c) // an answer, or nothing
				if took := time.Since(start); took == 0 || took > tt.within+time.Second {
					t.Errorf("cut off after %v, want %v", took, tt.within)
				}
				if calls := p.took(); calls != nil {
					t.Errorf("half a request did %q", calls)
				}
				if err := s.http.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestAProfileMayTakeLongerThanARequest: the timeouts of other requests must not end it.
func TestAProfileMayTakeLongerThanARequest(t *testing.T) {
	file := tokenFile(t)
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		s, err := newServer(Config{Listen: "127.0.0.1:9600", TokenFile: file}, nil, ln, &fake{}, nil,
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.http.Serve(ln) }()
		c := ln.dial()
		start := time.Now()
		go func() {
			_, _ = io.WriteString(c, "GET /debug/pprof/goroutine?seconds=200 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
				"Authorization: Bearer "+tokenText+"\r\n\r\n")
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || time.Since(start) < 200*time.Second {
			t.Errorf("got %s after %v, %v: %.200q", res.Status, time.Since(start), err, text)
		}
		if err := s.http.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestAFurtherConnectionTakesThePlaceOfTheOneMissedLeast(t *testing.T) {
	const fresh, idle, active = http.StateNew, http.StateIdle, http.StateActive
	tests := []struct {
		name   string
		states []http.ConnState // in the order in which they got them
		gone   int
	}{
		{"the one idle for longest", []http.ConnState{active, fresh, idle, idle}, 2},
		{"else the one silent for longest", []http.ConnState{active, fresh, fresh, active}, 1},
		{"else the one whose request takes longest", []http.ConnState{active, active}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inner := newPipes()
			ln := newCrowd(inner, len(tt.states))
			var clients, servers []net.Conn
			accept := func() {
				t.Helper()
				clients = append(clients, inner.dial())
				c, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				servers = append(servers, c)
			}
			for _, state := range tt.states {
				accept()
				ln.changed(servers[len(servers)-1], state)
			}
			accept()
			for i, c := range servers {
				_ = c.SetDeadline(time.Unix(0, 1)) // long over
				if _, err := c.Read(nil); errors.Is(err, io.ErrClosedPipe) != (i == tt.gone) {
					t.Errorf("connection %d: %v, and %d was to go", i, err, tt.gone)
				}
			}
			for range 2 { // a second Close frees no second place
				_ = servers[len(servers)-1].Close()
			}
			if n := len(ln.open); n != len(tt.states)-1 {
				t.Errorf("%d places are taken, want %d", n, len(tt.states)-1)
			}
			for _, c := range clients {
				c.Close()
			}
		})
	}
}

func TestAHugeHeaderIsRefused(t *testing.T) {
	s := serve(t, Config{}, &fake{})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, "GET /live HTTP/1.1\r\nHost: localhost\r\nX-A: "+string(make([]byte, 2*maxHeader)))
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge && res.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s", res.Status)
	}
}
