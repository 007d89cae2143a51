// Package embed runs NATS servers in this process. [Start] starts any server, and [Use] one that components share. [Lock]
// reserves a folder for one server.
package embed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// run starts a server, and waits until it accepts connections. If JetStream can't write to its disk, it disables the stream
// for good. run then calls fails in another goroutine, possibly several times, and possibly before it returns.
func run(o *server.Options, fails func(err error)) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	fatal := make(chan error, 1)
	s.SetLogger(quiet{fatal, fails}, false, false)
	go s.Start()
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(10 * time.Second) }()
	select {
	case err = <-fatal: // such as a port that is in use
	case ok := <-ready:
		if ok {
			return s, nil
		}
		err = errors.New("the NATS server of this process did not start within 10s")
	}
	stop(s)
	return nil, err
}

// stop stops a server, and waits until it has written its data.
func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// quiet is a logger of the server that discards everything except why it can't start and why JetStream has failed. The users
// of the server log what matters.
type quiet struct {
	fatal chan<- error
	fails func(err error)
}

// Fatalf is called if the server can't start.
func (q quiet) Fatalf(format string, v ...any) {
	select {
	case q.fatal <- errorIn(format, v):
	default:
	}
}

// givenUp are parts of log lines after which a stream or all of JetStream is disabled.
var givenUp = []string{"ritical write error", "isabling JetStream", "will be DISABLED"}

// Errorf is called while locks of the server are held, so the failure is handled in another goroutine.
func (q quiet) Errorf(format string, v ...any) {
	if slices.ContainsFunc(givenUp, func(part string) bool { return strings.Contains(format, part) }) {
		go q.fails(errorIn(format, v))
	}
}

func (q quiet) Warnf(format string, v ...any) { q.Errorf(format, v...) }
func (quiet) Noticef(string, ...any)          {}
func (quiet) Debugf(string, ...any)           {}
func (quiet) Tracef(string, ...any)           {}

// errorIn returns the error among the arguments of a log line, or the whole line as an error.
func errorIn(format string, v []any) error {
	for _, a := range slices.Backward(v) {
		if cause, ok := a.(error); ok {
			return cause
		}
	}
	return fmt.Errorf(format, v...)
}
