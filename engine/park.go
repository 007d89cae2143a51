package engine

import (
	"sync"
	"time"
)

// parking is a message that left the running call to go on later.
type parking struct {
	mu      sync.Mutex // guards the fields below
	r       *run
	m       Message
	in      *inputPlan    // in whose own steps it was; nil: elsewhere
	out     *outRun       // whose it was; nil: a lane's
	batch   *Batch        // like that in which it was there; nil: none
	step    *op           // that parked it; nil: a write
	before  *original     // what its on_error may restore
	delay   time.Duration // resumed by the engine after this; 0: by whoever parked it
	armed   bool          // m is here
	resumed bool
	edit    func(*Message) error
}

// resume is what Park returns.
func (p *parking) resume(edit func(*Message) error) {
	p.mu.Lock()
	again := p.resumed
	if !again {
		p.resumed, p.edit = true, edit
	}
	ready := p.armed && !again
	p.mu.Unlock()
	if ready {
		p.proceed()
	}
}

// park takes m over from its slab.
func (t *tally) park(m *Message, out *outRun) {
	p := m.in.Parking
	t.leave(m)
	t.own(m, out)
	m.in.Doc.Detach()
	p.mu.Lock()
	p.m, p.r, p.in, p.out, p.armed = *m, t.r, t.in, out, true
	p.m.in.Batch, p.m.in.Parking = nil, nil
	if m.in.Batch != nil {
		p.batch = m.in.Batch.like() // that one may be used again
		p.batch.in.Arena = nil
	}
	ready := p.resumed
	p.mu.Unlock()
	m.in.State = moved
	switch {
	case ready:
		go p.proceed() // the caller holds the fence
	case p.delay > 0:
		n := p.m.weight()
		t.r.credits.keep(n)
		t.r.timers.parked(time.Now().Add(p.delay), p, func() {
			t.r.credits.keep(-n)
			p.resume(nil)
		})
	}
}

// proceed lets the message go on behind its step, or ends it in its output.
func (p *parking) proceed() {
	r, m := p.r, &p.m
	if !r.enter() {
		return
	}
	defer r.leave()
	m.in.State = live
	if p.edit != nil {
		if err := p.apply(); err != nil {
			m.Fail(err)
		}
	}
	if m.in.State == failed && p.step != nil {
		if p.before != nil {
			m.SetBytes(p.before.body)
			m.Meta = p.before.meta
		}
		p.step.failed(m, m.in.Err)
	}
	t := tally{r: r, past: true, in: p.in}
	m.in.Batch = p.batch
	switch {
	case m.in.State == live && p.step != nil:
		setTrial(m, trialOf(m).over())
		b := p.slab()
		b.take(m)
		t.goOn(b, p.out)
	case m.in.State == live:
		m.in.State = done
		fallthrough
	default:
		t.conclude(m, p.out)
	}
	t.apply()
}

// slab is an empty slab like that from which the message came.
func (p *parking) slab() *Batch {
	b := p.batch
	if b == nil {
		b = slabFor(1)
	}
	b.in.Stage = p.m.in.Stage
	setInput(b, p.in)
	return b
}

func (p *parking) apply() (err error) {
	defer recovered(&err)
	return p.edit(&p.m)
}
