package hub

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/flowd-io/flowd/internal/cluster"
)

// embedded is a NATS server of this process.
type embedded struct {
	*server.Server
	dir string // to be removed
}

// startServer makes this process a NATS server with JetStream, at c.Listen.
func startServer(c *cluster.Config) (*embedded, error) {
	host, portText, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("%q is no port", portText)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{
		ServerName: "flowd-" + cluster.NewID(), Host: host, Port: port, NoLog: true, NoSigs: true,
		MaxPayload: int32(c.MaxPayload), PingInterval: time.Second, MaxPingsOut: 2, AuthTimeout: 3, TLSTimeout: 3, MaxConn: 10_000,
		JetStream: true, JetStreamMaxMemory: 1 << 40, JetStreamMaxStore: 1 << 40, // what is under way is limited by each pipeline
		CustomClientAuthentication: &gate{token: c.Token.Reveal()},
	}
	o.MaxPending, o.WriteDeadline = max(server.MAX_PENDING_SIZE, 16*int64(c.MaxPayload)), time.Minute // of a worker over a slow link
	if c.TLS.Cert != "" {
		if o.TLSConfig, err = c.TLS.Config(); err != nil {
			return nil, err
		}
		if o.TLSConfig.ClientCAs = o.TLSConfig.RootCAs; o.TLSConfig.ClientCAs != nil {
			o.TLSConfig.ClientAuth = tls.RequireAndVerifyClientCert
		}
		o.TLSConfig.ServerName = ""
	}
	e := &embedded{}
	if o.StoreDir = filepath.Join(c.Dir, "flowd-jobs"); c.Dir == "" || c.Store != "file" {
		if e.dir, err = os.MkdirTemp("", "flowd-cluster-"); err != nil {
			return nil, err
		}
		o.StoreDir = e.dir
	} else if err := os.RemoveAll(o.StoreDir); err != nil { // of a run before
		return nil, err
	} else if err := os.MkdirAll(o.StoreDir, 0o700); err != nil {
		return nil, err
	}
	if err := e.start(o); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *embedded) start(o *server.Options) (err error) {
	// The server ends the process where it can't listen: it is tried before.
	if o.Port > 0 {
		l, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
		if err != nil {
			return err
		}
		l.Close()
	}
	if e.Server, err = server.NewServer(o); err != nil {
		return err
	}
	e.Server.SetLogger(quiet{}, false, false)
	go e.Server.Start()
	if !e.Server.ReadyForConnections(10 * time.Second) {
		return errors.New("the server of the cluster did not start within 10s")
	}
	return nil
}

func (e *embedded) stop() {
	if e.Server != nil {
		e.Server.Shutdown()
		e.Server.WaitForShutdown()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// quiet drops what the server logs: the hub's own log says what matters.
type quiet struct{}

func (quiet) Noticef(string, ...any) {}
func (quiet) Warnf(string, ...any)   {}
func (quiet) Fatalf(string, ...any)  {}
func (quiet) Errorf(string, ...any)  {}
func (quiet) Debugf(string, ...any)  {}
func (quiet) Tracef(string, ...any)  {}

// gate lets clients in: this process may do all, workers only what workers do.
type gate struct{ token string }

// Check says whether a client may connect, and as whom.
func (g *gate) Check(c server.ClientAuthentication) bool {
	if a := c.RemoteAddress(); a != nil && a.Network() == "pipe" {
		return true // this process
	}
	if g.token != "" && subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(g.token)) != 1 {
		return false
	}
	name := c.GetOpts().Name
	id := name[strings.LastIndexByte(name, ' ')+1:]
	if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
		id = "none" // of a program that is no flowd
	}
	c.RegisterUser(&server.User{Username: "worker", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			cluster.JoinOf("*"), cluster.BeatOf("*"), cluster.ToHub("*", "*"), cluster.List,
			"$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.ACK.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{cluster.Inbox(id) + ".>", cluster.DownOf("*")}},
	}})
	return true
}

const idLength = 16 // of cluster.NewID
