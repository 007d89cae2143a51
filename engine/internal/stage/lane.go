package stage

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/ledger"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// runTime is how long a run of messages through the steps should take: slow
// steps get few messages at a time, so that they spread over the lanes.
const runTime = time.Millisecond

// partBytes is how much a slab of parts may hold, about.
const partBytes = 1 << 20

// lane is one worker: it takes runs of messages, carries them through the
// pipeline's steps, and hands what is left to batchers and outputs.
type lane struct {
	*settlement
	batching *batching // where it sends messages
	index    int
	out      outcome
	x        steps.Executor
	allow    int // parts that may be made with the credits at hand
	parts    int // bytes of those made with them
	arena    doc.Arena
	spare    []*doc.Arena // for slabs of parts; the first inUse are lent
	inUse    int
	was      int     // bytes read with the current slab
	by       []int32 // messages of a slab that come by a group
	seen     map[string]bool
	to       []*batcher // where each message of a slab goes

	turn   uint64        // in which it may pass on what it has taken; 0: at any time
	waited time.Duration // for that

	deliver func(b *engine.Batch) // takes what has gone through the steps
	reads   bool                  // runs an input's own steps, in its reader
}

func newLane(s *settlement, to *batching, index int) *lane {
	l := &lane{settlement: s, batching: to, index: index, out: outcome{settlement: s}, seen: map[string]bool{}}
	l.x.Own, l.x.Wrap, l.x.Room = l, s.layout.Middleware, s.room()
	l.arena.Owner = l.x.Room
	return l
}

// loop runs until the queue is closed.
func (l *lane) loop(ctx context.Context) {
	cost := runTime // of one message: while it is not known, others may have to share what waits
	for {
		b, turn := l.lanes.queue.Pop(l.index, max(1, l.layout.Steps.Together,
			int(min(runTime/max(cost, 1), inside.SlabSize))))
		if b == nil {
			return
		}
		l.balance.ease()
		n, began := len(slab(b).Msgs), time.Now()
		l.waited = 0
		if l.layout.Turns {
			if l.turn = turn; slab(b).Way.In != nil { // it may wait for credits, which others have who wait for their turn
				l.endTurn()
			}
		}
		l.process(ctx, b)
		cost = (cost + (time.Since(began)-l.waited)/time.Duration(n)) / 2
		l.endTurn()
		l.lanes.queue.Rest()
		l.carried(n)
	}
}

// await waits until all that was taken before by other lanes has been passed on. What decides on the order of messages
// comes after it.
func (l *lane) await() {
	if t := &l.lanes.queue.Turns; l.turn > 0 && !t.Due(l.turn) {
		began := time.Now()
		t.Wait(l.turn)
		l.waited += time.Since(began)
	}
}

// endTurn lets the next lane pass on what it has.
func (l *lane) endTurn() {
	if l.turn > 0 {
		l.await()
		l.lanes.queue.Turns.End(l.turn)
		l.turn = 0
	}
}

// process runs a slab through the steps and passes on the results.
func (l *lane) process(ctx context.Context, b *engine.Batch) {
	if !l.layout.Serial || slab(b).Way.In != nil || !repeats(b, l.seen) {
		l.through(ctx, b)
		return
	}
	for len(slab(b).Msgs) > 0 {
		l.through(ctx, wave(b, l.seen))
	}
	flow.Recycle(b)
}

// through is process for messages that go through the steps together.
func (l *lane) through(ctx context.Context, b *engine.Batch) {
	l.was = slab(b).Bytes
	l.x.Prog, l.x.Stage, l.out.in, l.deliver = l.layout.Steps, inside.Fresh, nil, l.route
	if l.layout.Ordered {
		flow.Adopt(b, &l.arena)
		l.check(b)
	}
	l.admit(b)
	if in := inputOf(b); in != nil {
		l.x.Prog, l.x.Stage, l.out.in, l.deliver = in.Steps, inside.InInput, in, l.dispatch
	}
	if !l.layout.Ordered {
		flow.Adopt(b, &l.arena)
	}
	l.carry(l.x.Run(ctx, b))
	l.arena.Reset()
	l.takeBack(0)
	if l.allow > 0 {
		l.credits.Put(l.allow, 0, 0)
		l.allow = 0
	}
}

// check gives messages their order keys, or fails what has one of a payload that is no document.
func (l *lane) check(b *engine.Batch) {
	keys := &l.out.keys
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		c := msg(m)
		switch {
		case !c.Early:
			continue
		case l.layout.Turns:
			if key, ok, err := l.layout.OrderBy.AppendKey(keys.Room(), m); err != nil {
				steps.FailAt(m, "order_by", err)
			} else if ok {
				m.Key = keys.Keep(key)
			}
		default:
			if err := c.Doc.Valid(); err != nil {
				forgetEarly(m)
				steps.FailAt(m, "order_by", err)
			}
		}
		c.Early = false
	}
}

// forgetEarly gives m the key back with which it was read.
func forgetEarly(m *engine.Message) {
	if msg(m).Early {
		at := ledger.RootOf(m)
		m.Key, msg(m).Early = at.Led.Key(int(at.I)), false
	}
}

