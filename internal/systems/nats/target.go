// Package nats is how flowd connects to NATS servers, its own ones included: see [Target].
// Those that run in this process are in package embed.
package nats

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// Target is how to reach a server.
type Target struct {
	URL            string // HOST:PORT, nats://…, tls://…; several with commas between
	User, Password string
	Token          string
	NKey           string      // file with the seed of an NKey
	Credentials    string      // file with a JWT and its seed
	TLS            *tls.Config // nil: as the address says
}

// urls are the addresses with a scheme. secure: TLS is wanted; web: they are of WebSockets, of which the dialer makes the
// TLS, so that the client sees none.
func (t *Target) urls() (text string, secure, web bool) {
	var all []string
	secure = t.TLS != nil
	for one := range strings.SplitSeq(t.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if u, err := url.Parse(one); err == nil {
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
				one = u.String()
			}
		}
		all = append(all, one)
	}
	return strings.Join(all, ","), secure, web
}

// String is the address without a password that is in it.
func (t *Target) String() string {
	all := strings.Split(t.URL, ",")
	for i, one := range all {
		scheme, rest, ok := strings.Cut(one, "://")
		if !ok {
			scheme, rest = "", one
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

// Connect connects with these credentials. The files of credentials are read again at
// each attempt. An error does not show the address.
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
	if _, bad := errors.AsType[*url.Error](err); bad { // whose text has the address
		err = errors.New("it is not a valid address")
	}
	return nc, err
}
