package engine

import (
	"slices"
	"sync"
	"time"
)

// groupRun is a group at work: what lies in it, and the queue and writers of an
// output for what is complete.
type groupRun struct {
	r    *run
	plan *groupPlan
	out  *outRun

	mu     sync.Mutex      // guards the fields below; held while batches are queued, so that they keep their order
	open   *Batch          // that grows; nil: none
	bytes  int             // of payload in it
	due    time.Time       // when it is to go
	armed  bool            // a timer will look at it
	riders *Batch          // that go behind the open batch, since it has messages of their keys; nil: none
	ridden map[string]bool // those keys
	keys   map[string]int  // order keys of messages that are on their way into the open batch, or in it; nil: nobody asks
}

func newGroupRun(r *run, plan *groupPlan) *groupRun {
	g := &groupRun{r: r, plan: plan, out: newOutRun(r, &plan.outputPlan)}
	if r.plan.ordered {
		g.out.chains = map[string][]*turn{}
		if plan.skipped {
			g.keys = map[string]int{}
		}
	}
	return g
}

// gather takes messages out of a lane: those that have come to a group enter it.
func (l *lane) gather(b *Batch, sel []int32, o *op) {
	g := l.r.groups[o.group-1]
	o.figures.called(len(sel), 0)
	var entering map[string]bool
	if g.keys != nil {
		entering = map[string]bool{}
		for _, i := range sel {
			b.in.Msgs[i].eachLeafKey(func(leaf *Message) { entering[string(leaf.Key)] = true })
		}
	}
	comes := func(m *Message) bool { return m.in.State == live && m.in.Groups <= g.plan.index && m.in.PC >= o.at }
	if l.r.plan.ordered {
		l.r.holds.admit(b, nil, func(_ int, m *Message) role {
			switch {
			case comes(m):
				return asks
			case m.in.State == failed || m.in.State == waits || m.in.State == parked:
				return owns // before later ones of its key go on
			}
			return 0
		})
	}
	by := l.by[:0]
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		enters := len(sel) > 0 && sel[0] == int32(i)
		if enters {
			sel = sel[1:]
		}
		switch {
		case !comes(m):
			continue
		case !enters && !g.inside(m):
			l.t.freed = append(l.t.freed, l.r.holds.comesBy(m, g.plan.index+1)...)
			by = append(by, int32(i))
			continue
		case enters:
			if o.enters {
				m.enter(o)
			}
			m.in.Back, m.in.PC = o.next, 0
		default:
			m.in.Back, m.in.PC, m.in.Groups = m.in.PC, int32(len(g.plan.steps.ops)), g.plan.index+1
		}
		m.in.Stage = inOutput
		setTrial(m, nil)
		g.expect(m)
		l.t.send(g, m)
	}
	l.by = by
	if len(by) == 0 || !l.r.plan.ordered {
		return
	}
	l.r.holds.admit(b, nil, func(i int, m *Message) role { // behind those that have left the group
		if _, is := slices.BinarySearch(by, int32(i)); !is {
			return 0
		}
		if m.hasOne(entering) { // later ones enter, and may be quicker
			return asks | owns
		}
		return asks
	})
}

// inside says that a message of one of m's keys is in the group, so that m, which
// does not enter it, must not overtake that one: m goes through with the others,
// behind the steps.
func (g *groupRun) inside(m *Message) (yes bool) {
	if g.keys == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m.eachLeafKey(func(leaf *Message) { yes = yes || g.keys[string(leaf.Key)] > 0 || g.out.has(leaf.Key) })
	return yes || g.r.holds.heldAt(m, g.out.spot())
}

// has says that a message with an order key is queued or being worked on.
func (o *outRun) has(key []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.chains["o"+string(key)]) > 0
}

// push takes messages in, from any lane.
func (g *groupRun) push(b *Batch) {
	g.out.come(len(b.in.Msgs))
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		g.r.grouped.Add(1)
		if m.in.Groups > p.index {
			g.ride(m)
			continue
		}
		size := m.Size()
		switch {
		case g.open != nil && p.bytes > 0 && g.bytes+size > p.bytes:
			g.shut(ByBytes)
		case m.hasOne(g.ridden):
			g.shut(ByFlush)
		}
		if g.open == nil {
			g.open = batchOf(Slab{Stage: inOutput})
			g.arm(time.Now())
		}
		g.open.in.Take(m)
		if g.bytes += size; len(g.open.in.Msgs) == p.size {
			g.shut(BySize)
		}
	}
	recycle(b)
	if g.open == nil && g.riders != nil {
		g.shut(BySize)
	}
}