// admit keeps what others of its key are before. Where lanes take turns, they find that out at the end of theirs.
func (l *lane) admit(b *engine.Batch) {
	if slab(b).Way.In == nil && !l.layout.Turns && l.holds.Any.Load() > 0 {
		l.holds.Admit(b, nil, func(_ int, m *engine.Message) order.Role {
			if msg(m).State == inside.Live {
				return order.Asks
			}
			return 0
		})
	}
}

// Merge is not for lanes: steps that merge need a batch, which Build checks.
func (l *lane) Merge(m *engine.Message) {
	l.out.countMerge(m)
	steps.FailAt(m, "", engine.Errorf(engine.Permanent,
		"a step that merges needs whole batches: write it under `processors` of a batcher or an output"))
}

// Hold has nothing to do in an input's own steps, where gaps keep order.
func (l *lane) Hold(b *engine.Batch, at inside.Stage) {
	if l.out.in == nil {
		l.await()
		l.holds.Behind(b, at, nil)
	}
}

// Split makes parts a slab at a time and carries each to its queues before the next.
// Parts whose steps see what those before them have written go one by one.
func (l *lane) Split(ctx context.Context, x *steps.Executor, b *engine.Batch, pc int32) *engine.Batch {
	arena := l.partArena()
	lent := l.inUse
	alone := l.layout.Serial && l.out.in == nil
	last := steps.Pull(b, flow.Adopt(flow.NewSlab(0), arena), &x.Prog.Ops[pc],
		func(cur *engine.Batch, part bool) *engine.Batch {
			if l.parts > partBytes { // others may need what is left
				l.credits.Put(l.allow, 0, 0)
				l.allow, l.parts = 0, 0
			}
			if n := len(slab(cur).Msgs); n == inside.SlabSize || part && n > 0 && (alone || l.allow == 0) {
				if alone {
					l.admit(cur)
				}
				l.carry(x.Exec(ctx, cur, pc+1))
				l.takeBack(lent)
				arena.Reset()
				cur = flow.Adopt(flow.NewSlab(0), arena)
			}
			if part && !l.credit(ctx) {
				return nil
			}
			return cur
		}, l.part, l.parted)
	flow.Recycle(b)
	if alone {
		l.admit(last)
	}
	return last
}

// partArena lends an arena for slabs of parts until the lane is done with the
// slab that they come from, whose documents the parts may still be drawn from.
func (l *lane) partArena() *doc.Arena {
	if l.inUse == len(l.spare) {
		l.spare = append(l.spare, &doc.Arena{Owner: l.x.Room})
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
	case l.Handing() || ctx.Err() != nil:
		return false
	case l.reads:
		l.allow = l.credits.Split(l.expired, inside.SlabSize, true)
	default:
		l.lanes.queue.Rest()
		l.allow = l.credits.Split(l.expired, inside.SlabSize, false)
		l.lanes.queue.Resume()
	}
	if l.allow == 0 {
		return false
	}
	l.allow--
	return true
}

func (l *lane) part(_, p *engine.Message) {
	msg(p).Credits, msg(p).Charge = 1, len(msg(p).Orig)
	l.parts += msg(p).Charge
	l.credits.Charge(0, msg(p).Charge)
	ledger.EachRoot(p, func(r ledger.Root) { r.Add(1) })
	l.holds.Share(p)
	l.out.made++
}

func (l *lane) parted(m *engine.Message, _ int) { l.out.consume(m) }

// carry delivers b, unless the run is over and all of it was handed back.
func (l *lane) carry(b *engine.Batch) {
	l.await()
	if !l.Enter() {
		return
	}
	defer l.Leave()
	l.out.read = l.was
	l.deliver(b)
}

// route ends what has ended in b and sends the rest to where it belongs.
func (l *lane) route(b *engine.Batch) {
	if to := l.batching.sole; to != nil && !l.layout.Ordered && allLive(b) {
		flow.Release(b)
		l.out.sendAll(to, b)
		l.out.apply()
		return
	}
	if l.layout.Ordered && (l.holds.Any.Load() > 0 || away(b)) {
		l.holds.Admit(b, nil, func(_ int, m *engine.Message) order.Role {
			switch msg(m).State {
			case inside.Live:
				return order.Asks
			case inside.Waits, inside.Parked:
				return order.Owns // before later ones of its key continue
			}
			return 0
		})
	}
	l.to = append(l.to[:0], make([]*batcher, len(slab(b).Msgs))...)
	var only *batcher
	same, alive := true, 0
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		var to *batcher
		if msg(m).State == inside.Live {
			to = l.batching.route(&l.out, m)
		}
		if to == nil {
			l.out.conclude(m, nil)
			continue
		}
		same = same && (only == nil || only == to)
		only = to
		l.to[i] = to
		alive++
	}
	switch {
	case alive == 0:
		flow.Recycle(b)
	case same && 4*alive > len(slab(b).Msgs):
		sweep(b, alive)
		flow.Release(b) // splices here, where lanes share the work
		l.out.sendAll(only, b)
	default:
		for i := range slab(b).Msgs {
			if l.to[i] != nil {
				l.out.send(l.to[i], &slab(b).Msgs[i])
			}
		}
		flow.Recycle(b)
	}
	l.out.apply()
}
