// Package nats connects to NATS servers: see [Target]. Package embed runs servers in this process.
package nats

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// Target has the addresses of one server or cluster, and the credentials for it.
type Target struct {
	URL            string // HOST:PORT, nats://…, tls://…, ws://… or wss://…; several are separated by commas
	User, Password string
	Token          string
	NKey           string      // file with the seed of an NKey
	Credentials    string      // file with a JWT and its seed
	TLS            *tls.Config // nil: TLS if the URL or the server asks for it
}

// urls returns the addresses with a scheme, separated by commas. secure means that TLS must be used, and web that the
// addresses are WebSockets. Since the dialer makes the TLS handshake of a WebSocket, wss:// becomes ws:// for the client
// library.
func (t *Target) urls() (text string, secure, web bool) {
	var all []string
	secure = t.TLS != nil
	for address := range strings.SplitSeq(t.URL, ",") {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		if u, err := url.Parse(address); err == nil {
			switch u.Scheme {
			case "tls":
				secure = true
			case "ws":
				web = true
			case "wss":
				secure, web = true, true
				if u.Scheme = "ws"; u.Port() == "" {
					u.Host = net.JoinHostPort(u.Hostname(), "443")
				}
				address = u.String()
			}
		}
		all = append(all, address)
	}
	return strings.Join(all, ","), secure, web
}

// String returns the addresses without the credentials in them.
func (t *Target) String() string {
	all := strings.Split(t.URL, ",")
	for i, address := range all {
		scheme, rest, ok := strings.Cut(address, "://")
		if !ok {
			scheme, rest = "", address
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = "***" + rest[at:]
		}
		if all[i] = rest; ok {
			all[i] = scheme + "://" + rest
		}
	}
	return strings.Join(all, ",")
}

// Connect connects to a server. The client library reads the files of credentials again for each reconnect. The error does
// not contain the URL, since that may have a password.
func (t *Target) Connect(options ...nats.Option) (*nats.Conn, error) {
	if t.User != "" {
		options = append(options, nats.UserInfo(t.User, t.Password))
	}
	if t.Token != "" {
		options = append(options, nats.Token(t.Token))
	}
	if t.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(t.NKey)
		if err != nil {
			return nil, err
		}
		options = append(options, o)
	}
	if t.Credentials != "" {
		options = append(options, nats.UserCredentials(t.Credentials))
	}
	urls, secure, web := t.urls()
	if secure && !web {
		options = append(options, nats.Secure(t.TLS))
	}
	// Without a handler, the library writes to stderr.
	options = append([]nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, options...)
	nc, err := nats.Connect(urls, append(options, t.dialer(urls, secure, web))...)
	if _, bad := errors.AsType[*url.Error](err); bad { // its text contains the URL
		err = errors.New("the address is not valid")
	}
	return nc, err
}
