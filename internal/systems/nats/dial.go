package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/nats-io/nats.go"
)

// dialer makes the connections of the client library, including TLS, so that the data of the server can be checked. It is safe
// for concurrent use.
type dialer struct {
	conf    *tls.Config
	timeout time.Duration   // for the connection and the TLS handshake
	secure  bool            // use TLS; otherwise, use it only if the server requires it
	web     bool            // a WebSocket: the client begins with an HTTP request
	known   map[string]bool // the hosts in the configured addresses

	mu   sync.Mutex // guards the field below
	last string     // the host name that was used last
}

// dialer returns an option that installs a dialer. It must be the last option.
func (t *Target) dialer(urls string, secure, web bool) nats.Option {
	d := &dialer{conf: t.TLS, secure: secure, web: web, known: map[string]bool{}}
	if d.conf == nil {
		d.conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for address := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(address); err == nil {
			d.known[u.Hostname()] = true
		}
	}
	return func(o *nats.Options) error {
		d.timeout = o.Timeout
		o.CustomDialer, o.SkipHostLookup = d, true
		return nil
	}
}

// SkipTLSHandshake tells the client library that the dialer has made the TLS handshake.
func (*dialer) SkipTLSHandshake() bool { return true }

// Dial implements [nats.CustomDialer].
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	c, err := d.secureConn(ctx, raw, address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

// secureConn makes the TLS handshake if necessary, and adds the check of what the server sends.
func (d *dialer) secureConn(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	var greeting []byte // what was read from the server
	if !d.web {
		var err error
		if greeting, err = readGreeting(raw); err != nil {
			return nil, err
		}
	}
	c := raw
	if d.needsTLS(greeting) {
		if end := bytes.IndexByte(greeting, '\n'); end+1 < len(greeting) {
			return nil, fmt.Errorf("%w: the server has sent data between its first line and TLS", nats.ErrTLS)
		}
		conf := d.conf.Clone()
		if conf.ServerName == "" {
			conf.ServerName = d.serverName(address)
		}
		client := tls.Client(raw, conf)
		if err := client.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", nats.ErrTLS, err)
		}
		c = client
	}
	if d.web {
		return bounds.Conn(c, webSocket()), nil
	}
	return bounds.Conn(&replayed{Conn: c, data: greeting}, newMessages()), nil
}

// readGreeting reads the first line of a server, and possibly some data after it.
func readGreeting(raw net.Conn) (said []byte, err error) {
	for p := make([]byte, 4<<10); bytes.IndexByte(said, '\n') < 0; {
		n, err := raw.Read(p)
		if said = append(said, p[:n]...); len(said) > longestInfo {
			return nil, fmt.Errorf("%w: its first line has over %d bytes", errNotNATS, longestInfo)
		}
		if err != nil && bytes.IndexByte(said, '\n') < 0 {
			if errors.Is(err, io.EOF) && len(said) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	if !bytes.HasPrefix(bytes.ToUpper(said[:min(len(said), 5)]), []byte("INFO ")) {
		return nil, fmt.Errorf("%w: it begins with %.20q", errNotNATS, said)
	}
	return said, nil
}

// needsTLS reports whether the TLS handshake comes next, after the server's first line. If TLS is configured and the server
// does not offer it, the client library returns an error.
func (d *dialer) needsTLS(greeting []byte) bool {
	if d.web {
		return d.secure
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	line, _, _ := bytes.Cut(greeting[len("INFO "):], []byte("\n"))
	_ = json.Unmarshal(line, &info) // the client library reports a line that is not valid
	return info.Required || d.secure && info.Available
}

// serverName returns the name that the server's certificate must have. A member of a cluster may be known only by the IP
// address that another member has announced. Its certificate must have the host name that was used last.
func (d *dialer) serverName(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[host] || net.ParseIP(host) == nil {
		d.last = host
		return host
	}
	if d.last != "" {
		return d.last
	}
	return host
}

// replayed is a connection whose first data was already read.
type replayed struct {
	net.Conn
	data []byte
}

// Read returns the data that was already read, and then reads from the connection.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.data) > 0 {
		n := copy(p, r.data)
		r.data = r.data[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
