package engine

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Composed is the configuration of an output that consists of others.
type Composed interface{ Members() Names }

// Fallback makes the output that sends to its members one after the other: to the
// next what one has failed for good.
func Fallback() Output { return &compositeOutput{kind: fallback} }

// RoundRobin makes the output that sends to its members in turn.
func RoundRobin() Output { return &compositeOutput{kind: roundRobin} }

// Partition makes the output that sends equal keys to the same member.
func Partition(key expr.Expr) Output { return &compositeOutput{kind: partition, key: &key} }

type routeKind uint8

const (
	fallback routeKind = iota
	roundRobin
	partition
)

// compositeOutput is plan, not plugin: it only says where messages go.
type compositeOutput struct {
	kind routeKind
	key  *expr.Expr
}

// Write is never called inside a pipeline.
func (*compositeOutput) Write(context.Context, *Batch) error {
	return Errorf(Permanent, "this output only works inside a pipeline")
}

// routePlan is a composite with its members.
type routePlan struct {
	compositeOutput
	members []*outputPlan
}

// routes resolves the members of composites, when all outputs are known.
func (b *builder) routes() {
	for i, e := range b.spec.Outputs.Entries() {
		c, ok := e.Value.Use.Config.(Composed)
		if !ok || b.plan.outputs[i].route == nil {
			continue
		}
		o, at := b.plan.outputs[i], e.Value.Use.Place
		for _, name := range c.Members() {
			if member := b.plan.output(name); member != nil {
				o.route.members = append(o.route.members, member)
			}
		}
		if len(c.Members()) == 0 {
			b.report(at, "no-output", "no output is named here", "name at least one of `outputs`")
		}
	}
	for _, o := range b.plan.outputs {
		if o.route != nil && o.leadsTo(o, nil) {
			o.route.members = nil // it is reported
		}
	}
}

func (o *outputPlan) leadsTo(to *outputPlan, seen []*outputPlan) bool {
	if o.route == nil || slices.Contains(seen, o) {
		return false
	}
	for _, m := range o.route.members {
		if m == to || m.leadsTo(to, append(seen, o)) {
			return true
		}
	}
	return false
}

// leaves are the outputs that are written to.
func (o *outputPlan) leaves() []*outputPlan {
	if o.route == nil {
		return []*outputPlan{o}
	}
	var all []*outputPlan
	for _, m := range o.route.members {
		all = append(all, m.leaves()...)
	}
	return all
}

// membersOf names the outputs that others of a section consist of.
func membersOf(outputs schema.Map[OutputSpec]) map[string]bool {
	members := map[string]bool{}
	for _, o := range outputs.All() {
		if c, ok := o.Use.Config.(Composed); ok {
			for _, name := range c.Members() {
				members[name] = true
			}
		}
	}
	return members
}

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
		x.r.log.Warn("message goes to the next output of a fallback", "output", x.plan.name, "from", x.plan.route.members[i].name, "to", x.plan.route.members[i+1].name, "err", m.err, "so_far", n)
	}
}

// via is a message's place in a fallback: who takes it when an output fails it.
type via struct {
	of    *routeRun
	i     int
	outer *via
	found *original // the message as the output's own steps found it
}

// bare is the place without a message.
func (v *via) bare() *via {
	if v == nil || v.found == nil {
		return v
	}
	return &via{of: v.of, i: v.i, outer: v.outer}
}

// remember keeps messages as an output's own steps find them.
func (b *Batch) remember(at stage) {
	for i := range b.msgs {
		m := &b.msgs[i]
		if v := m.via; v != nil && v.found == nil && m.state == live && (at < inOutput || m.pc == 0) {
			m.via = &via{of: v.of, i: v.i, outer: v.outer, found: &original{m.Bytes(), m.Meta}}
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
	switch kind := x.plan.route.kind; {
	case kind == fallback:
		x.mark(b, 0)
		x.members[0].push(b)
	case kind == partition:
		x.part(b, x.keyed(b))
	case b.trigger != "": // a batch stays whole
		x.members[(x.turn.Add(1)-1)%uint64(len(x.members))].push(b)
	default:
		first := x.turn.Add(uint64(len(b.msgs))) - uint64(len(b.msgs))
		to := make([]int, len(b.msgs))
		for i := range to {
			to[i] = int((first + uint64(i)) % uint64(len(x.members)))
		}
		x.part(b, to)
	}
}

// mark notes in messages that they are on their way to the i-th member.
func (x *routeRun) mark(b *Batch, i int) {
	for n := range b.msgs {
		m := &b.msgs[n]
		if m.via == nil {
			m.via = x.vias[i]
		} else {
			m.via = &via{of: x, i: i, outer: m.via}
		}
	}
}

// keyed chooses members by key. What has no key, or fails, is at -1.
func (x *routeRun) keyed(b *Batch) []int {
	to := make([]int, len(b.msgs))
	for i := range b.msgs {
		m := &b.msgs[i]
		key, ok, err := x.plan.route.key.AppendKey(nil, m)
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
	for i := range b.msgs {
		m := &b.msgs[i]
		if to[i] < 0 {
			m.doc.Detach()
			bad = append(bad, *m)
			continue
		}
		if parts[to[i]] == nil {
			p := b.like()
			p.arena = nil
			parts[to[i]] = p
		}
		parts[to[i]].take(m)
	}
	if len(bad) > 0 {
		go x.end(bad) // the caller may hold the fence
	}
	if b.slot != nil {
		go b.slot.landed() // which may be sending this batch
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
	if out == nil || m.err.Output == "" || m.via == nil || t.r.handing.Load() {
		return false
	}
	if len(m.of) > 0 && m.part == 0 && m.of[0].via != nil && m.of[0].via.found != nil {
		return false // merged by the output's own steps, which the next one does not share
	}
	v := m.via.next()
	if v == nil {
		return false
	}
	if m.via.found != nil {
		m.doc.Reset(m.via.found.body, nil)
		m.Meta = m.via.found.meta
	}
	v.of.passed(m, v.i)
	var tr *trial
	if m.dead { // it goes on saying why it is one
		m.err = m.trial.reason
		tr = &trial{reason: m.err}
	} else {
		m.explain()
	}
	m.state, m.stage, m.pc, m.trial = live, inOutput, 0, tr
	if m.via = v.of.vias[v.i+1]; v.outer != nil {
		m.via = &via{of: v.of, i: v.i + 1, outer: v.outer}
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
	of := m.batch
	for i := range t.onward {
		if s := &t.onward[i]; s.to == to && s.of == of && s.b.stage == at && of != nil {
			s.b.take(m)
			return
		}
	}
	b := newSlab(0)
	if of != nil {
		b = of.like()
		b.arena = nil
	}
	b.stage = at
	b.take(m)
	t.onward = append(t.onward, sending{to: to, b: b, of: of})
}
