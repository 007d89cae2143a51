package enginetest

import (
	"bytes"
	"sync"
)

// Transcript is a buffer for text, such as a log, that a test reads while it is written. The zero value is empty. It is safe
// for concurrent use.
type Transcript struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

// Write appends p; it never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns the text so far.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Reset discards the text so far.
func (t *Transcript) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Reset()
}
