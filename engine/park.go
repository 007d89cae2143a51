package engine

import (
	"time"
)

// aside is a message that has left a call to go on later.
type aside struct {
	*Parking
	r     *run
	m     Message
	in    *inputPlan // in whose own steps it was; nil: elsewhere
	out   *outRun    // whose it was; nil: a lane's
	batch *Batch     // like that in which it was there; nil: none
}

// park takes m over from its slab.
func (t *tally) park(m *Message, out *outRun) {
	p := &aside{Parking: m.in.Parking, r: t.r, in: t.in, out: out}
	t.leave(m)
	t.own(m, out)
	m.in.Doc.Detach()
	p.m = *m
	p.m.in.Batch, p.m.in.Parking = nil, nil
	if m.in.Batch != nil {
		p.batch = m.in.Batch.in.Like() // that one may be used again
		p.batch.in.Arena = nil
	}
	m.in.State = moved
	switch resumed := p.Arm(p.proceed); {
	case resumed:
		go p.proceed() // the caller holds the fence
	case p.Delay > 0:
		n := p.m.weight()
		t.r.credits.keep(n)
		t.r.timers.aside(time.Now().Add(p.Delay), p, func() {
			t.r.credits.keep(-n)
			p.Resume()
		})
	}
}

// proceed lets the message go on behind its step, or ends it in its output.
func (p *aside) proceed() {
	r, m := p.r, &p.m
	step := p.step()
	if !r.enter() {
		return
	}
	defer r.leave()
	m.in.State = live
	if p.Edit != nil {
		if err := p.apply(); err != nil {
			m.Fail(err)
		}
	}
	if m.in.State == failed && step != nil {
		if p.Before != nil {
			m.SetBytes(p.Before.body)
			m.Meta = p.Before.meta
		}
		step.failed(m, m.in.Err)
	}
	t := tally{r: r, past: true, in: p.in}
	m.in.Batch = p.batch
	switch {
	case m.in.State == live && step != nil:
		setTrial(m, trialOf(m).over())
		b := p.slab()
		b.in.Take(m)
		t.goOn(b, p.out)
	case m.in.State == live:
		m.in.State = done
		fallthrough
	default:
		t.conclude(m, p.out)
	}
	t.apply()
}

// step is the step that parked the message, or nil.
func (p *aside) step() *op {
	o, _ := p.Step.(*op)
	return o
}

// slab is an empty slab like that from which the message came.
func (p *aside) slab() *Batch {
	b := p.batch
	if b == nil {
		b = slabFor(1)
	}
	b.in.Stage = p.m.in.Stage
	setInput(b, p.in)
	return b
}

func (p *aside) apply() (err error) {
	defer recovered(&err)
	return p.Edit(&p.m)
}

func (p *aside) message() *Message { return &p.m }
