package engine

import (
	"slices"
	"time"
)

func (r *run) state() State {
	switch {
	case r.at() == over:
		return Stopped
	case r.draining() || r.handing():
		return Draining
	case r.plan.pauses.is():
		return Paused
	case !r.isOpen():
		return Starting
	}
	return Running
}

// input sums up the instances of an input.
func (r *run) input(in *inputPlan) InputState {
	s := InputState{Name: in.name, Type: in.typ, State: "ended", Steps: states(in.steps, nil)}
	if in.limit != nil {
		l := in.limit.State()
		s.Limit = &l
	}
	for _, rd := range r.readersOf(in) {
		f := &rd.figures
		s.Received += f.received.Load()
		s.Bytes += f.bytes.Load()
		s.Restarts += f.restarts.Load()
		if state := *f.state.Load(); state != "ended" {
			s.State = state
		}
		if err := f.err.Load(); err != nil && !f.stands(time.Now()) {
			s.Err, s.State = *err, "restarting"
		}
	}
	for _, a := range r.acking() {
		if a.input == in.name {
			s.Unacked += a.waiting()
		}
	}
	return s
}

func (r *run) readersOf(in *inputPlan) (all []*reader) {
	for _, rd := range r.readersAt {
		if rd.plan == in {
			all = append(all, rd)
		}
	}
	return all
}

// states are those of a program's steps, and of the groups among them.
func states(p *program, groups []*groupPlan) (all []StepState) {
	for i := range p.ops {
		o := &p.ops[i]
		if o.figures == nil || o.run == nil && o.group == 0 {
			continue
		}
		all = append(all, o.figures.read())
		if o.group > 0 {
			all = append(all, states(groups[o.group-1].steps, nil)...)
		}
	}
	return all
}

func (b *batcherRun) state() BatcherState {
	s := BatcherState{Name: b.plan.name, Batches: map[Trigger]int64{}, Fill: b.fill.read(), Steps: states(b.plan.steps, nil)}
	for t, n := range b.sent {
		if n := n.Load(); n > 0 {
			s.Batches[t] = n
		}
	}
	s.Open, _ = b.keeps()
	return s
}

func (o *outRun) state() OutputState {
	s, at := o.stateOf()
	if x, ok := at.(Staller); ok {
		s.Stalled = o.r.plan.secrets.Mask(x.Stalled())
	}
	return s
}

// stateOf is the state as the engine knows it, and the instance to ask for the rest.
func (o *outRun) stateOf() (OutputState, Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &o.figures
	msgs, bytes := o.queued()
	s := OutputState{
		Name: o.plan.name, Type: o.plan.typ, DeadLetter: !o.plan.feeds,
		Queued: msgs, QueuedBytes: bytes, Writing: o.writing, Concurrency: o.most,
		Written: f.written, Failed: f.failed, Retries: f.retries, Abandoned: f.abandoned,
		Latency: f.took.read(), Breaker: o.gate.state(), Err: f.err, FailingSince: f.since, Steps: states(o.plan.steps, nil),
		Refused: f.refused, Refusal: f.refusal,
	}
	if o.plan.limit != nil {
		l := o.plan.limit.State()
		s.Limit = &l
	}
	return s, o.at.out
}

// stuck are the calls that are past their deadlines.
func (r *run) stuck(now time.Time) (all []Stuck) {
	add := func(place, what string, since int64, deadline time.Duration) {
		if at := late(since, deadline, now); !at.IsZero() {
			all = append(all, Stuck{Place: place, What: what, Since: at})
		}
	}
	step := func(c *clock[op]) {
		if o := c.of.Load(); o != nil {
			add("step "+o.name, "step", c.since.Load(), o.timeout+grace)
		}
	}
	for _, l := range r.lanesAt {
		step(&l.x.clock)
	}
	for _, rd := range r.readersAt {
		step(&rd.own.x.clock)
	}
	for _, o := range r.outputs {
		o.mu.Lock()
		writers := slices.Clone(o.writers)
		o.mu.Unlock()
		for _, w := range writers {
			add("output "+o.plan.name, "write", w.since.Load(), o.plan.timeout+grace)
			step(&w.x.clock)
		}
	}
	for _, b := range r.routes {
		add("batcher "+b.plan.name, "batcher", b.since.Load(), r.plan.timeout)
	}
	for _, a := range r.acking() {
		add("input "+a.input, "ack", a.since.Load(), a.timeout+grace)
	}
	return all
}

// grace is how much later than its deadline a call may come back that heeds it.
const grace = time.Second
