package runtime

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// reloadTime is how long a reload lets what is in flight finish.
const reloadTime = 5 * time.Second

// Replace ends the current run for a new plan of the same pipeline, built with
// [Options.Instead]: reading stops, what is in flight has up to five seconds to finish, and
// what is then unsettled is left to next, whose Run must follow when this plan's has
// returned. Inputs and outputs that next has taken over stay open.
func (p *Plan) Replace(next *Plan) {
	p.replaceOnce.Do(func() {
		p.next = next
		close(p.replaced)
	})
}

// Yield lets the inputs of a plan that is being replaced end which outputs of the process feed: what writes to
// them has ended, or been replaced. Until then they read on, so that what is under way there comes through first.
func (p *Plan) Yield() { p.yieldOnce.Do(func() { close(p.yields) }) }

// yield has these inputs end.
func (p *Plan) yield() {
	for _, in := range p.Inputs {
		for _, instance := range in.Inputs {
			if y, ok := instance.(engine.Yielder); ok {
				p.resumes = append(p.resumes, y.Yield())
			}
		}
	}
}

// renew handles that the plan before had ended by itself, and so has closed what this one
// has adopted: outputs are rebuilt, and inputs opened again.
func (p *Plan) renew(old *Plan) error {
	if old == nil || !old.over.Load() {
		return nil
	}
	for _, o := range p.Outputs {
		if o.Route != nil || !p.Plugins.Has(o.Out) {
			continue
		}
		out, err := o.Rebuild()
		if err != nil {
			return fmt.Errorf("output %s: %w", o.Name, err)
		}
		p.Plugins.Swap(o.Out, out)
		o.Out = out
	}
	p.Plugins.Adopted = nil
	return nil
}

// continues takes over from the plan before when it began, and its counts where it had ended by itself: else what it
// leaves has them.
func (p *Plan) continues(r *stage.Run, old *Plan) {
	p.started = time.Now()
	p.began = p.started
	if old == nil || old.current.Load() == nil {
		return
	}
	p.began = old.began
	if was := old.current.Load(); old.Replaced() {
		p.ran = old.ran
		if p.ran.IsZero() {
			p.ran = was.Ran()
		}
	}
	if s := old.Stats(); old.over.Load() && s.Roots.InFlight == 0 && s.Pieces.InFlight == 0 {
		r.Roots.Set(s.Roots)
		r.Pieces.Set(s.Pieces)
	}
}

// isLast notes that the run ends without a plan to take its place, unless there is
// one by now.
func (p *Plan) isLast() { p.replaceOnce.Do(func() { p.over.Store(true) }) }

// Replaced says whether another plan was to take this one's place.
func (p *Plan) Replaced() bool {
	select {
	case <-p.replaced:
		return true
	default:
		return false
	}
}

// adopt takes over a component of the plan that is being replaced, if it is configured as
// before. Of a plan that has ended, only inputs continue where they were.
func adopt[T any](b *builder, kind, name string, index int) (plugin T, ok bool) {
	old := b.options.Instead
	if old == nil || old.ExactlyOnce != b.spec.Engine.ExactlyOnce || b.options.Same == nil || !b.options.Same(kind, name) {
		return plugin, false
	}
	plugin, ok = life.Find[T](&old.Plugins, kind+" "+name, index)
	if !ok || old.over.Load() && (kind == "output" || engine.TraitsOf(plugin).Follows != "") {
		var none T
		return none, false // a new one announces itself before the first is opened
	}
	b.plan.Plugins.Adopted = append(b.plan.Plugins.Adopted, plugin)
	return plugin, true
}
