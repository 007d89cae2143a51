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

// stepFigures count what a step does, once per call.
type stepFigures struct {
	name, typ string
	in        atomic.Int64
	bad       atomic.Int64
	retries   atomic.Int64
	took      *guard.Histogram
	outage    outage
}

// NewStepFigures makes the figures of a step, which log outages of what it needs.
func NewStepFigures(name, typ string, log *slog.Logger) *stepFigures {
	return &stepFigures{name: name, typ: typ, took: guard.NewHistogram(guard.LatencyBounds), outage: outage{log: log}}
}

// Called counts a call for n messages.
func (f *stepFigures) Called(n int, took time.Duration) {
	f.in.Add(int64(n))
	f.took.Observe(took.Seconds())
}

func (f *stepFigures) failed() { f.bad.Add(1) }

// Read is the figures at present.
func (f *stepFigures) Read() engine.StepState {
	return engine.StepState{Name: f.name, Type: f.typ, In: f.in.Load(), Failed: f.bad.Load(), Retries: f.retries.Load(),
		Latency: f.took.Read()}
}

// outage tells of a system that a step needs and can't reach: its messages wait, and no attempt is counted.
type outage struct {
	log  *slog.Logger
	down atomic.Bool // since the last call that reached it

	mu    sync.Mutex // guards the fields below
	told  time.Time  // when the log last said that it is down
	said  bool       // and since then not that it works
	named retry.Causes
}

// seldom is how often the log may say that a step waits. Where messages say what it calls, some of that may be down
// while the rest works.
const seldom = time.Minute

// waits is told of a message that could not be dealt with.
func (o *outage) waits(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down.Store(true)
	news := o.named.News(err)
	switch now := time.Now(); {
	case !o.said && now.Sub(o.told) >= seldom:
		o.told, o.said = now, true
		o.log.Error("step waits: what it needs can't be reached, and no attempt is counted", "err", guard.FirstLine(err))
	case o.said && news:
		o.log.Error("step waits, now for another reason", "err", guard.FirstLine(err))
	}
}

// Reached is told that the step has got an answer, be it a refusal.
func (f *stepFigures) Reached() {
	o := &f.outage
	if !o.down.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down.Store(false)
	if o.said {
		o.said, o.named = false, nil
		o.log.Info("step works again")
	}
}
