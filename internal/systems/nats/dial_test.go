package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/flowd-io/flowd/internal/testing/servertest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// The client connects to each kind of address, checks the server's certificate, and gets messages unchanged.
func TestEveryKindOfAddress(t *testing.T) {
	ca, conf := kafkatest.Authority(t)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	serverTLS := &tls.Config{Certificates: conf.Certificates, MinVersion: tls.VersionTLS12}
	ports, err := daemon.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	web := func(port string, secure bool) server.WebsocketOpts {
		n, _ := strconv.Atoi(port)
		o := server.WebsocketOpts{Host: "127.0.0.1", Port: n, NoTLS: !secure}
		if secure {
			o.TLSConfig = serverTLS
		}
		return o
	}
	plain := natstest.Start(t, func(o *server.Options) { o.Websocket = web(ports[0], false) })
	secured := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout, o.Websocket = serverTLS, 60, web(ports[1], true)
	}, nats.Secure(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
	hostPort := func(s *natstest.Server) string { return s.URL[strings.LastIndex(s.URL, "/")+1:] }
	trusts := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		url   string
		tls   *tls.Config
		wrong string // "": nothing
	}{
		{hostPort(plain), nil, ""},
		{"nats://" + hostPort(plain), nil, ""},
		{"ws://127.0.0.1:" + ports[0], nil, ""},
		{"nats://" + hostPort(secured), trusts, ""},
		{"tls://" + hostPort(secured), trusts, ""},
		{"wss://127.0.0.1:" + ports[1], trusts, ""},
		{"nats://127.0.0.1:1," + hostPort(plain), nil, ""},
		{"nats://" + hostPort(secured), nil, "unknown authority"},
		{"tls://" + hostPort(secured), nil, "unknown authority"},
		{"wss://127.0.0.1:" + ports[1], nil, "unknown authority"},
		{"tls://" + hostPort(plain), trusts, "secure connection not available"},
		{"wss://127.0.0.1:" + ports[0], trusts, "tls"},
	} {
		to := Target{URL: c.url, TLS: c.tls}
		nc, err := to.Connect(nats.Timeout(time.Minute))
		if err != nil || c.wrong != "" {
			if err == nil || c.wrong == "" || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", c.url, err, c.wrong)
			}
			continue
		}
		t.Cleanup(nc.Close)
		sub, err := nc.SubscribeSync("a")
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 900<<10)
		for _, text := range []string{"", "small", large} {
			if err := nc.Publish("a", []byte(text)); err != nil {
				t.Fatal(err)
			}
			if m, err := sub.NextMsg(time.Minute); err != nil || string(m.Data) != text {
				t.Errorf("%s: a message of %d bytes was changed: %v", c.url, len(text), err)
			}
		}
	}
}

// The certificate of a cluster member that is known only by its IP address must have the name of the cluster.
func TestServerName(t *testing.T) {
	d := &dialer{known: map[string]bool{"nats.example.com": true, "10.0.0.9": true}}
	for _, c := range [][2]string{{"10.0.0.1:4222", "10.0.0.1"}, {"nats.example.com:4222", "nats.example.com"},
		{"10.0.0.1:4222", "nats.example.com"}, {"10.0.0.9:4222", "10.0.0.9"}} {
		if got := d.serverName(c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// Somebody on the network could have inserted data before TLS, so it is not accepted.
func TestNothingComesBetweenTheFirstLineAndTLS(t *testing.T) {
	to := Target{URL: servertest.Serve(t, func(c net.Conn) {
		_, _ = c.Write([]byte(`INFO {"tls_required":true}` + "\r\nPING\r\n"))
		_, _ = io.Copy(io.Discard, c)
	})}
	if _, err := to.Connect(nats.Timeout(time.Minute)); !errors.Is(err, nats.ErrTLS) ||
		!strings.Contains(err.Error(), "between its first line and TLS") {
		t.Error(err)
	}
}
