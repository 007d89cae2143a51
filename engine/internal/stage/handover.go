package stage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
)

// Handover is what a pipeline leaves to the plan that takes its place: the roots that are not settled, as they were
// read, and its counts.
type Handover struct {
	roots  []unsettled
	law    [2]engine.Counts
	took   guard.Latency // of all roots that have ended
	failed []ledger.FailureGroup
	err    error              // of closing, such as of a cache whose writes were lost
	broken []string           // outputs in which a call has not returned
	read   map[reading]uint64 // messages read so far
}

// reading is a reader of the plan before.
type reading struct {
	input    string
	instance int
}

// unsettled is a root that continues in the next plan.
type unsettled struct {
	reading
	ref     uint64
	body    []byte
	meta    engine.Meta
	key     []byte // that its input gave it
	attempt int
	rank    uint64 // in read order
	at      time.Time
	to      engine.Acker
	trace   *engine.Trace // nil: it is not followed
}

// HasRoots says that messages are left, which the next plan is to end.
func (h *Handover) HasRoots() bool { return h != nil && len(h.roots) > 0 }

// HandOver collects unsettled messages for the next plan. Messages that it can't take go back to their source. All
// goroutines of the run have ended.
func (r *Run) HandOver() *Handover {
	h := &Handover{}
	r.Life.Close(func() { r.collect(h) })
	return h
}

// collect is HandOver, behind the fence.
func (r *Run) collect(h *Handover) {
	out := outcome{settlement: &r.settlement}
	why := engine.Errorf(engine.Transient, "the pipeline was reloaded, and now has a different input")
	why.HandedBack()
	for _, l := range r.Open.List() {
		for i := range l.Roots {
			s := &l.Roots[i]
			if s.Pieces() <= 0 {
				continue
			}
			if r.inherits(l) && s.Lease.Load() != ledger.LeaseLost {
				meta := l.MetaOf(i)
				l.Mu.Lock()
				h.roots = append(h.roots, unsettled{
					reading{l.InputName, l.Instance}, s.Ref, s.Body, meta, l.Key(i), l.Attempt(i),
					l.First + uint64(i), l.ReadAt, acker(l), l.Trace(uint32(i)),
				})
				l.Mu.Unlock()
				out.forget(l, uint32(i))
				continue
			}
			out.endUnfinished(ledger.Root{Led: l, I: uint32(i)}, why)
		}
	}
	out.pieces = out.roots // each as one piece, like those that continue
	more := out.roots[engine.Returned] + out.roots[engine.Dropped] + int64(len(h.roots)) - r.Pieces.InFlight.Load()
	out.made, out.consumed = out.made+max(more, 0), out.consumed+max(-more, 0) // merges are undone, parts are consumed
	out.apply()
	h.law = [2]engine.Counts{r.Roots.Read(), r.Pieces.Read()}
	for _, o := range r.writing.sinks {
		if slices.ContainsFunc(o.hired(), func(w *worker) bool { return w.writer.since.Load() != 0 }) {
			h.broken = append(h.broken, o.name)
		}
	}
}

// Bequeath adds to a handover what does not depend on messages under way: the counts, the failures, the error of
// closing, and which plugins are closed.
func (r *Run) Bequeath(h *Handover, closing error) *Handover {
	if h == nil {
		h = &Handover{law: [2]engine.Counts{r.Roots.Read(), r.Pieces.Read()}}
	}
	h.failed, h.err, h.read, h.took = r.Failures.All(), closing, map[reading]uint64{}, r.Latency.Get()
	for _, x := range r.pushers {
		h.read[reading{x.plan.Name, pushed}] = x.read.Load()
	}
	for _, rd := range r.readers {
		h.read[reading{rd.plan.Name, rd.index}] = rd.read.Load()
		if rd.acks != nil && rd.acks.LeavesUntold() { // on a new connection the source delivers them again
			rd.close(errors.New("it was closed before the reload"))
		}
	}
	r.layout.Plugins.Bequeath(&r.Next.Plugins)
	return h
}

// inherits says whether the next plan continues with the roots of a ledger: it has the same
// input, still connected, or one to which nothing could be handed back.
func (r *Run) inherits(l *ledger.Ledger) bool {
	for _, in := range r.Next.Inputs {
		if in.Name == l.InputName {
			return in.Adopted || l.Takes == engine.TakesNothing || l.Instance == pushed
		}
	}
	return false
}

func acker(l *ledger.Ledger) engine.Acker {
	if l.Acks == nil {
		return nil
	}
	return l.Acks.To
}

// inherit takes over the counts of the plan before.
func (r *Run) inherit(h *Handover) {
	if h == nil {
		return
	}
	r.Roots.Set(h.law[0])
	r.Pieces.Set(h.law[1])
	r.Latency.Set(h.took)
	r.Failures.Set(h.failed)
	r.err = h.err
	for _, name := range h.broken {
		for _, o := range r.writing.sinks {
			if o.name == name {
				o.gate.Reopen, o.gate.Shut = true, true
			}
		}
	}
}

// continues says whether the reader continues with the messages of an instance of its input in the plan before.
func (rd *reader) continues(instance int) bool {
	if rd.index == pushed || instance == pushed {
		return rd.index == instance
	}
	return instance%len(rd.plan.Inputs) == rd.index
}

// reenter sends on the roots that the plan before has left to this reader, in reading order, ahead of new messages.
func (rd *reader) reenter(ctx context.Context, h *Handover) {
	if h == nil {
		return
	}
	var mine []unsettled
	for _, x := range h.roots {
		if x.input == rd.plan.Name && rd.continues(x.instance) {
			mine = append(mine, x)
		}
	}
	for len(mine) > 0 {
		n := 1
		for n < len(mine) && n < inside.SlabSize && mine[n].to == mine[0].to && mine[n].rank == mine[0].rank+uint64(n) {
			n++
		}
		b := flow.NewSlab(n)
		var kept []*engine.Trace
		for _, x := range mine[:n] {
			kept = append(kept, x.trace)
			m := b.Add(x.body)
			m.Ref, m.Meta, m.Key, m.Attempt = x.ref, x.meta, x.key, x.attempt
		}
		slab(b).Room = 0
		rd.credits.Charge(n, 0)
		rd.read.Store(mine[0].rank)
		rd.openLedger(b, mine[0].to, mine[0].at, kept...)
		rd.send(ctx, b)
		mine = mine[n:]
	}
	rd.read.Store(max(rd.read.Load(), h.read[reading{rd.plan.Name, rd.index}]))
}
