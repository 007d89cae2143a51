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

	turn   uint64        // when it may pass on its slab, see flow.Turns; 0: at any time
	waited time.Duration // for its turn

	deliver func(b *engine.Batch) // takes slabs that have gone through the steps
	reads   bool                  // runs an input's own steps, in its reader
}

func newLane(s *settlement, to *batching, index int) *lane {
	l := &lane{settlement: s, batching: to, index: index, out: outcome{settlement: s}, seen: map[string]bool{}}
	l.x.Own, l.x.Wrap, l.x.Room = l, s.layout.Middleware, s.room()
	l.x.Sight = s.layout.Sight()
	l.arena.Owner = l.x.Room
	return l
}

// loop runs until the queue is closed.
func (l *lane) loop(ctx context.Context) {
	cost := runTime // of one message; until it is known, leave the other messages to other lanes
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
			if l.turn = turn; slab(b).Way.In != nil { // it may wait for credits of lanes that wait for their turns
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

// await waits until other lanes have passed on all slabs that were taken before this one. Only afterwards may the lane do
// anything that the order of messages depends on.
func (l *lane) await() {
	if t := &l.lanes.queue.Turns; l.turn > 0 && !t.Due(l.turn) {
		began := time.Now()
		t.Wait(l.turn)
		l.waited += time.Since(began)
	}
}

// endTurn lets the lane with the next slab pass it on.
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

// through runs messages through the steps together.
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

// check sets the order keys of messages. It fails messages that got a key before their payload was found to be invalid.
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

// forgetEarly resets the key of m to the one that it was read with.
func forgetEarly(m *engine.Message) {
	if msg(m).Early {
		at := ledger.RootOf(m)
		m.Key, msg(m).Early = at.Led.Key(int(at.I)), false
	}
}

// admit holds messages that must wait for earlier messages of their keys. Where lanes take turns, route does that.
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

// Hold makes messages that failed or wait in a step hold their keys. In an input's own steps, gaps keep the order instead.
func (l *lane) Hold(b *engine.Batch, at inside.Stage) {
	if l.out.in == nil {
		l.await()
		l.holds.Behind(b, at, nil)
	}
}

// Split makes parts a slab at a time and carries each to its queues before the next.
// Where steps must see the writes of earlier parts, each part goes by itself.
func (l *lane) Split(ctx context.Context, x *steps.Executor, b *engine.Batch, pc int32) *engine.Batch {
	arena := l.partArena()
	lent := l.inUse
	alone := l.layout.Serial && l.out.in == nil
	last := steps.Pull(b, flow.Adopt(flow.NewSlab(0), arena), &x.Prog.Ops[pc],
		func(cur *engine.Batch, part bool) *engine.Batch {
			if l.parts > partBytes { // other lanes may need the credits that are left
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

// carry delivers b, unless the run has handed back all messages.
func (l *lane) carry(b *engine.Batch) {
	l.await()
	if !l.Enter() {
		return
	}
	defer l.Leave()
	l.out.read = l.was
	l.deliver(b)
}

// route settles the messages of b that have ended, and sends each of the others to its batcher.
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
