package stage

import (
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/internal/guard"
)

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
