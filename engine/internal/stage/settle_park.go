package stage

import (
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/retry"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// parked is a message that a step or output has parked, see Message.Park.
type parked struct {
	*engine.Parking
	settlement *settlement
	m          engine.Message
	in         *InputPlan    // in whose own steps it was; nil: elsewhere
	at         *stage        // where it was parked; nil: in a lane
	batch      *engine.Batch // an empty batch like the one that it was in; nil: none
}

// park takes m over from its slab.
func (out *outcome) park(m *engine.Message, at *stage) {
	p := &parked{Parking: msg(m).Parking, settlement: out.settlement, in: out.in, at: at}
	out.leaveLanes(m)
	out.holdKeys(m, at)
	msg(m).Doc.Detach()
	p.m = *m
	msg(&p.m).Batch, msg(&p.m).Parking = nil, nil
	if msg(m).Batch != nil {
		p.batch = likeOf(msg(m).Batch)
	}
	msg(m).State = inside.Moved
	if p.Behind {
		out.beyond -= flow.Weight(&p.m)
	}
	switch resumed := p.Arm(p.resume); {
	case resumed:
		go p.resume() // the caller is inside the fence
	case p.Delay > 0:
		n := flow.Weight(&p.m)
		out.credits.Keep(n)
		out.timers.Aside(time.Now().Add(p.Delay), p, func() {
			out.credits.Keep(-n)
			p.Resume()
		})
	}
}

// resume lets the message continue behind its step; in an output, the message ends.
func (p *parked) resume() {
	m := &p.m
	step := p.step()
	p.settlement.settle(func(out *outcome) {
		out.in = p.in
		if p.Behind {
			out.beyond += flow.Weight(m)
		}
		msg(m).State = inside.Live
		if p.Edit != nil {
			if err := p.edit(); err != nil {
				m.Fail(err)
			}
		}
		sight := out.layout.Sight()
		sight.Resumed(p.spot(), m, engine.PassedOn)
		if msg(m).State == inside.Failed && step != nil {
			if p.Before != nil {
				m.SetBytes(p.Before.Body)
				m.Meta = p.Before.Meta
			}
			step.Failed(m, msg(m).Err)
		}
		msg(m).Batch = p.batch
		switch {
		case msg(m).State == inside.Live && step != nil:
			step.Figures.Reached()
			retry.SetTrial(m, retry.TrialOf(m).Over())
			b := p.slab()
			slab(b).Take(m)
			out.resume(b, p.at)
		case msg(m).State == inside.Live:
			msg(m).State = inside.Done
			fallthrough
		default:
			out.conclude(m, p.at)
		}
	})
}

// step is the step that parked the message, or nil.
func (p *parked) step() *steps.Op {
	o, _ := p.Step.(*steps.Op)
	return o
}

// spot is where it was parked, or nil if nobody observes it.
func (p *parked) spot() *engine.Spot {
	switch {
	case p.step() != nil:
		return p.step().Spot
	case p.at != nil:
		return p.at.spot
	}
	return nil
}

// slab is an empty slab like the message's own.
func (p *parked) slab() *engine.Batch {
	b := p.batch
	if b == nil {
		b = flow.SlabFor(1)
	}
	slab(b).Stage = msg(&p.m).Stage
	setInput(b, p.in)
	return b
}

func (p *parked) edit() (err error) {
	defer engine.Recovered(&err)
	return p.Edit(&p.m)
}

func (p *parked) Message() *engine.Message { return &p.m }

// Awaits is the limit that a message waits for.
func (p *parked) Awaits() (place, err string) {
	switch {
	case p.step() != nil:
		return "the limit of step " + p.step().Name, ""
	case p.at != nil:
		return "the limit of output " + p.at.name, ""
	}
	return "a limit", ""
}
