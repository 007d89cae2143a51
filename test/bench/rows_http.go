package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

var httpRows = []row{
	{
		name: "http", does: "HTTP POST → drop, one message per request, 32 connections at full speed",
		data: events, run: runHTTP(32, sink),
		contestants: []contestant{
			inFlowd("http"), theLimit("net/http echo", "http-echo $listen"), inBenthos("http"),
		},
		goals: []goal{{atLeast: 40}, {than: "net/http echo", atLeast: 0.77}, {than: "benthos", atLeast: 2},
			{metric: p99, atMost: 5}},
	},
	{
		name: "latency-reply", does: "HTTP POST with the payload as reply, open loop at 20 % load", data: events,
		metric: p99, run: runHTTP(64, reply), open: true,
		contestants: []contestant{
			inFlowd("reply"), theLimit("net/http echo", "http-echo $listen"), inBenthos("reply"),
		},
		goals: []goal{{atMost: 5}},
	},
	{
		name: "latency-http", does: "HTTP → HTTP, answered once the second server has answered, open loop at 20 % load",
		data: events, metric: p99, run: runHTTP(64, relayed), open: true,
		contestants: []contestant{
			inFlowd("relay"), theLimit("net/http relay", "http-relay $listen $target"), inBenthos("relay"),
		},
		goals: []goal{{atMost: 5}},
	},
}

// serverKind says what a contestant does with a request.
type serverKind int

const (
	sink    serverKind = iota // drops the message
	reply                     // answers with the message
	relayed                   // sends the message to another server
)

// runHTTP is the runner of rows whose contestants are servers. It sends each of them n
// messages over conns connections.
func runHTTP(conns int, to serverKind) runner {
	return func(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
		var got atomic.Int64 // messages that the other server received
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				if _, err := idOf(body); err == nil {
					got.Add(1)
				}
			}
		}))
		defer other.Close()
		address, err := freeAddress()
		if err != nil {
			return s, err
		}
		vars := map[string]string{"listen": address, "target": other.Listener.Addr().String()}
		p, err := w.start(c.command, vars, nil, nil)
		if err != nil {
			return s, err
		}
		defer p.kill() // after an error
		if err := p.waitUntilListening(address); err != nil {
			return s, err
		}
		warm := 0
		if w.cold {
			warm = n / 10
		}
		var dropped error
		all, took, err := c.request(address, n, min(conns, n), func(cl *client, i int) error {
			if w.cold && i == warm {
				dropped = dropPageCache()
			}
			cl.body = r.data.line(cl.body[:0], i)
			answer, err := cl.post(cl.body)
			if err == nil && to == reply && !bytes.Equal(answer, cl.body) {
				err = fmt.Errorf("sent %s, got %s", cl.body, answer)
			}
			return err
		})
		if err := errors.Join(err, dropped); err != nil {
			return s, err
		}
		used, err := p.stop()
		if err != nil {
			return s, err
		}
		s = used.sample(r.data, n, took)
		s.Load = c.load
		s.quantiles(all[warm:])
		if got := int(got.Load()); to == relayed && got != n {
			return s, fmt.Errorf("%d of %d messages arrived", got, n)
		}
		if c.isFlowd() { // flowd also reports what it has delivered
			return s, counted(output{n: n, stderr: used.stderr, flowd: true})
		}
		return s, nil
	}
}

// dropPageCache makes the kernel forget the contents of files, as it does when memory is short.
func dropPageCache() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0) }

// waitUntilListening waits until a server accepts connections.
func (p *process) waitUntilListening(address string) error {
	return p.waitUntil(func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	}, "does not listen")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// httpEcho listens on args[0] and answers each request with its body.
func httpEcho(args []string) error {
	return serve(args[0], func(w http.ResponseWriter, body []byte) error {
		_, err := w.Write(body)
		return err
	})
}

// httpRelay listens on args[0] and sends each request to args[1].
func httpRelay(args []string) error {
	send := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}
	url := "http://" + args[1] + "/events"
	return serve(args[0], func(_ http.ResponseWriter, body []byte) error {
		res, err := send.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		if res.StatusCode >= 300 {
			err = errors.Join(err, errors.New(res.Status))
		}
		return errors.Join(err, res.Body.Close())
	})
}

// serve answers requests until the process is interrupted.
func serve(address string, handle func(w http.ResponseWriter, body []byte) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = handle(w, body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		})}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
