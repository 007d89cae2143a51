package engine

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// runTime is how long a run of messages through the steps should take: slow
// steps get few messages at a time, so that they spread over the lanes.
const runTime = time.Millisecond

// partBytes is how much a slab of parts may hold, about.
const partBytes = 1 << 20

// lane is one worker: it takes runs of messages, carries them through the
// pipeline's steps, and hands what is left to batchers and outputs.
type lane struct {
	r     *run
	index int
	t     tally
	x     executor
	allow int // parts that may be made with the credits at hand
	parts int // bytes of those made with them
	arena doc.Arena
	spare []*doc.Arena // for slabs of parts; the first inUse are lent
	inUse int
	was   int     // bytes read with the slab under way
	by    []int32 // messages of a slab that come by a group
	seen  map[string]bool
	to    []*batcherRun // where each message of a slab goes

	deliver func(b *Batch) // takes what has gone through the steps
	reads   bool           // runs an input's own steps, in its reader
}

func newLane(r *run, index int) *lane {
	l := &lane{r: r, index: index, t: tally{r: r}, seen: map[string]bool{}}
	l.x.own, l.x.wrap, l.x.room = l, r.plan.middleware, newRoom(r)
	l.arena.Owner = l.x.room
	return l
}

// loop runs until the queue is closed.
func (l *lane) loop(ctx context.Context) {
	cost := runTime // of one message: while it is not known, others may have to share what waits
	for {
		b := l.r.lanes.pop(l.index, max(1, l.r.plan.steps.together, int(min(runTime/max(cost, 1), slabSize))))
		if b == nil {
			return
		}
		l.r.ease()
		n, began := len(b.in.Msgs), time.Now()
		l.process(ctx, b)
		cost = (cost + time.Since(began)/time.Duration(n)) / 2
		l.r.lanes.rest()
		l.r.carried(n)
	}
}

// process runs a slab through the steps and carries on what comes of it.
func (l *lane) process(ctx context.Context, b *Batch) {
	if !l.r.plan.serial || b.in.Way.in != nil || !b.repeats(l.seen) {
		l.through(ctx, b)
		return
	}
	for len(b.in.Msgs) > 0 {
		l.through(ctx, b.wave(l.seen))
	}
	recycle(b)
}

// through is process for messages that go through the steps together.
func (l *lane) through(ctx context.Context, b *Batch) {
	l.was = b.in.Bytes
	l.x.prog, l.x.stage, l.t.in, l.deliver = l.r.plan.steps, fresh, nil, l.route
	l.admit(b)
	if in := inputOf(b); in != nil {
		l.x.prog, l.x.stage, l.t.in, l.deliver = in.steps, inInput, in, l.dispatch
	}
	l.carry(l.x.run(ctx, b.adopt(&l.arena)))
	l.arena.Reset()
	l.takeBack(0)
	if l.allow > 0 {
		l.r.credits.put(l.allow, 0, 0)
		l.allow = 0
	}
}

// admit keeps what others of its key are before.
func (l *lane) admit(b *Batch) {
	if b.in.Way.in == nil && l.r.holds.any.Load() > 0 {
		l.r.holds.admit(b, nil, func(_ int, m *Message) role {
			if m.in.State == live {
				return asks
			}
			return 0
		})
	}
}

// merge is not for lanes: steps that merge need a batch, which Build checks.
func (l *lane) merge(m *Message) {
	accountMerge(&l.t, m)
	m.failAt("", Errorf(Permanent, "a step that merges needs whole batches: write it under `processors` of a batcher or an output"))
}

// hold has nothing to do in an input's own steps, where gaps keep order.
func (l *lane) hold(b *Batch, at stage) {
	if l.t.in == nil {
		l.r.holds.behind(b, at, nil)
	}
}

