// Package embed runs NATS servers in this process: [Run] any, [Use] one that components
// share. [Lock] keeps a folder for one server.
package embed

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Run starts a server, and waits until it accepts connections.
func Run(o *server.Options) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	fatal := make(chan error, 1)
	s.SetLogger(quiet{fatal}, false, false)
	go s.Start()
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(10 * time.Second) }()
	select {
	case err = <-fatal: // it can't listen
	case ok := <-ready:
		if ok {
			return s, nil
		}
		err = errors.New("the NATS server of this process did not start within 10s")
	}
	Stop(s)
	return nil, err
}

// Stop stops a server, and waits until it has written what it keeps.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// quiet drops what the server logs, except why it can't start: the log of those who use
// it says what matters.
type quiet struct{ fatal chan<- error }

// Fatalf takes the error alone, which says it all.
func (q quiet) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	for _, a := range v {
		if cause, ok := a.(error); ok {
			err = cause
		}
	}
	select {
	case q.fatal <- err:
	default:
	}
}
func (quiet) Noticef(string, ...any) {}
func (quiet) Warnf(string, ...any)   {}
func (quiet) Errorf(string, ...any)  {}
func (quiet) Debugf(string, ...any)  {}
func (quiet) Tracef(string, ...any)  {}
