package engine

import (
	"errors"
	"log/slog"
	"slices"
	"time"
)

// host is what plugins of a pipeline may ask its builder for; without one they belong to none.
type host struct{ b *builder }

func init() { Outside(key{}, host{}) }

// Emit tells the hooks of the pipeline.
func (h host) Emit(ev Event) {
	if h.b != nil {
		h.b.plan.emitEvent(ev)
	}
}

// Cache finds or makes the cache of a name.
func (h host) Cache(name string) (Cache, error) { return h.b.cache(name) }

// RateLimit makes a limit, or finds that of its name.
func (h host) RateLimit(spec RateLimit, env Env) (Processor, error) {
	if h.b != nil && h.b.inner {
		return nil, errors.New("messages can't wait inside another step (write this under the pipeline's `processors`, or use the `rate_limit` of an input or output)")
	}
	l, err := h.b.limiter(spec, "step "+env.Name)
	if err != nil {
		return nil, err
	}
	return limitStep{l}, nil
}

// Steps assembles inner steps.
func (h host) Steps(s Steps, env Env) (Runner, []string, error) {
	b := h.b
	if b == nil { // outside of a pipeline, in tests
		b = &builder{spec: &Pipeline{}, plan: newPlan(new(layout))}
		b.env = env.In(key{}, host{b})
		if env.Log == nil {
			b.env.Log = slog.New(slog.DiscardHandler)
		}
	}
	before, built, inner := len(b.problems), len(b.built), b.inner
	b.inner = true
	r := &runner{prog: b.assemble(s)}
	b.inner = inner
	types := slices.Clone(b.built[built:])
	switch {
	case len(b.problems) == before:
		return r, types, nil
	case h.b == nil:
		return nil, types, errors.New(b.problems[before].String())
	}
	return nil, types, errReported
}

// Check assembles inner steps for a plan that is not kept.
func (h host) Check(s Steps, env Env) ([]string, error) {
	if h.b != nil {
		defer func(p *Plan) { h.b.plan = p }(h.b.plan)
		h.b.plan = newPlan(new(layout))
	}
	_, types, err := h.Steps(s, env)
	return types, err
}

// NewRunner makes a Runner of processors, one after the other, for tests of plugins.
func NewRunner(all ...Processor) Runner {
	p := &program{}
	for i, s := range all {
		p.ops = append(p.ops, op{run: s, next: int32(i + 1), timeout: time.Minute, figures: newStepFigures("", "")})
	}
	return &runner{prog: p}
}
