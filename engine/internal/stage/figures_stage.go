package stage

import (
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/internal/guard"
)

// outFigures count what an output does; its lock guards them.
type outFigures struct {
	written, failed, retries, abandoned int64
	took                                *guard.Histogram
	err                                 string
	since                               time.Time // of the failing
	refused                             int64     // messages in a row that it has failed for good
	refusal                             string    // of the last of them
}

func (f *outFigures) wrote(s written) {
	f.written += int64(s.done)
	f.failed += int64(s.failed)
	f.took.Observe(s.took.Seconds())
	switch {
	case s.done > 0:
		f.refused, f.refusal = 0, ""
	case s.refused > 0:
		f.refused, f.refusal = f.refused+int64(s.refused), s.err.Error()
	}
}

func (f *outFigures) worked() { f.err, f.since = "", time.Time{} }

func (f *outFigures) fails(err error) {
	if f.err == "" {
		f.since = time.Now()
	}
	f.err = err.Error()
}

// readFigures count what a reader does.
type readFigures struct {
	received, bytes, restarts atomic.Int64
	state                     atomic.Pointer[string]
	err                       atomic.Pointer[string]    // why it was started again last; nil: it never was
	since                     atomic.Pointer[time.Time] // when it was opened; nil: it is not open
}

func (f *readFigures) is(state string) { f.state.Store(&state) }

func (f *readFigures) restarting() bool { return *f.state.Load() == "restarting" }

func (f *readFigures) lost(err error) {
	f.is("restarting")
	text := guard.FirstLine(err)
	f.err.Store(&text)
	f.since.Store(nil)
}

func (f *readFigures) connects() {
	now := time.Now()
	f.since.Store(&now)
}

// stands says whether the connection at hand has stood for long enough at a time.
func (f *readFigures) stands(at time.Time) bool {
	since := f.since.Load()
	return since != nil && at.Sub(*since) >= standing
}
