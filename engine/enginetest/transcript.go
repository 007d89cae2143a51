package enginetest

import (
	"bytes"
	"sync"
)

// Transcript keeps what is written to it, such as a log, for a test that reads it
// meanwhile. The zero value is empty. It is safe for concurrent use.
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

// String is what has been written so far.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Reset forgets what has been written so far.
func (t *Transcript) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Reset()
}
