//go:build !no_nats && (!slim || nats)

package wire

import (
	"errors"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
)

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
