package embed

import (
	"crypto/subtle"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config configures a server that components of this process share.
type Config struct {
	Dir    string // folder of its streams
	Listen string // HOST:PORT for other processes; "": only this process connects
	Token  string // that other processes must present; "": none
	Sync   bool   // each message is on disk before it is confirmed
}

// shared is a server with several users.
type shared struct {
	*Server
	conf  Config
	users int
}

var (
	mu      sync.Mutex             // guards the map, and is held while a server starts or stops
	running = map[string]*shared{} // by folder
)

// Use returns the server of a folder. The first user starts it, and the release of the last user stops it. owner describes this
// process in the errors of other processes that try to use the folder.
func Use(c Config, owner string) (s *Server, release func(), err error) {
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	r := running[c.Dir]
	switch {
	case r == nil:
		if r, err = start(c, owner); err != nil {
			return nil, nil, err
		}
		running[c.Dir] = r
	case r.conf != c:
		return nil, nil, fmt.Errorf("the server in %s runs in this process with other settings (write the same "+
			"`embedded` in all components that use it)", c.Dir)
	}
	r.users++
	return r.Server, sync.OnceFunc(func() { releaseUser(r) }), nil
}

func releaseUser(r *shared) {
	mu.Lock()
	defer mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	delete(running, r.conf.Dir)
	r.Stop()
}

func start(c Config, owner string) (*shared, error) {
	o := &server.Options{ServerName: "flowd", NoLog: true, NoSigs: true, DontListen: c.Listen == "",
		JetStream: true, StoreDir: c.Dir, SyncAlways: c.Sync, SyncInterval: syncInterval,
		CustomClientAuthentication: tokenAuth(c.Token)}
	if c.Listen != "" {
		host, text, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return nil, err
		}
		o.Host = host
		if o.Port, err = strconv.Atoi(text); err != nil || o.Port < 0 || o.Port > 65535 {
			return nil, fmt.Errorf("%q is not a valid port", text)
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	s, err := Start(o, func() (*os.File, error) {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, err
		}
		return Lock(c.Dir, owner)
	})
	if err != nil {
		return nil, err
	}
	return &shared{Server: s, conf: c}, nil
}

// syncInterval is how long a message may wait in the page cache before it is written to the disk.
const syncInterval = time.Second

// tokenAuth admits connections of this process, and those of others that present the token.
type tokenAuth string

// Check reports whether a client may connect.
func (want tokenAuth) Check(c server.ClientAuthentication) bool {
	if a := c.RemoteAddress(); a != nil && a.Network() == "pipe" { // this process
		return true
	}
	return want == "" || subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(want)) == 1
}
