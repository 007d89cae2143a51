package runtime

import (
	"cmp"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/stage"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

func (b *builder) assembleBatch(list engine.Steps) *steps.Program {
	b.batch = true
	defer func() { b.batch = false }()
	return b.assemble(list)
}

func (b *builder) assemble(list engine.Steps) *steps.Program {
	p := &steps.Program{Secrets: b.options.Secrets}
	b.steps(p, list)
	for i := range p.Ops {
		p.Ops[i].In, p.Ops[i].At = p, int32(i)
	}
	return p
}

// own assembles the pipeline's own steps, behind the steps of its keyed limits.
func (b *builder) own(keyed engine.Steps) {
	b.lanes, b.of = true, ""
	b.plan.Steps = b.assemble(append(keyed, b.spec.Processors...))
	b.lanes = false
}

func (b *builder) steps(p *steps.Program, list engine.Steps) {
	for i := range list {
		b.step(p, &list[i])
	}
}

// step appends the instructions of a step. Those of its cases and repairs follow it, and jump over each other.
func (b *builder) step(p *steps.Program, s *engine.StepSpec) {
	if s.Use.Name == "" {
		return // the decoder has reported it
	}
	at := len(p.Ops)
	o := steps.Op{Name: b.called(s), Timeout: cmp.Or(s.Timeout, b.stepTimeout()), Next: -1}
	spot := spotOf(engine.StepSpot, o.Name, s.Use)
	spot.Place = cmp.Or(s.Place, spot.Place)
	if !s.When.IsZero() {
		spot.When = &s.When
	}
	spot.Of = b.of
	o.Spot = b.spot(spot)
	env := b.named(o.Name)
	o.Figures = steps.NewStepFigures(o.Name, s.Use.Name, env.Log)
	env.Whole, env.Inside, env.Timeout = b.batch, b.inner, b.stepTimeout()
	b.built = append(b.built, s.Use.Name)
	outer := b.undoes
	b.undoes = false
	of := b.of
	b.of = "step " + o.Name // of steps inside it
	plugin, err := s.Use.Build(env)
	b.of = of
	o.Scoped, b.undoes = b.undoes, outer || b.undoes
	b.failed(s.Use.Place, err)
	var traits engine.Traits
	if err == nil {
		traits = engine.TraitsOf(plugin)
	}
	switch edit := plugin.(type) {
	case engine.Edit:
		plugin = edit.ProcessorFunc
		b.sideBySide(!edit.Calls.Have("counter"))
	case engine.Block:
	default:
		b.sideBySide(false)
	}
	b.keeps(s.Use.Place, traits.Keeps)
	b.undoes = b.undoes || traits.Undoes
	patient := traits.TriesItself
	if patient {
		b.patient(s, &o)
	}
	parts, block := plugin.(engine.Block)
	if !b.inner {
		if !patient && !block || s.Retry != nil {
			o.Retry = b.retry(s.Retry, b.spec.Defaults.Processors.Retry)
		}
	} else if s.Retry != nil {
		b.report(s.Retry.Place, "inner-retry", "a step inside another can't be retried alone",
			"write `retry` on the step around it, which is retried as a whole")
	}
	if !s.When.IsZero() {
		o.When = &s.When
		b.sideBySide(!s.When.Calls().Have("counter"))
	}
	if o.When != nil {
		b.conditions++
		defer func() { b.conditions-- }()
	}
	if traits.WholeBatches && !b.batch {
		b.report(s.Use.Place, "batch-only", s.Use.Name+" works on whole batches",
			"write it under `processors` of a batcher or an output, or in a group")
	}
	o.Enters = block && (o.Retry != nil || s.OnError.Steps != nil || s.OnError.Then == "continue" ||
		s.OnError.Then == "drop")
	groups := len(b.plan.Groups)
	p.Ops = append(p.Ops, o)
	switch {
	case parts.Cases != nil:
		for i := range parts.Cases {
			c := &parts.Cases[i]
			br := steps.Branch{To: int32(len(p.Ops))}
			if !c.When.IsZero() {
				br.When = &c.When
				b.sideBySide(!c.When.Calls().Have("counter"))
			}
			br.Spot = b.spot(engine.Spot{Kind: engine.CaseSpot, Name: fmt.Sprintf("%s, case %d", o.Name, i+1), Of: b.of,
				When: br.When, Place: c.When.Place()})
			p.Ops[at].Cases = append(p.Ops[at].Cases, br)
			b.conditions++
			b.steps(p, c.Do)
			b.conditions--
			p.Ops = append(p.Ops, steps.Op{Next: -1})
		}
	case parts.Group != nil:
		b.sideBySide(false)
		if g := b.group(s, o.Name, b.conditions > 0, *parts.Group); g != nil {
			p.Ops[at].Group = g.Index + 1
		}
	case block:
		p.Ops[at].Cases = []steps.Branch{{To: int32(at + 1)}}
		b.list(p, s, o.Name, parts.Do)
	default:
		p.Ops[at].Run = plugin
		p.Together = min(max(p.Together, traits.Together), inside.SlabSize)
		if err == nil {
			b.plan.Plugins.Add("step "+o.Name, plugin)
		}
	}
	if o.Enters {
		b.endBlock(p, at, s, len(b.plan.Groups) > groups)
	}
	b.onError(p, at, s)
	p.EndAt(at)
}

func (b *builder) onError(p *steps.Program, at int, s *engine.StepSpec) {
	switch {
	case s.OnError.Steps != nil:
		p.Ops[at].OnError, p.Ops[at].Repair = steps.Repairs, int32(len(p.Ops))
		b.conditions++
		b.steps(p, s.OnError.Steps)
		b.conditions--
		p.Ops = append(p.Ops, steps.Op{Next: -1, Forget: true})
	case s.OnError.Then == "continue":
		p.Ops[at].OnError = steps.Continues
	case s.OnError.Then == "drop":
		p.Ops[at].OnError = steps.Drops
	}
}

// called is the name of a step in errors, metrics and tests. Uses of the same named list are numbered, and the names of
// their steps begin with the name of the use.
func (b *builder) called(s *engine.StepSpec) string {
	used, _ := s.Use.Config.(engine.UsedSteps)
	name := b.within + cmp.Or(s.Name, used.Name, s.Use.Name)
	if s.Name != "" || used.Name == "" {
		return name
	}
	if b.uses[name]++; b.uses[name] > 1 {
		return fmt.Sprintf("%s %d", name, b.uses[name])
	}
	return name
}

// list appends the steps of a use of a list; name is the name of the use.
func (b *builder) list(p *steps.Program, s *engine.StepSpec, name string, list engine.Steps) {
	if used, ok := s.Use.Config.(engine.UsedSteps); ok && used.Name != "" {
		defer func(was string) { b.within = was }(b.within)
		b.within = name + "/"
	}
	b.steps(p, list)
}

// endBlock appends the end of the block that began at an instruction. All messages that continue inside the block reach it.
func (b *builder) endBlock(p *steps.Program, at int, s *engine.StepSpec, hasGroup bool) {
	p.EndAt(at)
	p.Ops = append(p.Ops, steps.Op{Next: -1, Leaves: true, Block: int32(at)})
	if s.Retry != nil && p.Ops[at].Group == 0 && hasGroup {
		b.report(s.Retry.Place, "inner-retry",
			"steps that contain a group can't be retried as a whole: the group's messages have left them",
			"write `retry` on the steps inside")
	}
}

// group resolves a group.
func (b *builder) group(s *engine.StepSpec, name string, skipped bool, c engine.GroupConfig) *stage.GroupPlan {
	switch {
	case !b.lanes || b.batch || b.inner:
		b.report(s.Use.Place, "group-place",
			"a group is not allowed here: its messages wait for each other",
			"write it under the pipeline's own `processors`; steps of batchers and outputs get whole batches anyway")
		return nil
	case len(b.plan.Groups) == mostGroups:
		b.report(s.Use.Place, "group-place", "a pipeline has at most 100 groups", "use fewer, larger ones")
		return nil
	case s.Retry != nil:
		b.report(s.Retry.Place, "inner-retry",
			"a group can't be retried as a whole: each of its steps is retried for the messages that failed there",
			"write `retry` on the steps inside")
	}
	g := &stage.GroupPlan{Name: name, Index: int8(len(b.plan.Groups)), Skipped: skipped, Size: c.Size,
		Bytes: int(c.Bytes), Wait: cmp.Or(c.Timeout, time.Second), AtOnce: c.AtOnce}
	b.plan.Groups = append(b.plan.Groups, g)
	b.lanes = false
	g.Steps = b.assembleBatch(c.Do)
	b.lanes = true
	return g
}

const mostGroups = 100
