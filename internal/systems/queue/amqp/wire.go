package amqp

import (
	"net"
	"sync"
	"time"
)

const (
	wireBuffer   = 64 << 10         // bytes that are held back at most
	writeTimeout = 30 * time.Second // of one write to the network
)

// wire is a network connection that can hold writes back for a moment, so that
// hundreds of small frames leave together: the client writes each on its own.
//
// A write has a deadline. Without it, one to a broker that does not read would
// hold the channel's lock for ever, for which the client's own shutdown waits.
type wire struct {
	net.Conn
	deliveries deliveries

	mu   sync.Mutex // guards the fields below, and the order of writes
	buf  []byte
	held int // holds that were not released
	err  error
}

// Write writes p, or keeps it while the wire is held.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if w.held == 0 && len(w.buf) == 0 {
		return len(p), w.send(p)
	}
	w.buf = append(w.buf, p...)
	if w.held == 0 || len(w.buf) >= wireBuffer {
		return len(p), w.flush()
	}
	return len(p), nil
}

func (w *wire) hold() {
	w.mu.Lock()
	w.held++
	w.mu.Unlock()
}

// release releases what was held. Its error is also that of the next write, and ends the
// connection.
func (w *wire) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held--; w.err != nil {
		return w.err
	}
	return w.flush()
}

// flush sends what is held; w.mu is held.
func (w *wire) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.send(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > 4*wireBuffer { // of one large message
		w.buf = nil
	}
	return err
}

// send writes to the network; w.mu is held.
func (w *wire) send(p []byte) error {
	_ = w.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // of a connection that is closed: Write says so
	if _, err := w.Conn.Write(p); err != nil {
		w.err = err
		w.Conn.Close() // the reader finds out
	}
	return w.err
}
