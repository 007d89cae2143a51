package runtime

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Plan is a pipeline that is built and checked, and has done no I/O. It runs once;
// [Plan.Replace] lets another take its place.
type Plan struct {
	*stage.Layout

	drained   chan struct{} // closed by Drain
	drainOnce sync.Once

	replaced    chan struct{} // closed by Replace
	replaceOnce sync.Once
	yields      chan struct{} // closed by Yield
	yieldOnce   sync.Once
	resumes     []func()        // of inputs that have yielded; of Run
	next        *Plan           // that takes this one's place; set before replaced is closed
	before      *Plan           // whose place this one takes
	inherited   *stage.Handover // from it
	began       time.Time       // with those whose counts it continues; set before current is, as the next
	started     time.Time       // by itself
	ran         time.Time       // since when the plan before was running, which it has replaced; zero: there was none
	over        atomic.Bool     // it ended without a plan that takes its place: everything is closed

	current atomic.Pointer[stage.Run]
}

// Stats are the counts so far, at any time.
func (p *Plan) Stats() engine.Stats {
	r := p.current.Load()
	if r == nil {
		return engine.Stats{}
	}
	return r.Stats()
}
