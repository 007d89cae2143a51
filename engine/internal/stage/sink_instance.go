package stage

import (
	"context"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
)

// instance is one instance of an output plugin. If a write hangs for ever, its instance is replaced with a new one.
type instance struct {
	out      engine.Output
	calls    int // in flight, including abandoned ones
	replaced bool
}

// acquire takes the instance that a write is to use; released gives it back. Unless the write is a probe, it
// fails if nothing may be written now.
func (o *sink) acquire(probe bool) (*instance, *engine.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cause := o.shut(); cause != nil && !probe {
		return nil, cause
	}
	o.at.calls++
	return o.at, nil
}

// released gives an instance back after a call, and closes it if it has been replaced. o.mu is held; released unlocks it.
func (o *sink) released(at *instance) {
	at.calls--
	last := at.replaced && at.calls == 0
	o.mu.Unlock()
	if last {
		o.layout.Plugins.Dispose("output "+o.plan.Name, at.out, o.layout.DrainTime)
	}
}

// retire says whether a write still uses a plugin. If so, the plugin is closed when that write returns.
func (o *sink) retire(plugin any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if any(o.at.out) != plugin || o.at.calls == 0 {
		return false
	}
	o.at.replaced = true
	return true
}

// holdIfUnopened shuts the gate of an output that could not be opened at the start: a probe opens it.
func (o *sink) holdIfUnopened() {
	err := o.layout.Plugins.WhyShut(o.at.out)
	if err == nil {
		return
	}
	failed := engine.ErrorOf(err, engine.Transient)
	failed.Mask(o.layout.Secrets)
	failed.Holds = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures.fails(failed)
	o.shuts(false, o.gate.Hangs(failed), "output can't be opened: nothing is written until a probe opens it", failed)
}

// reopen opens an output that could not be opened before, or replaces an instance whose write hangs.
func (o *sink) reopen(ctx context.Context) error {
	plugins := &o.layout.Plugins
	if out := o.at.out; plugins.WhyShut(out) != nil { // only reopen changes o.at, and there is one probe at a time
		if err := guard.Guard(ctx, out.(engine.Opener).Open); err != nil {
			return err
		}
		plugins.Opened(out)
		o.mu.Lock()
		o.gate.Reopen = false
		o.mu.Unlock()
		return nil
	}
	out, err := o.plan.Rebuild()
	if err != nil {
		return err
	}
	if opener, ok := out.(engine.Opener); ok {
		if err := guard.Guard(ctx, opener.Open); err != nil {
			return err
		}
	}
	o.mu.Lock()
	old := o.at
	o.at, o.gate.Reopen = &instance{out: out}, false
	old.replaced = true
	plugins.Swap(o.plan.Out, out)
	o.plan.Out = out
	last := old.calls == 0
	o.mu.Unlock()
	if last {
		o.layout.Plugins.Dispose("output "+o.plan.Name, old.out, o.layout.DrainTime)
	}
	return nil
}

// mostStuck is how many calls of an output may be left behind. Each costs a goroutine and a slab until it comes back.
const mostStuck = 4

// stuck returns how many abandoned calls have not returned; o.mu is held.
func (o *sink) stuck() (n int) {
	for _, w := range o.workers {
		if w.writer.abandoned() {
			n++
		}
	}
	return n
}

// abandon gives up a write that has taken twice its timeout. It fails the messages of the write, and another worker and a
// new instance take over.
func (o *sink) abandon(w *writer, now time.Time) {
	since := w.since.Load()
	if since == 0 || now.Sub(time.Unix(0, since)) < 2*o.plan.Timeout || !w.state.CompareAndSwap(calling, leftAlone) {
		return
	}
	const why = "the write did not return within %v, twice its timeout, and was abandoned"
	err := engine.Errorf(engine.Timeout, why, 2*o.plan.Timeout)
	err.Output = o.plan.Name
	next := o.worker()
	next.out = w.out // what its steps have split and merged
	failed, rest := w.salvage(err)
	o.mu.Lock()
	o.figures.abandoned++
	o.figures.fails(err)
	o.workers = append(o.workers, next)
	was := o.gate.Shut
	o.shuts(was, o.gate.Hangs(err), "a write hangs: a new instance of the output is opened", err)
	o.mu.Unlock()
	if len(slab(rest).Msgs) > 0 {
		o.pushAgain(rest)
	}
	next.finish(failed, nil)
	o.done(w.entry)
	if w.limiter != nil {
		w.limiter.written()
	}
	go next.run()
}

// returned removes a worker whose abandoned call has returned after all.
func (o *sink) returned(w *worker) {
	o.mu.Lock()
	o.workers = slices.DeleteFunc(o.workers, func(x *worker) bool { return x == w })
	o.mu.Unlock()
	o.cond.Broadcast()
}
