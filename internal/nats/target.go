// Package nats is how flowd connects to NATS servers, its own ones included: see [Target].
// Those that run in this process are in package embed.
package nats

import (
	"crypto/tls"
	"errors"
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

// urls are the addresses with a scheme.
func (t *Target) urls() string {
	var all []string
	for one := range strings.SplitSeq(t.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		all = append(all, one)
	}
	return strings.Join(all, ",")
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
	if t.TLS != nil {
		options = append(options, nats.Secure(t.TLS))
	}
	// Without a handler, the library writes to stderr.
	options = append([]nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, options...)
	nc, err := nats.Connect(t.urls(), options...)
	if _, bad := errors.AsType[*url.Error](err); bad { // whose text has the address
		err = errors.New("it is not a valid address")
	}
	return nc, err
}
