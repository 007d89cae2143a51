package runtime

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Plan is a pipeline that was built and checked, and has done no I/O yet. It runs once. [Plan.Replace] replaces it by another
// plan.
type Plan struct {
	*stage.Layout

	drained   chan struct{} // closed by Drain
	drainOnce sync.Once

	replaced    chan struct{} // closed by Replace
	replaceOnce sync.Once
	yields      chan struct{} // closed by Yield
	yieldOnce   sync.Once
	resumes     []func()        // of inputs that have yielded; for the goroutine of Run
	next        *Plan           // the plan that replaces this one; set before replaced is closed
	before      *Plan           // the plan that this one replaces
	inherited   *stage.Handover // from before
	began       time.Time       // when the first of the plans began whose counts it continues; set before current, like started and ran
	started     time.Time       // when this plan began
	ran         time.Time       // when the plan before was running; zero: there was none
	over        atomic.Bool     // it has ended and was not replaced: everything is closed

	current atomic.Pointer[stage.Run]
	ended   chan struct{} // closed when Run returns
}

// Stats returns the counts so far. It may be called at any time.
func (p *Plan) Stats() engine.Stats {
	r := p.current.Load()
	if r == nil {
		return engine.Stats{}
	}
	return r.Stats()
}
