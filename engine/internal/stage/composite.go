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

// composite is an output that leads to others: a fallback, a partition or a round robin.
type composite struct {
	*settlement
	plan     *OutputPlan
	members  []destination
	branches []*branch     // of a fallback that is in no other
	rounds   atomic.Uint64 // of a round robin
	failed   atomic.Int64  // messages that went on to another member
}

// newComposite makes an output that leads to others, and those that are composites, too.
func newComposite(s *settlement, o *OutputPlan) destination {
	if to := s.outputs[o]; to != nil {
		return to
	}
	x := &composite{settlement: s, plan: o}
	s.outputs[o] = x
	for i, m := range o.Route.Members {
		x.members = append(x.members, newComposite(s, m))
		x.branches = append(x.branches, &branch{of: x, i: i})
	}
	return x
}

// Push sends a slab on to the members.
func (x *composite) Push(b *engine.Batch) {
	switch {
	case x.plan.Route.Fallback:
		x.mark(b, 0)
		x.members[0].Push(b)
	case x.plan.Route.Key != nil:
		x.distribute(b, x.keyed(b))
	case slab(b).Trigger != "": // a batch stays whole
		x.members[(x.rounds.Add(1)-1)%uint64(len(x.members))].Push(b)
	default:
		first := x.rounds.Add(uint64(len(slab(b).Msgs))) - uint64(len(slab(b).Msgs))
		to := make([]int, len(slab(b).Msgs))
		for i := range to {
			to[i] = int((first + uint64(i)) % uint64(len(x.members)))
		}
		x.distribute(b, to)
	}
}

// mark notes in messages that they go to the i-th member.
func (x *composite) mark(b *engine.Batch, i int) {
	for n := range slab(b).Msgs {
		m := &slab(b).Msgs[n]
		if v := branchOf(m); v == nil {
			setBranch(m, x.branches[i])
		} else {
			setBranch(m, &branch{of: x, i: i, outer: v})
		}
	}
}

// keyed chooses a member for each message, by key. A message without a key gets the first; -1: it has failed.
func (x *composite) keyed(b *engine.Batch) []int {
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

// distribute sends each message to its member.
func (x *composite) distribute(b *engine.Batch, to []int) {
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
		go x.settleFailed(bad) // the caller may be inside the fence
	}
	if limiter := limiterOf(b); limiter != nil {
		go limiter.written() // it may be what is sending this batch
	}
	flow.Recycle(b)
	for i, p := range parts {
		if p != nil {
			x.members[i].Push(p)
		}
	}
}

// settleFailed settles messages that have failed here.
func (x *composite) settleFailed(all []engine.Message) {
	x.settle(func(out *outcome) {
		for i := range all {
			out.conclude(&all[i], nil)
		}
	})
}

// passed logs the 1st, 10th, 100th … message that continues to the next member.
func (x *composite) passed(m *engine.Message, i int) {
	if n := x.failed.Add(1); guard.PowerOfTen(n) {
		members := x.plan.Route.Members
		x.Log.Warn("message continues with the next output of its fallback", "output", x.plan.Name,
			"from", members[i].Name, "to", members[i+1].Name, "err", msg(m).Err, "so_far", n)
	}
}

// branch is the place of a message in a fallback, which says what output takes the message if this one fails it.
type branch struct {
	of       *composite
	i        int
	outer    *branch
	original *steps.Original // the message as the output's own steps found it
}

// branchOf is how m came to the output at hand, or nil.
func branchOf(m *engine.Message) *branch {
	if msg(m).Rare == nil {
		return nil
	}
	v, _ := msg(m).Rare.Via.(*branch)
	return v
}

func setBranch(m *engine.Message, v *branch) {
	switch {
	case v != nil:
		msg(m).SetVia(v)
	case msg(m).Rare != nil:
		msg(m).SetVia(nil)
	}
}

// next is the branch of the innermost fallback that has another member; nil: none has.
func (v *branch) next() *branch {
	for v != nil && v.i+1 == len(v.of.members) {
		v = v.outer
	}
	return v
}

// bare is v without the original message.
func (v *branch) bare() *branch {
	if !v.hasOriginal() {
		return v
	}
	return &branch{of: v.of, i: v.i, outer: v.outer}
}

func (v *branch) hasOriginal() bool { return v != nil && v.original != nil }

// dropOriginal forgets the original of m, which an output's own steps have made of it.
func dropOriginal(m *engine.Message) { setBranch(m, branchOf(m).bare()) }

// keepOriginal keeps messages as the output's own steps find them, for the next member of a fallback.
func keepOriginal(b *engine.Batch, at inside.Stage) {
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		fresh := at < inside.InOutput || msg(m).PC == 0
		if v := branchOf(m); v != nil && v.original == nil && msg(m).State == inside.Live && fresh {
			setBranch(m, &branch{of: v.of, i: v.i, outer: v.outer, original: steps.OriginalOf(m)})
		}
	}
}
