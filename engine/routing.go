package engine

import (
	"hash/maphash"
	"sync/atomic"
)

// routeRun is a composite at work.
type routeRun struct {
	r       *run
	plan    *outputPlan
	members []destination
	vias    []*via        // of a fallback that is in no other
	turn    atomic.Uint64 // of a round robin
	failed  atomic.Int64  // messages that went on to another member
}

// passed logs the 1st, 10th, 100th … message that goes on to the next member.
func (x *routeRun) passed(m *Message, i int) {
	if n := x.failed.Add(1); powerOfTen(n) {
		x.r.log.Warn("message goes to the next output of a fallback", "output", x.plan.name, "from", x.plan.route.members[i].name, "to", x.plan.route.members[i+1].name, "err", m.in.Err, "so_far", n)
	}
}

// via is a message's place in a fallback: who takes it when an output fails it.
type via struct {
	of    *routeRun
	i     int
	outer *via
	found *Original // the message as the output's own steps found it
}

// viaOf is how m came to the output at hand, or nil.
func viaOf(m *Message) *via {
	if m.in.Rare == nil {
		return nil
	}
	v, _ := m.in.Rare.Via.(*via)
	return v
}

func setVia(m *Message, v *via) {
	if m.in.Rare != nil || v != nil {
		m.in.SetRare(func(r *Rare) { r.Via = slot(v) })
	}
}

// forget makes m, which an output's own steps have made, one that came as they did.
func forgetFound(m *Message) { setVia(m, viaOf(m).bare()) }

// bare is the place without a message.
func (v *via) bare() *via {
	if v == nil || v.found == nil {
		return v
	}
	return &via{of: v.of, i: v.i, outer: v.outer}
}

// remember keeps messages as an output's own steps find them.
func (b *Batch) remember(at stage) {
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if v := viaOf(m); v != nil && v.found == nil && m.in.State == live && (at < inOutput || m.in.PC == 0) {
			setVia(m, &via{of: v.of, i: v.i, outer: v.outer, found: &Original{m.Bytes(), m.Meta}})
		}
	}
}

// target is where messages for an output go.
func (r *run) target(o *outputPlan) destination {
	if o.route == nil {
		return r.outputs[o]
	}
	x := r.composites[o]
	if x == nil {
		x = &routeRun{r: r, plan: o}
		r.composites[o] = x
		for i, m := range o.route.members {
			x.members = append(x.members, r.target(m))
			x.vias = append(x.vias, &via{of: x, i: i})
		}
	}
	return x
}

// push sends a slab on to members.
func (x *routeRun) push(b *Batch) {
	switch kind := x.plan.route.Kind; {
	case kind == Fallback:
		x.mark(b, 0)
		x.members[0].push(b)
	case kind == Partition:
		x.part(b, x.keyed(b))
	case b.in.Trigger != "": // a batch stays whole
		x.members[(x.turn.Add(1)-1)%uint64(len(x.members))].push(b)
	default:
		first := x.turn.Add(uint64(len(b.in.Msgs))) - uint64(len(b.in.Msgs))
		to := make([]int, len(b.in.Msgs))
		for i := range to {
			to[i] = int((first + uint64(i)) % uint64(len(x.members)))
		}
		x.part(b, to)
	}
}

// mark notes in messages that they are on their way to the i-th member.
func (x *routeRun) mark(b *Batch, i int) {
	for n := range b.in.Msgs {
		m := &b.in.Msgs[n]
		if v := viaOf(m); v == nil {
			setVia(m, x.vias[i])
		} else {
			setVia(m, &via{of: x, i: i, outer: v})
		}
	}
}

// keyed chooses members by key. What has no key, or fails, is at -1.
func (x *routeRun) keyed(b *Batch) []int {
	to := make([]int, len(b.in.Msgs))
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		key, ok, err := x.plan.route.Key.AppendKey(nil, m)
		switch {
		case err != nil:
			m.failAt("key of output "+x.plan.name, err)
			to[i] = -1
		case ok:
			to[i] = int(maphash.Bytes(keySeed, key) % uint64(len(x.members)))
		}
	}
	return to
}

// part sends each message to its member.
func (x *routeRun) part(b *Batch, to []int) {
	parts := make([]*Batch, len(x.members))
	var bad []Message
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if to[i] < 0 {
			m.in.Doc.Detach()
			bad = append(bad, *m)
			continue
		}
		if parts[to[i]] == nil {
			p := b.in.Like()
			p.in.Arena = nil
			parts[to[i]] = p
		}
		parts[to[i]].in.Take(m)
	}
	if len(bad) > 0 {
		go x.end(bad) // the caller may hold the fence
	}
	if slot := slotOf(b); slot != nil {
		go slot.landed() // which may be sending this batch
	}
	recycle(b)
	for i, p := range parts {
		if p != nil {
			x.members[i].push(p)
		}
	}
}

// end ends messages that have failed here.
func (x *routeRun) end(all []Message) {
	if !x.r.enter() {
		return
	}
	defer x.r.leave()
	t := tally{r: x.r, past: true}
	for i := range all {
		t.conclude(&all[i], nil)
	}
	t.apply()
}

// fallBack sends a message that an output has failed for good to the next member
// of the fallback by which it came. The payload is as that output found it.
func (t *tally) fallBack(m *Message, out *outRun) bool {
	if out == nil || m.in.Err.Output == "" || viaOf(m) == nil || t.r.handing() {
		return false
	}
	if len(m.in.Of) > 0 && m.in.Part == 0 && viaOf(&m.in.Of[0]) != nil && viaOf(&m.in.Of[0]).found != nil {
		return false // merged by the output's own steps, which the next one does not share
	}
	v := viaOf(m).next()
	if v == nil {
		return false
	}
	if viaOf(m).found != nil {
		m.in.Doc.Reset(viaOf(m).found.body, nil)
		m.Meta = viaOf(m).found.meta
	}
	v.of.passed(m, v.i)
	var tr *trial
	if m.in.Dead { // it goes on saying why it is one
		m.in.Err = trialOf(m).reason
		tr = &trial{reason: m.in.Err}
	} else {
		m.explain()
	}
	m.in.State, m.in.Stage, m.in.PC = live, inOutput, 0
	setTrial(m, tr)
	if setVia(m, v.of.vias[v.i+1]); v.outer != nil {
		setVia(m, &via{of: v.of, i: v.i + 1, outer: v.outer})
	}
	t.disown(m)
	t.goWith(v.of.members[v.i+1], m, inOutput)
	return true
}

// next is the innermost fallback that has another member; nil: none has.
func (v *via) next() *via {
	for v != nil && v.i+1 == len(v.of.members) {
		v = v.outer
	}
	return v
}

// goWith sends m on to an output in the batch in which it is, to take up there at
// a stage.
func (t *tally) goWith(to destination, m *Message, at stage) {
	of := m.in.Batch
	for i := range t.onward {
		if s := &t.onward[i]; s.to == to && s.of == of && s.b.in.Stage == at && of != nil {
			s.b.in.Take(m)
			return
		}
	}
	b := newSlab(0)
	if of != nil {
		b = of.in.Like()
		b.in.Arena = nil
	}
	b.in.Stage = at
	b.in.Take(m)
	t.onward = append(t.onward, sending{to: to, b: b, of: of})
}
