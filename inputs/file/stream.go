package file

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stream is an open file that counts the bytes read. A file that is not regular is opened by its first read, because opening a
// named pipe waits for its writer.
type stream struct {
	path  string
	bytes atomic.Int64

	mu     sync.Mutex
	file   *os.File // nil: not opened yet
	closed bool
}

func (s *stream) open() (*os.File, error) {
	s.mu.Lock()
	f, closed := s.file, s.closed
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	if closed {
		return nil, os.ErrClosed
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, explain(s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		f.Close()
		return nil, os.ErrClosed
	}
	s.file = f
	return f, nil
}

// Read is called by one goroutine.
func (s *stream) Read(p []byte) (int, error) {
	f, err := s.open()
	if err != nil {
		return 0, err
	}
	n, err := f.Read(p)
	s.bytes.Add(int64(n))
	return n, err
}

// SetReadDeadline ends a read that waits. If a pipe waits to be opened because it has no writer, it becomes the writer.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		return s.file.SetReadDeadline(t)
	}
	s.closed = true
	if w, err := os.OpenFile(s.path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		return w.Close()
	}
	return nil
}

// Close closes the file, if it is open.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

var _ io.ReadCloser = (*stream)(nil)
