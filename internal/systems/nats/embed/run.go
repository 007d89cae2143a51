// Package embed runs NATS servers in this process: [Start] any, [Use] one that components
// share. [Lock] keeps a folder for one server.
package embed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// run starts a server, and waits until it accepts connections. When JetStream can't write to
// its disk, it gives up the stream for good: fails is then called, from a goroutine of its own,
// maybe more than once.
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
	case err = <-fatal: // it can't listen
	case ok := <-ready:
		if ok {
			return s, nil
		}
		err = errors.New("the NATS server of this process did not start within 10s")
	}
	stop(s)
	return nil, err
}

// stop stops a server, and waits until it has written what it keeps.
func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// quiet drops what the server logs, except why it can't start or has given up: the log of
// those who use it says what matters.
type quiet struct {
	fatal chan<- error
	fails func(err error)
}

// Fatalf takes the error alone, which says it all.
func (q quiet) Fatalf(format string, v ...any) {
	select {
	case q.fatal <- errorIn(format, v):
	default:
	}
}

// givenUp are parts of what the server logs when it has given up a stream, or all.
var givenUp = []string{"ritical write error", "isabling JetStream", "will be DISABLED"}

// Errorf is called with locks of the server held.
func (q quiet) Errorf(format string, v ...any) {
	if slices.ContainsFunc(givenUp, func(part string) bool { return strings.Contains(format, part) }) {
		go q.fails(errorIn(format, v))
	}
}

func (q quiet) Warnf(format string, v ...any) { q.Errorf(format, v...) }
func (quiet) Noticef(string, ...any)          {}
func (quiet) Debugf(string, ...any)           {}
func (quiet) Tracef(string, ...any)           {}

// errorIn is the error that is logged, or the text.
func errorIn(format string, v []any) error {
	for _, a := range slices.Backward(v) {
		if cause, ok := a.(error); ok {
			return cause
		}
	}
	return fmt.Errorf(format, v...)
}