// split makes parts a slab at a time and carries each to its queues before the next.
// Parts whose steps see what those before them have written go one by one.
func (l *lane) split(ctx context.Context, x *executor, b *Batch, pc int32) *Batch {
	arena := l.partArena()
	lent := l.inUse
	alone := l.r.plan.serial && l.t.in == nil
	last := b.pull(newSlab(0).adopt(arena), &x.prog.ops[pc], func(cur *Batch, part bool) *Batch {
		if l.parts > partBytes { // others may need what is left
			l.r.credits.put(l.allow, 0, 0)
			l.allow, l.parts = 0, 0
		}
		if n := len(cur.in.Msgs); n == slabSize || part && n > 0 && (alone || l.allow == 0) {
			if alone {
				l.admit(cur)
			}
			l.carry(x.exec(ctx, cur, pc+1))
			l.takeBack(lent)
			arena.Reset()
			cur = newSlab(0).adopt(arena)
		}
		if part && !l.credit(ctx) {
			return nil
		}
		return cur
	}, l.part, l.parted)
	recycle(b)
	if alone {
		l.admit(last)
	}
	return last
}

// partArena lends an arena for slabs of parts until the lane is done with the
// slab that they come from, whose documents the parts may still be drawn from.
func (l *lane) partArena() *doc.Arena {
	if l.inUse == len(l.spare) {
		l.spare = append(l.spare, &doc.Arena{Owner: l.x.room})
	}
	l.inUse++
	return l.spare[l.inUse-1]
}

// takeBack resets the arenas that were lent beyond the first n.
func (l *lane) takeBack(n int) {
	for _, a := range l.spare[n:l.inUse] {
		a.Reset()
	}
	l.inUse = n
}

// credit makes sure that one more part may be made; false: the run is over.
func (l *lane) credit(ctx context.Context) bool {
	switch {
	case l.allow > 0:
	case l.r.handing() || ctx.Err() != nil:
		return false
	case l.reads:
		l.allow = l.r.credits.split(l.r.expired, slabSize, true)
	default:
		l.r.lanes.rest()
		l.allow = l.r.credits.split(l.r.expired, slabSize, false)
		l.r.lanes.resume()
	}
	if l.allow == 0 {
		return false
	}
	l.allow--
	return true
}

func (l *lane) part(_, p *Message) {
	p.in.Credits, p.in.Charge = 1, len(p.in.Orig)
	l.parts += p.in.Charge
	l.r.credits.charge(0, p.in.Charge)
	p.eachRoot(func(r root) { r.add(1) })
	l.r.holds.share(p)
	l.t.made++
}

func (l *lane) parted(m *Message, _ int) { l.t.consume(m) }

// carry delivers b, unless the run is over and all of it was handed back.
func (l *lane) carry(b *Batch) {
	if !l.r.enter() {
		return
	}
	defer l.r.leave()
	l.t.was = l.was
	l.deliver(b)
}

// route ends what has ended in b and sends the rest to where it belongs.
func (l *lane) route(b *Batch) {
	if to := l.r.sole; to != nil && !l.r.plan.ordered && b.allLive() {
		b.release()
		l.t.pass(to, b)
		l.t.apply()
		return
	}
	if l.r.plan.ordered && (l.r.holds.any.Load() > 0 || !b.allLive()) {
		l.r.holds.admit(b, nil, func(_ int, m *Message) role {
			switch m.in.State {
			case live:
				return asks
			case waits, parked:
				return owns // before later ones of its key go on
			}
			return 0
		})
	}
	l.to = append(l.to[:0], make([]*batcherRun, len(b.in.Msgs))...)
	var only *batcherRun
	same, alive := true, 0
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		var to *batcherRun
		if m.in.State == live {
			to = l.r.route(&l.t, m)
		}
		if to == nil {
			l.t.conclude(m, nil)
			continue
		}
		same = same && (only == nil || only == to)
		only = to
		l.to[i] = to
		alive++
	}
	switch {
	case alive == 0:
		recycle(b)
	case same && 4*alive > len(b.in.Msgs):
		b.sweep(alive)
		b.release() // splices here, where lanes share the work
		l.t.pass(only, b)
	default:
		for i := range b.in.Msgs {
			if l.to[i] != nil {
				l.t.send(l.to[i], &b.in.Msgs[i])
			}
		}
		recycle(b)
	}
	l.t.apply()
}
