package steps

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// stepFigures count the calls of a step and their results. They are safe for concurrent use.
type stepFigures struct {
	name, typ string
	in        atomic.Int64
	bad       atomic.Int64
	retries   atomic.Int64
	took      *guard.Histogram
	outage    outage
}

// NewStepFigures makes the figures of a step. log is told when the step can't reach its server.
func NewStepFigures(name, typ string, log *slog.Logger) *stepFigures {
	return &stepFigures{name: name, typ: typ, took: guard.NewHistogram(guard.LatencyBounds), outage: outage{log: log}}
}

// Called counts a call for n messages.
func (f *stepFigures) Called(n int, took time.Duration) {
	f.in.Add(int64(n))
	f.took.Observe(took.Seconds())
}

func (f *stepFigures) failed() { f.bad.Add(1) }

// Read returns the present figures.
func (f *stepFigures) Read() engine.StepState {
	return engine.StepState{Name: f.name, Type: f.typ, In: f.in.Load(), Failed: f.bad.Load(), Retries: f.retries.Load(),
		Latency: f.took.Read()}
}

// outage logs that a step can't reach its server. Its messages wait meanwhile, and no attempt is counted.
type outage struct {
	log  *slog.Logger
	down atomic.Bool // the last call did not reach the server

	mu     sync.Mutex // guards the fields below
	logged time.Time  // when the log last said that the step waits
	open   bool       // the log has not said since then that the server is reached again
	lasts  retry.Outage
}

// outageEvery is the least time between two log lines that a step waits. If messages choose the server, and only some
// servers are down, a step alternates between waiting and working all the time.
const outageEvery = time.Minute

// noteUnreached is called with the error of a message whose call did not reach the server.
func (o *outage) noteUnreached(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down.Store(true)
	now := time.Now()
	report := o.lasts.Fails(now, err)
	switch {
	case !o.open && now.Sub(o.logged) >= outageEvery:
		o.logged, o.open = now, true
		o.log.Error("step waiting: server unreachable (such calls do not count as attempts)", "err", guard.FirstLine(err))
	case o.open && report == retry.Changes:
		o.log.Error("step waiting: the error has changed", "err", guard.FirstLine(err))
	case o.open && report == retry.Lasts:
		o.log.Error("step still waiting: server unreachable", "err", guard.FirstLine(err), "for", o.lasts.Lasted(now))
	}
}

// Reached is called when the step has got an answer from its server, which may be a refusal.
func (f *stepFigures) Reached() {
	o := &f.outage
	if !o.down.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down.Store(false)
	if o.open {
		o.open, o.lasts = false, retry.Outage{}
		o.log.Info("step reaches its server again")
	}
}
