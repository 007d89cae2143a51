package engine

import (
	"cmp"
	"fmt"
	"slices"
)

func (b *builder) assembleBatch(steps Steps) *program {
	b.batch = true
	defer func() { b.batch = false }()
	return b.assemble(steps)
}

func (b *builder) assemble(steps Steps) *program {
	p := &program{secrets: b.options.Secrets}
	b.steps(p, steps)
	for i := range p.ops {
		p.ops[i].in, p.ops[i].at = p, int32(i)
	}
	return p
}

// own assembles the pipeline's own steps, behind those of its limits.
func (b *builder) own(keyed Steps) {
	b.lanes = true
	b.plan.steps = b.assemble(append(keyed, b.spec.Processors...))
	b.lanes = false
}

func (b *builder) steps(p *program, steps Steps) {
	for i := range steps {
		b.step(p, &steps[i])
	}
}

// step appends the instructions of a step; those of its cases and repairs lie
// behind it and jump over each other.
func (b *builder) step(p *program, s *StepSpec) {
	if s.Use.Name == "" {
		return // the decoder has reported it
	}
	at := len(p.ops)
	o := op{name: cmp.Or(s.Name, s.Use.Name), timeout: cmp.Or(s.Timeout, b.timeout()), next: -1}
	o.figures = newStepFigures(o.name, s.Use.Name)
	env := b.named(o.name)
	env.Whole, env.Inside, env.Timeout = b.batch, b.inner, b.timeout()
	b.built = append(b.built, s.Use.Name)
	plugin, err := s.Use.Build(env)
	b.failed(s.Use.Place, err)
	b.keeps(s.Use.Place, plugin)
	patient := b.patient(s, plugin, &o)
	_, block := plugin.(interface{ isBlock() })
	if !b.inner {
		if !patient && !block || s.Retry != nil {
			o.retry = b.retry(s.Retry)
		}
	} else if s.Retry != nil {
		b.report(s.Retry.Place, "inner-retry", "a step inside another can't be tried again by itself", "write `retry` on the step around it, which is tried again as a whole")
	}
	if !s.When.IsZero() {
		o.when = &s.When
	}
	if o.when != nil {
		b.conditions++
		defer func() { b.conditions-- }()
	}
	if batchOnly[s.Use.Name] && !b.batch {
		b.report(s.Use.Place, "batch-only", s.Use.Name+" works on whole batches", "write it under `processors` of a batcher or an output, or in a group")
	}
	o.enters = block && (o.retry != nil || s.OnError.Steps != nil || s.OnError.Then == "continue" || s.OnError.Then == "drop")
	groups := len(b.plan.groups)
	p.ops = append(p.ops, o)
	switch plugin := plugin.(type) {
	case *switchStep:
		for i := range plugin.cases {
			c := &plugin.cases[i]
			br := branch{to: int32(len(p.ops))}
			if !c.When.IsZero() {
				br.when = &c.When
			}
			p.ops[at].cases = append(p.ops[at].cases, br)
			b.conditions++
			b.steps(p, c.Do)
			b.conditions--
			p.ops = append(p.ops, op{next: -1})
		}
	case *groupStep:
		p.ops[at].group = b.group(s, o.name, b.conditions > 0, plugin.c)
	case *useStep:
		p.ops[at].cases = []branch{{to: int32(at + 1)}}
		b.inline(p, plugin)
	default:
		p.ops[at].run = plugin
		if w, ok := plugin.(Waiter); ok {
			p.together = min(max(p.together, w.Together()), slabSize)
		}
		if err == nil {
			b.plan.plugins = append(b.plan.plugins, part{"step " + o.name, plugin})
		}
	}
	if o.enters {
		b.endBlock(p, at, s, len(b.plan.groups) > groups)
	}
	b.onError(p, at, s)
	p.endAt(at)
}

func (b *builder) onError(p *program, at int, s *StepSpec) {
	switch {
	case s.OnError.Steps != nil:
		p.ops[at].onError, p.ops[at].repair = repairs, int32(len(p.ops))
		b.conditions++
		b.steps(p, s.OnError.Steps)
		b.conditions--
		p.ops = append(p.ops, op{next: -1, forget: true})
	case s.OnError.Then == "continue":
		p.ops[at].onError = continues
	case s.OnError.Then == "drop":
		p.ops[at].onError = drops
	}
}

// maxBuilt bounds the steps of a pipeline in which named lists are written out: lists
// in lists multiply.
const maxBuilt = 10_000

func (b *builder) inline(p *program, use *useStep) {
	steps, ok := b.options.Steps[use.name]
	switch {
	case !ok:
		b.report(use.at, "unknown-steps", fmt.Sprintf("there are no steps named %q", use.name), "define them under `resources.steps`")
	case b.full:
	case len(b.built) > maxBuilt:
		b.full = true
		b.report(use.at, "steps-expand", fmt.Sprintf("these steps, those of named lists written out, are more than %d", maxBuilt), "lists that use lists multiply: let fewer of them use others")
	case slices.Contains(b.using, use.name):
		b.report(use.at, "steps-cycle", fmt.Sprintf("steps %q contain themselves", use.name), "break the cycle")
	default:
		b.using = append(b.using, use.name)
		b.steps(p, steps)
		b.using = b.using[:len(b.using)-1]
	}
}

// Build makes an instance of the plugin.
func (p *Plugin[T]) Build(env Env) (T, error) {
	var none T
	if env.builder != nil && env.builder.wrong[placed(p.Place)] {
		return none, errReported
	}
	if p.make != nil {
		return p.make(env)
	}
	spec := registryOf[T]().Lookup(p.Name)
	if spec == nil {
		return none, errReported
	}
	return spec.Build(p.Config, env)
}
