package runtime

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// reloadTime is how long messages in flight may take to finish at a reload.
const reloadTime = 5 * time.Second

// Replace ends the current run in favour of a new plan of the same pipeline, built with [Options.Instead]. Reading stops,
// messages in flight have up to five seconds to finish, and unsettled messages are then left to next. The caller runs next
// when Run of this plan has returned. Inputs and outputs that next has adopted stay open.
func (p *Plan) Replace(next *Plan) {
	p.replaceOnce.Do(func() {
		p.next = next
		close(p.replaced)
	})
}

// Yield ends the inputs of a plan that is being replaced which outputs of the process feed. It is called when the writers
// of those inputs have ended or been replaced. Until then the inputs read on, so that messages on their way arrive first.
func (p *Plan) Yield() { p.yieldOnce.Do(func() { close(p.yields) }) }

// yield ends these inputs.
func (p *Plan) yield() {
	for _, in := range p.Inputs {
		for _, instance := range in.Inputs {
			if y, ok := instance.(engine.Yielder); ok {
				p.resumes = append(p.resumes, y.Yield())
			}
		}
	}
}

// renew is called if the plan before had ended by itself, and so has closed the plugins that this plan has adopted. It
// rebuilds outputs; inputs are opened again.
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

// continues takes over the start time of the plan before and, if that had ended by itself, its counts. Otherwise they are in
// the handover.
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
		r.Latency.Set(old.current.Load().Latency.Get())
	}
}

// isLast records that the run ends without being replaced, unless Replace was called before.
func (p *Plan) isLast() { p.replaceOnce.Do(func() { p.over.Store(true) }) }

// Replaced says whether Replace was called.
func (p *Plan) Replaced() bool {
	select {
	case <-p.replaced:
		return true
	default:
		return false
	}
}

// adopt takes over a component of the plan that is being replaced, if its configuration is the same. Of a plan that has
// ended, only inputs are taken over.
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
