package stage

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// watch looks for calls that are past their deadlines, until ctx ends.
func (r *Run) watch(ctx context.Context) {
	tick := time.NewTicker(r.layout.watchEvery())
	defer tick.Stop()
	quietAt := int64(-1) // messages received when it was quiet last
	moves := progress{patience: r.layout.lanePatience()}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, o := range r.writing.sinks {
				for _, w := range o.hired() {
					o.abandon(w.writer, now)
				}
			}
			r.settlement.credits.Stalls()
			r.idling.Store(moves.look(r.moved(), r.feed.queue.Busy() > 0, now))
			quietAt = r.observe(quietAt)
		}
	}
}

// progress knows since when lanes have worked without a result.
type progress struct {
	patience time.Duration // how long that may be so
	mark     int64         // see Run.moved
	since    time.Time     // when the mark changed, or no lane worked
}

// look takes what the run shows now, and says since when lanes have worked without a result, in unix nanoseconds; 0: not
// for longer than they may.
func (p *progress) look(mark int64, busy bool, now time.Time) (since int64) {
	if mark != p.mark || !busy || p.since.IsZero() {
		p.mark, p.since = mark, now
	}
	if now.Sub(p.since) <= p.patience {
		return 0
	}
	return p.since.UnixNano()
}

// moved changes whenever a message is read, ends, or becomes others.
func (r *Run) moved() (n int64) {
	c := r.Pieces.Read()
	for _, ended := range c.Ended {
		n += ended
	}
	return n + c.Received + c.Made + c.Consumed
}

// lanePatience is how long lanes may work without a result: in this time one message can go through all steps, each of
// which takes all of its timeout.
func (p *Layout) lanePatience() time.Duration {
	all := time.Minute
	for i := range p.Steps.Ops {
		all += p.Steps.Ops[i].Timeout
	}
	return all
}

// observe reports to hooks how busy the run is.
func (r *Run) observe(quietAt int64) int64 {
	if len(r.layout.Hooks) == 0 {
		return quietAt
	}
	r.layout.EmitEvent(engine.Event{Kind: engine.EventUtilization, N: r.feed.queue.Busy()})
	if n := r.Roots.Received.Load(); n != quietAt && r.Roots.InFlight.Load() == 0 {
		r.layout.EmitEvent(engine.Event{Kind: engine.EventQuiet, N: int(n)})
		return n
	}
	return quietAt
}
