package hub

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/systems/nats/embed"
)

// embedded is a NATS server of this process.
type embedded struct {
	*embed.Server
	store  *store
	secret string // in the subjects for storing jobs
}

// startServer starts a NATS server with JetStream in this process, at c.Listen. owner names the process to others.
func startServer(c *wire.Config, owner string, log *slog.Logger) (*embedded, error) {
	host, portText, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("%q is not a valid port", portText)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{
		ServerName: "flowd-" + wire.NewID(), Host: host, Port: port, NoLog: true, NoSigs: true,
		MaxPayload: int32(c.MaxPayload), PingInterval: time.Second, MaxPingsOut: 2, AuthTimeout: 3, TLSTimeout: 3,
		MaxConn:   mostConnections,
		JetStream: true, JetStreamMaxMemory: 1 << 40, JetStreamMaxStore: 1 << 40, // pipelines limit what is in flight
		CustomClientAuthentication: &gate{token: c.Token.Reveal()},
	}
	o.MaxPending, o.WriteDeadline = max(server.MAX_PENDING_SIZE, 16*int64(c.MaxPayload)), time.Minute // for slow links
	if c.TLS.Cert != "" {
		shown := tlsconf.Server{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.CA}
		if o.TLSConfig, err = shown.Config(log); err != nil {
			return nil, err
		}
	}
	e := &embedded{secret: wire.NewID()}
	if e.store, err = openStore(c, owner); err != nil {
		return nil, err
	}
	o.StoreDir = e.store.dir
	if e.Server, err = embed.Start(o, nil); err != nil { // the lock on the store is held
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *embedded) stop() {
	if e.Server != nil {
		e.Server.Stop()
	}
	e.store.close()
}

// voiceName begins the name of the connection that answers clients.
const voiceName = "flowd voice"

// gate admits clients. This process may do everything, but its answers go only to inboxes. Workers may only do what
// workers do, each under its own name.
type gate struct{ token string }

// Check reports whether a client may connect, and as whom.
func (g *gate) Check(c server.ClientAuthentication) bool {
	name := c.GetOpts().Name
	if a := c.RemoteAddress(); a != nil && a.Network() == "pipe" { // this process
		if strings.HasPrefix(name, voiceName) {
			c.RegisterUser(&server.User{Username: "voice", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{wire.Inbox("*") + ".>"}},
				Subscribe: &server.SubjectPermission{Deny: []string{">"}},
			}})
		}
		return true
	}
	if g.token != "" && subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(g.token)) != 1 {
		return false
	}
	id := name[strings.LastIndexByte(name, ' ')+1:]
	if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
		id = "none" // from a program other than flowd
	}
	c.RegisterUser(&server.User{Username: "worker", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			wire.JoinOf("*", id), wire.BeatOf("*", id), wire.ToHub("*", "*", id), wire.ListOf(id),
			"$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.ACK.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{wire.Inbox(id) + ".>", wire.DownOf("*")}},
	}})
	return true
}

const (
	idLength        = 16 // of wire.NewID
	mostConnections = 10_000
)
