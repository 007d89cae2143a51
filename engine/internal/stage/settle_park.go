package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// aside is a message that has left a call to go on later.
type aside struct {
	*engine.Parking
	r     *Run
	m     engine.Message
	in    *InputPlan    // in whose own steps it was; nil: elsewhere
	at    *stage        // whose it was; nil: a lane's
	batch *engine.Batch // like that in which it was there; nil: none
}

// park takes m over from its slab.
func (t *tally) park(m *engine.Message, at *stage) {
	p := &aside{Parking: msg(m).Parking, r: t.r, in: t.in, at: at}
	t.leave(m)
	t.own(m, at)
	msg(m).Doc.Detach()
	p.m = *m
	msg(&p.m).Batch, msg(&p.m).Parking = nil, nil
	if msg(m).Batch != nil {
		p.batch = likeOf(msg(m).Batch)
	}
	msg(m).State = inside.Moved
	switch resumed := p.Arm(p.proceed); {
	case resumed:
		go p.proceed() // the caller holds the fence
	case p.Delay > 0:
		n := flow.Weight(&p.m)
		t.r.Credits.Keep(n)
		t.r.timers.Aside(time.Now().Add(p.Delay), p, func() {
			t.r.Credits.Keep(-n)
			p.Resume()
		})
	}
}

// proceed lets the message go on behind its step, or ends it in its output.
func (p *aside) proceed() {
	r, m := p.r, &p.m
	step := p.step()
	if !r.Enter() {
		return
	}
	defer r.Leave()
	msg(m).State = inside.Live
	if p.Edit != nil {
		if err := p.apply(); err != nil {
			m.Fail(err)
		}
	}
	if msg(m).State == inside.Failed && step != nil {
		if p.Before != nil {
			m.SetBytes(p.Before.Body)
			m.Meta = p.Before.Meta
		}
		step.Failed(m, msg(m).Err)
	}
	t := tally{r: r, past: true, in: p.in}
	msg(m).Batch = p.batch
	switch {
	case msg(m).State == inside.Live && step != nil:
		retry.SetTrial(m, retry.TrialOf(m).Over())
		b := p.slab()
		slab(b).Take(m)
		t.goOn(b, p.at)
	case msg(m).State == inside.Live:
		msg(m).State = inside.Done
		fallthrough
	default:
		t.conclude(m, p.at)
	}
	t.apply()
}

// step is the step that parked the message, or nil.
func (p *aside) step() *steps.Op {
	o, _ := p.Step.(*steps.Op)
	return o
}

// slab is an empty slab like that from which the message came.
func (p *aside) slab() *engine.Batch {
	b := p.batch
	if b == nil {
		b = flow.SlabFor(1)
	}
	slab(b).Stage = msg(&p.m).Stage
	setInput(b, p.in)
	return b
}

func (p *aside) apply() (err error) {
	defer engine.Recovered(&err)
	return p.Edit(&p.m)
}

func (p *aside) Message() *engine.Message { return &p.m }

// awaits is the limit that a message waits for.
func (p *aside) Awaits() (place, err string) {
	switch {
	case p.step() != nil:
		return "the limit of step " + p.step().Name, ""
	case p.at != nil:
		return "the limit of output " + p.at.name, ""
	}
	return "a limit", ""
}
