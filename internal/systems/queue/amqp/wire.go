package amqp

import (
	"net"
	"sync"
	"time"
)

const (
	wireBuffer   = 64 << 10         // bytes that are buffered before they are sent
	writeTimeout = 30 * time.Second // of one write to the network
)

// wire is a network connection that can buffer writes for a moment. The client library writes each frame on its own, so this sends
// hundreds of small frames at once.
//
// Each write has a deadline. Otherwise, a broker that does not read would block the write for ever, with a lock for which the client
// library waits when it closes the connection.
type wire struct {
	net.Conn
	deliveries deliveries

	mu   sync.Mutex // guards the fields below, and the order of writes
	buf  []byte
	held int   // calls of hold without release
	err  error // of the first write that failed
}

// Write writes p, or buffers it while the wire is held.
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

// release sends the buffered data. An error ends the connection, and all later writes return it.
func (w *wire) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held--; w.err != nil {
		return w.err
	}
	return w.flush()
}

// flush sends the buffered data. w.mu must be held.
func (w *wire) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.send(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > 4*wireBuffer { // a large message has grown it
		w.buf = nil
	}
	return err
}

// send writes to the network. w.mu must be held.
func (w *wire) send(p []byte) error {
	_ = w.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // if the connection is closed, Write returns the error
	if _, err := w.Conn.Write(p); err != nil {
		w.err = err
		w.Conn.Close() // which ends the reader, too
	}
	return w.err
}
