package daemon

import (
	"bytes"
	"io"
	"sync"
)

// output keeps what a process prints, for when it fails.
type output struct {
	ended chan struct{}

	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

const mostKept = 64 << 10 // bytes of what a server prints

func (o *output) read(r io.ReadCloser) {
	defer close(o.ended)
	defer r.Close()
	_, _ = io.Copy(o, r)
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() < mostKept {
		o.text.Write(p)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
