package wire

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Target is how to reach a hub or a NATS server.
type Target struct {
	URL         string // HOST:PORT, nats://…, tls://…; several with commas between
	Token       string
	Credentials string
	TLS         *tls.Config // nil: as the address says
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

// Conn is a connection, with the id by which it is known: see [Asker].
type Conn struct {
	*nats.Conn
	ID string
}

// Connect connects, and reconnects for ever. A server that can't be reached yet is
// waited for; a token that it refuses is an error.
func (t *Target) Connect(name string, more ...nats.Option) (*Conn, error) {
	id := NewID()
	options := append([]nats.Option{
		nats.Name(name + " " + id), nats.CustomInboxPrefix(Inbox(id)), nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(300*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(5), // over a slow link a large job is before the answer
		nats.Timeout(3 * time.Second),
	}, more...)
	if t.Token != "" {
		options = append(options, nats.Token(t.Token))
	}
	if t.Credentials != "" {
		options = append(options, nats.UserCredentials(t.Credentials))
	}
	if t.TLS != nil {
		options = append(options, nats.Secure(t.TLS))
	}
	nc, err := nats.Connect(t.urls(), options...)
	if _, bad := errors.AsType[*url.Error](err); bad { // whose text has the address
		err = errors.New("it is not a valid address")
	}
	if err != nil {
		return nil, err
	}
	return &Conn{nc, id}, nil
}
