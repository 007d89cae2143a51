package engine

import "sync"

// parking is a message that left the running call to go on later.
type parking struct {
	mu      sync.Mutex // guards the fields below
	r       *run
	m       Message
	out     *outRun   // that was writing it; nil: a step
	step    *op       // that parked it
	before  *snapshot // what its on_error may restore
	armed   bool      // m is here
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
	p := m.parked
	t.leave(m)
	m.doc.Detach()
	p.mu.Lock()
	p.m, p.r, p.out, p.armed = *m, t.r, out, true
	p.m.parked, p.m.batch = nil, nil
	ready := p.resumed
	p.mu.Unlock()
	m.state = moved
	if ready {
		go p.proceed() // the caller holds the fence
	}
}

// proceed lets the message go on behind its step, or ends it in its output.
func (p *parking) proceed() {
	r, m := p.r, &p.m
	if !r.enter() {
		return
	}
	defer r.leave()
	m.state = live
	if p.edit != nil {
		if err := p.apply(); err != nil {
			m.Fail(err)
		}
	}
	if m.state == failed && p.step != nil {
		p.step.failed(m, m.err, p.before)
	}
	t := tally{r: r, past: true}
	switch {
	case m.state == live && p.out == nil:
		t.beyond -= int(m.credits)
		b := newSlab(0)
		b.take(m)
		r.upstream.Add(1)
		t.apply()
		r.lanes.push(b)
		return
	case m.state == live:
		m.state = done
	}
	t.conclude(m, p.out)
	t.apply()
}

func (p *parking) apply() (err error) {
	defer recovered(&err)
	return p.edit(&p.m)
}
