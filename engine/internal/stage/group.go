package stage

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// group collects messages from the lanes into batches. The workers of its stage run the steps of the group over each batch
// and send the messages back to the lanes.
type group struct {
	plan  *GroupPlan
	stage *stage
	*settlement
	intake *intake

	mu     sync.Mutex    // guards the fields below; held while batches are queued, so that they keep their order
	open   *engine.Batch // the batch that grows; nil: none
	bytes  int           // of payload in it
	due    time.Time     // when the open batch times out
	armed  bool          // a timer will call timeUp
	sent   sent
	riders *engine.Batch   // messages that skip the steps, but must not overtake the open batch; nil: none
	ridden map[string]bool // the order keys of riders
	keys   map[string]int  // order keys of messages that are on their way into the open batch, or in it; nil: not needed
}

func newGroup(s *settlement, in *intake, plan *GroupPlan) *group {
	g := &group{settlement: s, intake: in, plan: plan, sent: sent{}}
	g.stage = newStage(s, plan.Name, plan.Steps, s.layout.Workers, g)
	g.stage.batched = true
	if plan.AtOnce {
		g.stage.rest = func() { g.flush(engine.ByTimeout) }
	}
	if s.layout.Workers > 1 || s.layout.Ordered {
		g.stage.chains = map[string][]*entry{}
	}
	if s.layout.Ordered && plan.Skipped {
		g.keys = map[string]int{}
	}
	return g
}

// Gather moves the messages of a lane that have reached a group into it.
func (l *lane) Gather(b *engine.Batch, sel []int32, o *steps.Op) {
	g := l.batching.groups[o.Group-1]
	o.Figures.Called(len(sel), 0)
	var entering map[string]bool
	if g.keys != nil {
		entering = map[string]bool{}
		for _, i := range sel {
			order.EachLeafKey(&slab(b).Msgs[i], func(leaf *engine.Message) { entering[string(leaf.Key)] = true })
		}
	}
	comes := func(m *engine.Message) bool {
		return msg(m).State == inside.Live && msg(m).Groups <= g.plan.Index && msg(m).PC >= o.At
	}
	if l.layout.Ordered {
		l.holds.Admit(b, nil, func(_ int, m *engine.Message) order.Role {
			switch {
			case comes(m):
				return order.Asks
			case msg(m).State == inside.Failed || msg(m).State == inside.Waits || msg(m).State == inside.Parked:
				return order.Owns // before later messages of its key continue
			}
			return 0
		})
	}
	by := l.by[:0]
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		enters := len(sel) > 0 && sel[0] == int32(i)
		if enters {
			sel = sel[1:]
		}
		switch {
		case !comes(m):
			continue
		case !enters && !g.hasKeyOf(m):
			l.out.freed = append(l.out.freed, l.holds.ComesBy(m, g.plan.Index+1)...)
			by = append(by, int32(i))
			continue
		case enters:
			if o.Enters {
				steps.Enter(m, o)
			}
			msg(m).Back, msg(m).PC = o.Next, 0
		default:
			msg(m).Back, msg(m).PC, msg(m).Groups = msg(m).PC, int32(len(g.plan.Steps.Ops)), g.plan.Index+1
		}
		msg(m).Stage = inside.InOutput
		retry.SetTrial(m, nil)
		g.expect(m)
		l.out.send(g, m)
	}
	l.by = by
	if len(by) == 0 || !l.layout.Ordered {
		return
	}
	l.holds.Admit(b, nil, func(i int, m *engine.Message) order.Role { // they wait behind messages that have left the group
		if _, is := slices.BinarySearch(by, int32(i)); !is {
			return 0
		}
		if order.HasOne(m, entering) { // later messages of the key enter the group, and may leave it earlier
			return order.Asks | order.Owns
		}
		return order.Asks
	})
}

// hasKeyOf says whether the group has a message with one of m's keys. m does not enter the group, but must not overtake
// that message. It then goes through the queue of the group and skips its steps.
func (g *group) hasKeyOf(m *engine.Message) (yes bool) {
	if g.keys == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	order.EachLeafKey(m, func(leaf *engine.Message) {
		yes = yes || g.keys[string(leaf.Key)] > 0 || g.stage.hasKey(leaf.Key)
	})
	return yes || g.holds.HeldAt(m, g.stage.keyPlace())
}

// expect notes that m is on its way into the group.
func (g *group) expect(m *engine.Message) {
	if g.keys == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	order.EachLeafKey(m, func(leaf *engine.Message) { g.keys[string(leaf.Key)]++ })
}

