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

// Server is a NATS server in this process. If the disk is full or fails, JetStream disables the stream for good and no longer
// answers its publishers. Server then stops, which its clients notice. It starts again when a client of this process connects
// and the disk is writable. The same happens if the folder is renamed or deleted: see [Server.CheckFolder].
//
// Its methods may be called from any goroutine.
type Server struct {
	options *server.Options
	acquire func() (*os.File, error) // locks the folder; nil: the caller has locked it

	mu      sync.Mutex // guards the fields below, and is held while the server starts or stops
	lock    *files.Held
	running *server.Server
	failed  error // why it does not run; nil: it runs
	closed  bool  // Stop was called
}

// Start starts a server. acquire creates and locks its folder, and returns the lock, which the server closes when it stops. If
// acquire is nil, the caller must have locked the folder.
func Start(o *server.Options, acquire func() (*os.File, error)) (*Server, error) {
	s := &Server{options: o, acquire: acquire}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return nil, err
	}
	if a, ok := s.running.Addr().(*net.TCPAddr); ok {
		s.options.Port = a.Port // a restart must use the same port
	}
	return s, nil
}

// start starts the server. s.mu must be held.
func (s *Server) start() error {
	if err := s.lockFolder(); err != nil {
		return err
	}
	var started *server.Server
	started, err := run(s.options.Clone(), func(err error) {
		s.mu.Lock() // waits until start has returned
		defer s.mu.Unlock()
		s.stopFailed(started, err)
	})
	if err != nil {
		s.unlockFolder()
		return err
	}
	s.running, s.failed = started, nil
	return nil
}

// stopFailed stops the server because of err, if it is still the running one. s.mu must be held.
func (s *Server) stopFailed(failed *server.Server, err error) {
	if failed == nil || failed != s.running || s.failed != nil || s.closed {
		return
	}
	s.failed = err
	stop(s.running)
	s.unlockFolder()
}

func (s *Server) lockFolder() error {
	if s.acquire == nil {
		return nil
	}
	f, err := s.acquire()
	if err == nil {
		s.lock, err = files.Hold(f, f.Name())
	}
	return err
}

func (s *Server) unlockFolder() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// CheckFolder returns an error and stops the server if the folder was renamed or deleted: messages that streams have
// confirmed since then would be lost.
func (s *Server) CheckFolder() error {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopFailed(running, err)
	return err
}

// InProcessConn connects to the server. It first restarts a server that has stopped because of its disk.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the NATS server of this process is stopped")
	}
	if s.failed != nil {
		if err := s.restart(); err != nil {
			return nil, err
		}
	}
	return s.running.InProcessConn()
}

// restart starts the server if its disk is writable. s.mu must be held.
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
	remedy, known := files.Outage(err)
	if !known {
		remedy = "check its folder " + s.options.StoreDir
	}
	return fmt.Errorf("the NATS server of this process has stopped because it could not write: %w; it can't start again: "+
		"%w (%s)", s.failed, err, remedy)
}

// writable returns an error if a folder does not have enough space for a stream to continue.
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

// Addr returns the address for other processes, or nil if the server does not listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running.Addr()
}

// Stop stops the server, and waits until it has written its data.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	stop(s.running)
	s.unlockFolder()
}