// ride adds a message that only must not overtake those in the group; g.mu is held.
func (g *groupRun) ride(m *Message) {
	if g.riders == nil {
		g.riders, g.ridden = batchOf(Slab{Stage: inOutput}), map[string]bool{}
	}
	m.eachLeafKey(func(leaf *Message) { g.ridden[string(leaf.Key)] = true })
	g.riders.in.Take(m)
}

// arm has the clock look at the open batch when its time is up; g.mu is held.
func (g *groupRun) arm(now time.Time) {
	g.due = now.Add(g.plan.wait)
	if !g.armed {
		g.armed = true
		g.r.timers.after(g.due, nil, g.timeUp)
	}
}

func (g *groupRun) timeUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	switch {
	case g.open == nil:
	case time.Now().Before(g.due):
		g.armed = true
		g.r.timers.after(g.due, nil, g.timeUp)
	default:
		g.shut(ByTimeout)
	}
}

// shut gives the open batch to the writers, and what rides behind it; g.mu is held.
func (g *groupRun) shut(why Trigger) {
	open, riders := g.open, g.riders
	g.open, g.riders, g.ridden, g.bytes = nil, nil, nil, 0
	if open != nil {
		g.r.plan.emitEvent(Event{Kind: EventBatch, Name: g.plan.name, N: len(open.in.Msgs), Reason: string(why)})
		g.queue(open, why)
	}
	if riders != nil {
		g.queue(riders, why)
	}
}

// queue hands a batch to the writers; g.mu is held.
func (g *groupRun) queue(b *Batch, why Trigger) {
	b.in.Trigger, b.in.Size = why, len(b.in.Msgs)
	g.r.grouped.Add(int64(-b.in.Size))
	var keys []string
	if g.keys != nil {
		for i := range b.in.Msgs {
			b.in.Msgs[i].eachLeafKey(func(leaf *Message) { keys = append(keys, string(leaf.Key)) })
		}
	}
	g.out.push(b)
	for _, k := range keys { // from now on the queue knows them
		if g.keys[k]--; g.keys[k] == 0 {
			delete(g.keys, k)
		}
	}
}

// expect notes that m is on its way into the group.
func (g *groupRun) expect(m *Message) {
	if g.keys == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m.eachLeafKey(func(leaf *Message) { g.keys[string(leaf.Key)]++ })
}

// flush closes the group if something lies open in it.
func (g *groupRun) flush(why Trigger) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil && g.riders == nil {
		return false
	}
	g.shut(why)
	return true
}

// closeGroups closes the first group in which something lies, when nothing more
// will come to it.
func (r *run) closeGroups() {
	why := r.inputsEnd()
	if why == "" || r.upstream.Load() != r.grouped.Load() {
		return
	}
	for _, g := range r.groups {
		if g.flush(why) {
			return
		}
	}
}

// relieveGroups closes a group when all else rests: its messages hold the credits.
func (r *run) relieveGroups() {
	if !slices.ContainsFunc(r.groups, func(g *groupRun) bool { return !g.out.rests() }) {
		for _, g := range r.groups {
			if g.flush(ByPressure) {
				return
			}
		}
	}
}

// rests says that nothing is queued or being worked on.
func (o *outRun) rests() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing == 0 && o.ready.head == nil && o.again.head == nil
}

// rejoin sends m, which has gone through a group's steps, back to the lanes.
func (t *tally) rejoin(m *Message, g *groupPlan) {
	m.in.Batch, m.in.BatchKey = nil, ""
	setTrial(m, nil)
	m.in.Stage, m.in.PC, m.in.Groups = fresh, m.in.Back, g.index+1
	t.beyond -= m.weight()
	t.put(toLanes{t.r}, m)
}

// toLanes is where messages go that have left a group.
type toLanes struct{ r *run }

func (l toLanes) push(b *Batch) {
	l.r.upstream.Add(int64(len(b.in.Msgs)))
	l.r.lanes.push(b)
}