// Push adds messages to the open batch. Any lane may call it.
func (g *group) Push(b *engine.Batch) {
	g.come(len(slab(b).Msgs))
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		g.lanes.grouped.Add(1)
		if msg(m).Groups > p.Index {
			g.ride(m)
			continue
		}
		size := m.Size()
		switch {
		case g.open != nil && p.Bytes > 0 && g.bytes+size > p.Bytes:
			g.shut(engine.ByBytes)
		case order.HasOne(m, g.ridden):
			g.shut(engine.ByFlush)
		}
		if g.open == nil {
			g.open = flow.BatchOf(engine.Slab{Stage: inside.InOutput})
			g.arm(time.Now())
		}
		slab(g.open).Take(m)
		if g.bytes += size; len(slab(g.open).Msgs) == p.Size {
			g.shut(engine.BySize)
		}
	}
	flow.Recycle(b)
	switch {
	case g.intake.hurried.Load() > 0:
		g.shut(engine.ByRevoke)
	case g.open == nil && g.riders != nil:
		g.shut(engine.BySize)
	case g.plan.AtOnce && g.open != nil && g.stage.hasIdle():
		g.shut(engine.ByTimeout)
	}
}

// ride adds a message that skips the steps and must not overtake messages in the group; g.mu is held.
func (g *group) ride(m *engine.Message) {
	if g.riders == nil {
		g.riders, g.ridden = flow.BatchOf(engine.Slab{Stage: inside.InOutput}), map[string]bool{}
	}
	order.EachLeafKey(m, func(leaf *engine.Message) { g.ridden[string(leaf.Key)] = true })
	slab(g.riders).Take(m)
}

// arm sets the timer of the open batch; g.mu is held.
func (g *group) arm(now time.Time) {
	if g.plan.AtOnce {
		return
	}
	g.due = now.Add(g.plan.Wait)
	if !g.armed {
		g.armed = true
		g.timers.After(g.due, nil, g.timeUp)
	}
}

func (g *group) timeUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	switch {
	case g.open == nil:
	case time.Now().Before(g.due):
		g.armed = true
		g.timers.After(g.due, nil, g.timeUp)
	default:
		g.shut(engine.ByTimeout)
	}
}

// shut hands the open batch to the workers, and its riders behind it; g.mu is held.
func (g *group) shut(why engine.Trigger) {
	open, riders := g.open, g.riders
	g.open, g.riders, g.ridden, g.bytes = nil, nil, nil, 0
	if open != nil {
		n := len(slab(open).Msgs)
		if g.sent.add(why) {
			g.warnEarly(g.place())
		}
		g.layout.EmitEvent(engine.Event{Kind: engine.EventBatch, Name: g.plan.Name, N: n, Reason: string(why)})
		g.queue(open, why)
	}
	if riders != nil {
		g.queue(riders, why)
	}
}

// queue hands a batch to the workers; g.mu is held.
func (g *group) queue(b *engine.Batch, why engine.Trigger) {
	slab(b).Trigger, slab(b).Size = why, len(slab(b).Msgs)
	for i := range slab(b).Msgs {
		msg(&slab(b).Msgs[i]).Index = int32(i)
	}
	g.lanes.grouped.Add(int64(-slab(b).Size))
	var keys []string
	if g.keys != nil {
		for i := range slab(b).Msgs {
			order.EachLeafKey(&slab(b).Msgs[i], func(leaf *engine.Message) { keys = append(keys, string(leaf.Key)) })
		}
	}
	g.stage.Push(b)
	for _, k := range keys { // from now on, stage.hasKey finds them
		if g.keys[k]--; g.keys[k] == 0 {
			delete(g.keys, k)
		}
	}
}

// flush closes the open batch, and says whether there was one.
func (g *group) flush(why engine.Trigger) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil && g.riders == nil {
		return false
	}
	g.shut(why)
	return true
}

func (g *group) worker() *worker { return newWorker(g.stage) }

// next takes a batch. Batches that are tried again come first.
func (g *group) next() (*engine.Batch, bool) {
	for _, from := range []*flow.SlabList{&g.stage.again, &g.stage.ready} {
		if from.Head != nil {
			return g.stage.takeFrom(from, inside.SlabSize), false
		}
	}
	return nil, false
}

// serve runs the steps over b and sends it back to the lanes.
func (g *group) serve(ctx context.Context, w *worker, b *engine.Batch, _ bool) bool {
	n := len(slab(b).Msgs)
	b = w.steps(ctx, w.beginBatch(b))
	var claims func() []*order.Claim
	if g.layout.Ordered {
		w.conclude(b)
		claims = func() []*order.Claim { return g.holds.Rejoin(b, g.plan.Index+1) }
	}
	w.finish(b, claims)
	w.endBatch()
	g.carried(n)
	return true
}

// come counts messages that will go on to the lanes.
func (g *group) come(n int) { g.lanes.upstream.Add(int64(n)) }

// forward sends m, which has gone through the group's steps, back to the lanes.
func (g *group) forward(out *outcome, m *engine.Message) {
	msg(m).Batch, msg(m).BatchKey = nil, ""
	retry.SetTrial(m, nil)
	msg(m).Stage, msg(m).PC, msg(m).Groups = inside.Fresh, msg(m).Back, g.plan.Index+1
	out.beyond -= flow.Weight(m)
	out.put(out.lanes, m)
}

// retry has nothing to do: only steps fail in a group, and they try again themselves.
func (g *group) retry(*outcome, *engine.Message) bool { return false }

// wait has nothing to do: a group is never held.
func (g *group) wait(*engine.Batch) {}
