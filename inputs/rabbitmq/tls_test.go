package rabbitmq

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/queue/amqp"
	"github.com/flowd-io/flowd/internal/testing/brokertest"
)

// secured starts a TLS proxy in front of a broker. Its certificate is for 127.0.0.1 and example.com, and stands in the file ca.
func secured(t *testing.T, to string) (address, ca string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil) // for its certificate
	defer srv.Close()
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: srv.TLS.Certificates,
		MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // until either side ends
				to.Close()
				from.Close()
			}
			go pass(up, c)
			go pass(c, up)
		}
	}()
	return l.Addr().String(), ca
}

func TestTLS(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	q := b.Queue(t, nil)
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	plain := u.Host
	addr, ca := secured(t, plain)
	_, port, _ := net.SplitHostPort(addr)
	tests := []struct {
		name, host, tls string
		class           engine.Class
		want            string
	}{
		{"a certificate that is trusted", addr, fmt.Sprintf(`{"ca": %q}`, ca), "", ""},
		{"a certificate that is not trusted", addr, `{}`, engine.Auth, "name the authority in `tls: {ca: FILE}`"},
		{"a certificate of another name", "localhost:" + port, fmt.Sprintf(`{"ca": %q}`, ca), engine.Auth,
			"set `tls: {server_name: …}`"},
		{"the name of the certificate is configured", "localhost:" + port, fmt.Sprintf(`{"ca": %q, "server_name": "example.com"}`, ca), "",
			""},
		{"no verification", addr, `{"skip_verify": true}`, "", ""},
		{"no TLS there", plain, `{}`, engine.Transient, "the server does not use TLS on this port (write amqp://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := *u
			at.Scheme, at.Host = "amqps", tt.host
			in := enginetest.New(t, engine.Inputs,
				fmt.Sprintf(`{"rabbitmq": {"url": %q, "queue": %q, "tls": %s}}`, at.String(), q, tt.tls)).(*input)
			defer in.Close(t.Context())
			err := in.Open(t.Context())
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				b.Send(t, q, "a")
				settle(t, engine.Delivered, nil, read(t, in, 1)...)
				return
			}
			if err == nil || amqp.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s: %s", err, tt.class, tt.want)
			}
		})
	}
}
