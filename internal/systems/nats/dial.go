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

// dialer connects in place of the client, up to and including TLS, so that what a server sends can be checked. It may be
// used by several goroutines.
type dialer struct {
	conf    *tls.Config
	timeout time.Duration // until TLS is there
	secure  bool          // TLS is wanted, otherwise only where the server requires it
	web     bool          // the client speaks HTTP first
	known   map[string]bool

	mu   sync.Mutex // guards the fields below
	last string     // the known host that was reached last
}

// dialer is an option, to be the last one.
func (t *Target) dialer(urls string, secure, web bool) nats.Option {
	d := &dialer{conf: t.TLS, secure: secure, web: web, known: map[string]bool{}}
	if d.conf == nil {
		d.conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for one := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(one); err == nil {
			d.known[u.Hostname()] = true
		}
	}
	return func(o *nats.Options) error {
		d.timeout = o.Timeout
		o.CustomDialer, o.SkipHostLookup = d, true
		return nil
	}
}

// SkipTLSHandshake tells the client that there is nothing left to do.
func (*dialer) SkipTLSHandshake() bool { return true }

// Dial implements [nats.CustomDialer].
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	at, _ := ctx.Deadline()
	_ = raw.SetDeadline(at)
	c, err := d.begin(ctx, raw, address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return c, nil
}

// begin brings a connection to where the client goes on.
func (d *dialer) begin(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	var said []byte // by the server so far
	if !d.web {
		var err error
		if said, err = hello(raw); err != nil {
			return nil, err
		}
	}
	c := raw
	if d.wanted(said) {
		if end := bytes.IndexByte(said, '\n'); end+1 < len(said) {
			return nil, fmt.Errorf("%w: the server says something between its first line and TLS", nats.ErrTLS)
		}
		conf := d.conf.Clone()
		if conf.ServerName == "" {
			conf.ServerName = d.name(address)
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
	return bounds.Conn(&replayed{Conn: c, said: said}, newMessages()), nil
}

// hello reads a first line, which may be followed by others.
func hello(raw net.Conn) (said []byte, err error) {
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

// wanted reports whether TLS comes next, after a server's first line. One that has none to offer is left to the client, which
// refuses it.
func (d *dialer) wanted(said []byte) bool {
	if d.web {
		return d.secure
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	line, _, _ := bytes.Cut(said[len("INFO "):], []byte("\n"))
	_ = json.Unmarshal(line, &info) // the client says what is wrong with it
	return info.Required || d.secure && info.Available
}

// name is the name that a server's certificate has to have. Of one that another has named by its IP address, as members
// of a cluster do, it is that of the other.
func (d *dialer) name(address string) string {
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

// replayed is a connection from which something was read before.
type replayed struct {
	net.Conn
	said []byte
}

// Read reads what was read before first.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.said) > 0 {
		n := copy(p, r.said)
		r.said = r.said[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
