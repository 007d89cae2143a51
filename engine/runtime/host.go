package runtime

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/limit"
	"github.com/flowd-io/flowd/engine/internal/rules"
	"github.com/flowd-io/flowd/engine/internal/stage"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// host answers plugins on behalf of a builder; nil: the plugins belong to no pipeline.
type host struct{ b *builder }

func init() { engine.Outside(inside.Key{}, host{}) }

// Emit passes an event to the hooks of the pipeline.
func (h host) Emit(ev engine.Event) {
	if h.b != nil {
		h.b.plan.EmitEvent(ev)
	}
}

// Wrong says that a component has a mistake that was reported.
func (h host) Wrong(at schema.Place) bool { return h.b != nil && h.b.wrong[rules.Placed(at)] }

// Cache finds or makes the cache of a name.
func (h host) Cache(name string) (engine.Cache, error) { return h.b.cache(name) }

// SchemaRegistry finds or makes the schema registry of a name.
func (h host) SchemaRegistry(name string) (engine.SchemaRegistry, error) { return h.b.registry(name) }

// RateLimit makes a rate limit, or finds the shared one of its name, and returns its step.
func (h host) RateLimit(spec engine.RateLimitStep, env engine.Env) (engine.Processor, error) {
	drops := spec.OnLimit == "drop"
	if h.b != nil && h.b.inner && !drops {
		return nil,
			errors.New(
				"messages can't wait inside another step (write this under the pipeline's `processors`, or use the `rate_limit` of an input or output)")
	}
	l, err := h.b.limiter(spec.RateLimit, "step "+env.Name)
	if err != nil {
		return nil, err
	}
	if drops {
		return limit.DropStep(l), nil
	}
	return limit.Step(l), nil
}

// Steps assembles inner steps.
func (h host) Steps(s engine.Steps, env engine.Env) (engine.Runner, []string, error) {
	b := h.b
	if b == nil { // outside of a pipeline, in tests
		b = &builder{spec: &engine.Pipeline{}, uses: map[string]int{}, plan: newPlan(new(stage.Layout))}
		b.env = env.In(inside.Key{}, host{b})
		if env.Log == nil {
			b.env.Log = slog.New(slog.DiscardHandler)
		}
	}
	before, built, inner := len(b.problems), len(b.built), b.inner
	b.inner = true
	r := &steps.Runner{Prog: b.assemble(s), Sight: b.plan.Sight()}
	b.inner = inner
	types := slices.Clone(b.built[built:])
	switch {
	case len(b.problems) == before:
		return r, types, nil
	case h.b == nil:
		return nil, types, errors.New(b.problems[before].String())
	}
	return nil, types, inside.ErrReported
}

// Check assembles inner steps for a plan that is thrown away.
func (h host) Check(s engine.Steps, env engine.Env) ([]string, error) {
	if h.b != nil {
		defer func(p *Plan, away bool) { h.b.plan, h.b.away = p, away }(h.b.plan, h.b.away)
		h.b.plan, h.b.away = newPlan(new(stage.Layout)), true
	}
	_, types, err := h.Steps(s, env)
	return types, err
}

// NewRunner makes a Runner of processors, one after the other, for tests of plugins.
func NewRunner(all ...engine.Processor) engine.Runner {
	p := &steps.Program{}
	for i, s := range all {
		p.Ops = append(p.Ops, steps.Op{Run: s, Next: int32(i + 1), Timeout: time.Minute,
			Figures: steps.NewStepFigures("", "", slog.New(slog.DiscardHandler))})
	}
	return &steps.Runner{Prog: p}
}

// resourceKey identifies a resource by its section, its name and a text of its configuration.
type resourceKey struct{ section, name, print string }

// shared is a resource that several plans of a process use. The first one opens it, the last one closes it.
type shared struct {
	resource any

	mu     sync.Mutex // guards the field below, and opening and closing
	users  int
	opened atomic.Bool // at least once
}

// Open opens the resource for its first user.
func (s *shared) Open(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.resource.(engine.Opener); ok && s.users == 0 {
		if err := o.Open(ctx); err != nil {
			return err
		}
	}
	s.users++
	s.opened.Store(true)
	return nil
}

// Trouble returns the trouble of the resource.
func (s *shared) Trouble() *engine.Trouble {
	if of, ok := s.resource.(engine.Troubled); ok && s.opened.Load() {
		return of.Trouble()
	}
	return nil
}

// Close closes the resource after its last user.
func (s *shared) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if o, ok := s.resource.(engine.Closer); ok && s.users == 0 {
		return o.Close(ctx)
	}
	return nil
}

type sharedCache struct {
	engine.Cache
	shared
	failed error        // why the cache can't be built; every plugin that names it gets this error
	facade engine.Cache // what steps get
}

// swapCache is a sharedCache of an engine.SharedCache.
type swapCache struct {
	*sharedCache
	engine.SharedCache
}

type sharedRegistry struct {
	engine.SchemaRegistry
	shared
}

// cache finds or makes the cache of a name; the plan opens and closes it.
func (b *builder) cache(name string) (engine.Cache, error) {
	spec, ok := b.options.Caches[name]
	if !ok {
		return nil, fmt.Errorf("there is no cache %q (define it under `resources.caches`)", name)
	}
	c := engine.Common(b.options.Shared, b.key("caches", name), func() *sharedCache {
		cache, err := spec.Build(b.named(name))
		c := &sharedCache{Cache: cache, shared: shared{resource: cache}, failed: err}
		c.facade = c
		if swap, ok := cache.(engine.SharedCache); ok {
			c.facade = &swapCache{c, swap}
		}
		return c
	})
	if c.failed != nil {
		return nil, c.failed
	}
	b.plan.Plugins.AddOnce("cache "+name, c)
	return c.facade, nil
}

// registry finds or makes the schema registry of a name; the plan opens and closes it.
func (b *builder) registry(name string) (engine.SchemaRegistry, error) {
	build, ok := b.options.Registries[name]
	if ok && b.away {
		return nil, fmt.Errorf("a step in another process can't use registry %q (write the step before or after the pool)", name)
	}
	if !ok {
		return nil, fmt.Errorf("there is no registry %q (define it under `resources.registries`)", name)
	}
	r := engine.Common(b.options.Shared, b.key("registries", name), func() *sharedRegistry {
		registry := build(b.named(name))
		return &sharedRegistry{SchemaRegistry: registry, shared: shared{resource: registry}}
	})
	b.plan.Plugins.AddOnce("registry "+name, r)
	return r, nil
}

func (b *builder) key(section, name string) resourceKey {
	return resourceKey{section, name, b.options.Prints[section+"."+name]}
}
