package stage

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// routeRun is a composite at work.
type routeRun struct {
	r       *Run
	plan    *OutputPlan
	members []destination
	vias    []*via        // of a fallback that is in no other
	turn    atomic.Uint64 // of a round robin
	failed  atomic.Int64  // messages that went on to another member
}

// target is where messages for an output go.
func (r *Run) target(o *OutputPlan) destination {
	if o.Route == nil {
		return r.sinks[o]
	}
	x := r.composites[o]
	if x == nil {
		x = &routeRun{r: r, plan: o}
		r.composites[o] = x
		for i, m := range o.Route.Members {
			x.members = append(x.members, r.target(m))
			x.vias = append(x.vias, &via{of: x, i: i})
		}
	}
	return x
}

// push sends a slab on to members.
func (x *routeRun) Push(b *engine.Batch) {
	switch kind := x.plan.Route.Kind; {
	case kind == engine.Fallback:
		x.mark(b, 0)
		x.members[0].Push(b)
	case kind == engine.Partition:
		x.part(b, x.keyed(b))
	case slab(b).Trigger != "": // a batch stays whole
		x.members[(x.turn.Add(1)-1)%uint64(len(x.members))].Push(b)
	default:
		first := x.turn.Add(uint64(len(slab(b).Msgs))) - uint64(len(slab(b).Msgs))
		to := make([]int, len(slab(b).Msgs))
		for i := range to {
			to[i] = int((first + uint64(i)) % uint64(len(x.members)))
		}
		x.part(b, to)
	}
}

// mark notes in messages that they are on their way to the i-th member.
func (x *routeRun) mark(b *engine.Batch, i int) {
	for n := range slab(b).Msgs {
		m := &slab(b).Msgs[n]
		if v := viaOf(m); v == nil {
			setVia(m, x.vias[i])
		} else {
			setVia(m, &via{of: x, i: i, outer: v})
		}
	}
}

// keyed chooses members by key. What has no key, or fails, is at -1.
func (x *routeRun) keyed(b *engine.Batch) []int {
	to := make([]int, len(slab(b).Msgs))
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		key, ok, err := x.plan.Route.Key.AppendKey(nil, m)
		switch {
		case err != nil:
			steps.FailAt(m, "key of output "+x.plan.Name, err)
			to[i] = -1
		case ok:
			to[i] = int(maphash.Bytes(flow.KeySeed, key) % uint64(len(x.members)))
		}
	}
	return to
}

// part sends each message to its member.
func (x *routeRun) part(b *engine.Batch, to []int) {
	parts := make([]*engine.Batch, len(x.members))
	var bad []engine.Message
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if to[i] < 0 {
			msg(m).Doc.Detach()
			bad = append(bad, *m)
			continue
		}
		if parts[to[i]] == nil {
			parts[to[i]] = likeOf(b)
		}
		slab(parts[to[i]]).Take(m)
	}
	if len(bad) > 0 {
		go x.End(bad) // the caller may hold the fence
	}
	if slot := slotOf(b); slot != nil {
		go slot.landed() // which may be sending this batch
	}
	flow.Recycle(b)
	for i, p := range parts {
		if p != nil {
			x.members[i].Push(p)
		}
	}
}

// end ends messages that have failed here.
func (x *routeRun) End(all []engine.Message) {
	if !x.r.Enter() {
		return
	}
	defer x.r.Leave()
	t := tally{r: x.r, past: true}
	for i := range all {
		t.conclude(&all[i], nil)
	}
	t.apply()
}

// passed logs the 1st, 10th, 100th … message that goes on to the next member.
func (x *routeRun) passed(m *engine.Message, i int) {
	if n := x.failed.Add(1); guard.PowerOfTen(n) {
		x.r.Log.Warn("message goes to the next output of a fallback", "output", x.plan.Name, "from", x.plan.Route.Members[i].Name, "to", x.plan.Route.Members[i+1].Name, "err", msg(m).Err, "so_far", n)
	}
}

// via is a message's place in a fallback: who takes it when an output fails it.
type via struct {
	of    *routeRun
	i     int
	outer *via
	found *engine.Original // the message as the output's own steps found it
}

// viaOf is how m came to the output at hand, or nil.
func viaOf(m *engine.Message) *via {
	if msg(m).Rare == nil {
		return nil
	}
	v, _ := msg(m).Rare.Via.(*via)
	return v
}

func setVia(m *engine.Message, v *via) {
	if msg(m).Rare != nil || v != nil {
		msg(m).SetRare(func(r *engine.Rare) { r.Via = inside.Slot(v) })
	}
}

// next is the innermost fallback that has another member; nil: none has.
func (v *via) next() *via {
	for v != nil && v.i+1 == len(v.of.members) {
		v = v.outer
	}
	return v
}

// bare is the place without a message.
func (v *via) bare() *via {
	if v == nil || v.found == nil {
		return v
	}
	return &via{of: v.of, i: v.i, outer: v.outer}
}

// forget makes m, which an output's own steps have made, one that came as they did.
func forgetFound(m *engine.Message) { setVia(m, viaOf(m).bare()) }

// remember keeps messages as an output's own steps find them.
func remember(b *engine.Batch, at inside.Stage) {
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if v := viaOf(m); v != nil && v.found == nil && msg(m).State == inside.Live && (at < inside.InOutput || msg(m).PC == 0) {
			setVia(m, &via{of: v.of, i: v.i, outer: v.outer, found: &engine.Original{Body: m.Bytes(), Meta: m.Meta}})
		}
	}
}
