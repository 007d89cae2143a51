//go:build !no_nats && (!slim || nats)

package wire

import (
	"crypto/tls"
	"time"

	client "github.com/flowd-io/flowd/internal/systems/nats"
	"github.com/nats-io/nats.go"
)

// Target is a hub or NATS server to connect to.
type Target struct {
	URL         string // HOST:PORT, nats://… or tls://…; several separated by commas
	Token       string
	Credentials string
	TLS         *tls.Config // nil: as the address says
}

func (t *Target) server() *client.Target {
	return &client.Target{URL: t.URL, Token: t.Token, Credentials: t.Credentials, TLS: t.TLS}
}

// String returns the address without its password.
func (t *Target) String() string { return t.server().String() }

// Conn is a connection with the id that identifies it: see [Asker].
type Conn struct {
	*nats.Conn
	ID string
}

// Connect connects, and reconnects for ever. It waits for an unreachable server. A rejected token is an error.
func (t *Target) Connect(name string, more ...nats.Option) (*Conn, error) {
	id := NewID()
	options := append([]nats.Option{
		nats.Name(name + " " + id), nats.CustomInboxPrefix(Inbox(id)), nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(300*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(5), // on a slow link, a large job delays the answer
		nats.Timeout(3 * time.Second),
	}, more...)
	nc, err := t.server().Connect(options...)
	if err != nil {
		return nil, err
	}
	return &Conn{nc, id}, nil
}
