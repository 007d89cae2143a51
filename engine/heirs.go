package engine

import (
	"context"
	"slices"
	"time"
)

// Handover is what a pipeline leaves to the plan that takes its place: the roots
// that are not settled, as they were read, and its counts.
type Handover struct {
	roots  []heir
	law    [2]Counts
	failed []FailureGroup
	err    error              // of closing: what was promised and is not kept, such as writes to a cache
	broken []string           // outputs in which a call has not come back
	read   map[reading]uint64 // messages read so far
}

// reading is a reader of the plan before.
type reading struct {
	input    string
	instance int
}

// heir is a root that goes on in the next plan.
type heir struct {
	input    string
	instance int
	ref      uint64
	body     []byte
	meta     Meta
	key      []byte // that its input gave it
	attempt  int
	rank     uint64 // in read order
	at       time.Time
	to       Acker
}

// leaves collects what is unsettled for the next plan; what that can't take goes
// back to its source. Nothing of the run is at work any more.
func (r *run) leaves() *Handover {
	h := &Handover{}
	r.life.close(func() { r.collect(h) })
	return h
}

// collect is leaves, behind the fence.
func (r *run) collect(h *Handover) {
	t := tally{r: r}
	why := Errorf(Transient, "the pipeline was reloaded, and its input is another now")
	why.HandedBack()
	for _, l := range r.open.list() {
		for i := range l.roots {
			s := &l.roots[i]
			if s.pieces.Load() <= 0 {
				continue
			}
			if r.inherits(l) && s.lease.Load() != leaseLost {
				meta := l.metaOf(i)
				l.mu.Lock()
				h.roots = append(h.roots, heir{l.input, l.instance, s.ref, s.body, meta, l.key(i), int(s.attempt), l.first + uint64(i), l.at, l.acker()})
				l.mu.Unlock()
				t.forget(l, uint32(i))
				continue
			}
			t.giveUp(root{l, uint32(i)}, why)
		}
	}
	t.pieces = t.roots // as one piece each, like those that go on
	more := t.roots[Returned] + t.roots[Dropped] + int64(len(h.roots)) - r.pieces.inFlight.Load()
	t.made, t.consumed = t.made+max(more, 0), t.consumed+max(-more, 0) // merges are undone, parts are consumed
	t.apply()
	h.law = [2]Counts{r.roots.read(), r.pieces.read()}
	for _, o := range r.outputs {
		o.mu.Lock()
		if slices.ContainsFunc(o.writers, func(w *writer) bool { return w.since.Load() != 0 }) {
			h.broken = append(h.broken, o.plan.name)
		}
		o.mu.Unlock()
	}
}

// bequeath adds to what the next plan inherits all that has nothing to do with messages under way: the
// counts, what failed, the error of closing, and which of its inputs failed and are closed.
func (r *run) bequeath(h *Handover, closing error) *Handover {
	if h == nil {
		h = &Handover{law: [2]Counts{r.roots.read(), r.pieces.read()}}
	}
	h.failed, h.err, h.read = r.failures.all(), closing, map[reading]uint64{}
	for _, rd := range r.readersAt {
		h.read[reading{rd.plan.name, rd.index}] = rd.read.Load()
	}
	r.plan.plugins.bequeath(&r.next.plugins)
	return h
}

// inherits says whether the next plan goes on with the roots of a ledger: it has
// the same input, still connected, or one to which nothing could be handed back.
func (r *run) inherits(l *ledger) bool {
	for _, in := range r.next.inputs {
		if in.name == l.input {
			return in.adopted || l.takes == TakesNothing
		}
	}
	return false
}

func (l *ledger) acker() Acker {
	if l.acks == nil {
		return nil
	}
	return l.acks.to
}

// inherit takes over the counts of the plan before.
func (r *run) inherit(h *Handover) {
	if h == nil {
		return
	}
	r.roots.set(h.law[0])
	r.pieces.set(h.law[1])
	r.failures.set(h.failed)
	r.err = h.err
	for _, name := range h.broken {
		for _, o := range r.outputs {
			if o.plan.name == name && o.plan.group == nil {
				o.gate.reopen, o.gate.shut = true, true
			}
		}
	}
}

// reenter lets the roots that a plan before has left to this reader go on, in the
// order in which they were read, ahead of what is new.
func (rd *reader) reenter(ctx context.Context) {
	h := rd.r.inherited
	if h == nil {
		return
	}
	var mine []heir
	for _, x := range h.roots {
		if x.input == rd.plan.name && x.instance%len(rd.plan.inputs) == rd.index {
			mine = append(mine, x)
		}
	}
	for len(mine) > 0 {
		n := 1
		for n < len(mine) && n < slabSize && mine[n].to == mine[0].to && mine[n].rank == mine[0].rank+uint64(n) {
			n++
		}
		b := newSlab(n)
		for _, x := range mine[:n] {
			m := b.Add(x.body)
			m.Ref, m.Meta, m.Key, m.Attempt = x.ref, x.meta, x.key, x.attempt
		}
		b.in.Room = 0
		rd.r.credits.charge(n, 0)
		rd.read.Store(mine[0].rank)
		rd.take(b, mine[0].to, mine[0].at)
		rd.send(ctx, b)
		mine = mine[n:]
	}
	rd.read.Store(max(rd.read.Load(), h.read[reading{rd.plan.name, rd.index}]))
}
