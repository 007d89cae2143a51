package embed

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server of this process. JetStream never writes to a stream again once its
// disk was full or has failed, and does not answer those who publish to it. So the server is
// then stopped, which its clients notice, and the first of them that connects from this
// process when the disk can be written again starts it anew. The same happens when its folder
// was renamed or deleted: see [Server.Keeps].
//
// Its methods may be called from any goroutine.
type Server struct {
	options *server.Options
	take    func() (*os.File, error) // locks the folder; nil: the caller has

	mu      sync.Mutex // guards the fields below, and is held while the server starts or stops
	lock    *files.Held
	running *server.Server
	failed  error // why it does not run
	closed  bool
}

// Start starts a server. take makes its folder, locks it, and returns the lock, which is closed
// when the server stops; nil leaves that to the caller.
func Start(o *server.Options, take func() (*os.File, error)) (*Server, error) {
	s := &Server{options: o, take: take}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return nil, err
	}
	if a, ok := s.running.Addr().(*net.TCPAddr); ok {
		s.options.Port = a.Port // where others look for it, also later
	}
	return s, nil
}

// start starts the server; s.mu is held.
func (s *Server) start() error {
	if err := s.own(); err != nil {
		return err
	}
	var now *server.Server
	now, err := run(s.options.Clone(), func(err error) { s.fails(now, err) })
	if err != nil {
		s.disown()
		return err
	}
	s.running, s.failed = now, nil
	return nil
}

// fails stops the server.
func (s *Server) fails(who *server.Server, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if who != s.running || s.failed != nil || s.closed {
		return
	}
	s.failed = err
	stop(s.running)
	s.disown()
}

// own locks the folder.
func (s *Server) own() error {
	if s.take == nil {
		return nil
	}
	f, err := s.take()
	if err == nil {
		s.lock, err = files.Hold(f, f.Name())
	}
	return err
}

func (s *Server) disown() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// Keeps is an error if the folder was renamed or deleted, so that nobody will find what streams
// have confirmed. The server is stopped then.
func (s *Server) Keeps() error {
	s.mu.Lock()
	lock, running := s.lock, s.running
	s.mu.Unlock()
	if lock == nil {
		return nil
	}
	if _, named := lock.Named(); named {
		return nil
	}
	err := fmt.Errorf("its folder %s was renamed or deleted", s.options.StoreDir)
	s.fails(running, err)
	return err
}

// InProcessConn connects to the server.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the server of this process is stopped")
	}
	if s.failed != nil {
		if err := s.restart(); err != nil {
			return nil, err
		}
	}
	return s.running.InProcessConn()
}

// restart starts the server anew if its disk can be written.
func (s *Server) restart() error {
	err := os.MkdirAll(s.options.StoreDir, 0o700)
	if err == nil {
		err = writable(s.options.StoreDir)
	}
	if err == nil {
		err = s.start()
	}
	if err == nil {
		return nil
	}
	remedy, yes := files.Outage(err)
	if !yes {
		remedy = "check its folder " + s.options.StoreDir
	}
	return fmt.Errorf("the server of this process has stopped, since it could not write: %w; it starts again when it can: "+
		"%w (%s)", s.failed, err, remedy)
}

// writable tries to write as much to a folder as a stream needs to go on.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, "try-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Addr is where other processes find the server; nil: nowhere.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running.Addr()
}

// Stop stops the server, and waits until it has written what it keeps.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	stop(s.running)
	s.disown()
}
