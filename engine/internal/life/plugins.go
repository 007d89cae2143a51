package life

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/guard"
	"github.com/flowd-io/flowd/schema"
)

// Plugins has all plugins of a pipeline that can be opened or closed, outputs first.
type Plugins struct {
	Log     *slog.Logger
	Secrets *schema.Secrets
	Adopted []any // plugins of the plan before this one, which are open already

	opened int // how many were opened; for the goroutine that opens and closes

	mu   sync.Mutex // guards the fields below
	list []part
	shut []closed // inputs and outputs that are closed, and will be opened again
}

// part is a plugin with its name in errors, such as "output lake".
type part struct {
	name   string
	plugin any
}

// closed is a plugin that is closed, and why.
type closed struct {
	plugin any
	why    error
}

// Add adds a plugin.
func (p *Plugins) Add(name string, plugin any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, part{name, plugin})
}

// AddOnce adds a pointer unless it was added before.
func (p *Plugins) AddOnce(name string, plugin any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := part{name, plugin}
	if !slices.ContainsFunc(p.list, func(y part) bool { return y.name == name && y == x }) {
		p.list = append(p.list, x)
	}
}

// Find returns the index-th plugin that has a name and is a T.
func Find[T any](p *Plugins, name string, index int) (plugin T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		if x.name != name {
			continue
		}
		if t, is := x.plugin.(T); is && index == 0 {
			return t, true
		}
		index--
	}
	return plugin, false
}

// Open opens outputs, steps and inputs, in this order. Adopted plugins are reopened. An input or output whose error may
// pass stays shut, and is opened again by its reader or writer.
func (p *Plugins) Open(ctx context.Context) error {
	for _, x := range p.list {
		if r, ok := x.plugin.(engine.Reopener); ok && p.Has(x.plugin) && p.WhyShut(x.plugin) == nil {
			err := guard.Guard(ctx, func(ctx context.Context) error { r.Reopen(ctx); return nil })
			if err != nil {
				p.Log.Warn("it could not be reopened for the reload", "place", x.name, "err", err)
			}
		}
		if o, ok := x.plugin.(engine.Opener); ok && !p.Has(x.plugin) {
			switch err := guard.Guard(ctx, o.Open); {
			case err == nil:
			case opensLater(x.plugin) && engine.Passes(err) && ctx.Err() == nil:
				p.Shut(x.plugin, err)
			default:
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		p.opened++
	}
	return nil
}

// Close closes the plugins that were opened, inputs first. It leaves out plugins that stay, and abandons those that are
// busy.
func (p *Plugins) Close(ctx context.Context, stays, busy func(plugin any) bool) (first error) {
	for ; p.opened > 0; p.opened-- {
		x := p.list[p.opened-1]
		c, ok := x.plugin.(engine.Closer)
		if !ok || stays(x.plugin) || !p.Shut(x.plugin, errClosed) {
			continue
		}
		if busy(x.plugin) {
			p.Log.Warn("a write has not returned and is abandoned", "place", x.name)
			continue
		}
		if err := guard.Guard(ctx, c.Close); err != nil && first == nil {
			first = fmt.Errorf("%s: close: %w", x.name, err)
		}
	}
	return first
}

// Has says that a plugin was adopted from the plan before.
func (p *Plugins) Has(plugin any) bool { return slices.Contains(p.Adopted, plugin) }

// Swap replaces a plugin by a new instance, which Close will close.
func (p *Plugins) Swap(old, now any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		if p.list[i].plugin == old {
			p.list[i].plugin = now
		}
	}
}

var errClosed = errors.New("closed")

func opensLater(plugin any) bool {
	switch plugin.(type) {
	case engine.Input, engine.Output:
		return true
	}
	return false
}

// Shut notes that a plugin is closed, and why. It returns false if it was closed already.
func (p *Plugins) Shut(plugin any, why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.indexOf(plugin) >= 0 {
		return false
	}
	p.shut = append(p.shut, closed{plugin, why})
	return true
}

// Opened notes that a plugin is open again.
func (p *Plugins) Opened(plugin any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.indexOf(plugin); i >= 0 {
		p.shut = slices.Delete(p.shut, i, i+1)
	}
}

// WhyShut returns the error because of which a plugin is closed, or nil if it is open.
func (p *Plugins) WhyShut(plugin any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.indexOf(plugin); i >= 0 {
		return p.shut[i].why
	}
	return nil
}

// indexOf is the index of a plugin in shut, or -1. A plugin that can't be compared, such as a function, is never shut.
func (p *Plugins) indexOf(plugin any) int {
	if !reflect.TypeOf(plugin).Comparable() {
		return -1
	}
	return slices.IndexFunc(p.shut, func(c closed) bool { return c.plugin == plugin })
}

// Bequeath tells the next plan which of its plugins are closed, and why.
func (p *Plugins) Bequeath(to *Plugins) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.shut {
		if to.Has(c.plugin) {
			to.Shut(c.plugin, c.why)
		}
	}
}

// Dispose closes an instance that was replaced. It does so in the background, since closing may hang.
func (p *Plugins) Dispose(name string, plugin any, within time.Duration) {
	c, ok := plugin.(engine.Closer)
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := guard.Guard(ctx, c.Close); err != nil {
			p.Log.Warn("close of a replaced instance", "of", name, "err", err)
		}
	}()
}

// Tables returns the states of the tables.
func (p *Plugins) Tables() (all []engine.TableState) {
	p.mu.Lock()
	parts := slices.Clone(p.list)
	p.mu.Unlock()
	for _, x := range parts {
		if of, ok := x.plugin.(engine.Tabled); ok {
			t := of.Table()
			t.Name, t.Err = strings.TrimPrefix(x.name, "table "), p.Secrets.Mask(t.Err)
			all = append(all, t)
		}
	}
	return all
}

// Troubles returns the troubles that plugins report.
func (p *Plugins) Troubles() (all []engine.Trouble) {
	p.mu.Lock()
	parts := slices.Clone(p.list)
	p.mu.Unlock()
	for _, x := range parts {
		if of, ok := x.plugin.(engine.Troubled); ok {
			if t := of.Trouble(); t != nil {
				t.Place, t.Cause = x.name, p.Secrets.Mask(t.Cause)
				all = append(all, *t)
			}
		}
	}
	return all
}
