package engine

import (
	"fmt"

	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/schema"
)

// host is the pipeline that a plugin is built for. Package runtime implements it.
type host interface {
	// Cache is a cache of `resources.caches`.
	Cache(name string) (Cache, error)
	// SchemaRegistry is a registry of `resources.registries`.
	SchemaRegistry(name string) (SchemaRegistry, error)
	// RateLimit makes a step that applies a rate limit.
	RateLimit(spec RateLimitStep, env Env) (Processor, error)
	// Steps builds inner steps, and returns the types of all of them.
	Steps(s Steps, env Env) (r Runner, types []string, err error)
	// Check is like Steps for steps that run in another process: they are checked, and never opened here.
	Check(s Steps, env Env) (types []string, err error)
	// Wrong says that a component has a mistake that was reported, so that it need not be built.
	Wrong(at schema.Place) bool
	// Emit passes an event to the hooks of the pipeline.
	Emit(ev Event)
}

// outside is the host of plugins that belong to no pipeline.
var outside host

// Outside sets the host of plugins that belong to no pipeline, as in tests. Only package runtime can call it.
func Outside(_ inside.Key, h host) { outside = h }

// In is e within a pipeline. Only package runtime can call it.
func (e Env) In(_ inside.Key, h host) Env {
	e.host = h
	return e
}

func (e Env) at() host {
	if e.host == nil {
		return outside
	}
	return e.host
}

// Cache returns a cache of `resources.caches`, for a plugin's build function. The engine opens it before any step runs
// and closes it after all pipelines have ended. The error says that there is no such cache.
func (e Env) Cache(name string) (Cache, error) {
	if e.host == nil {
		return nil, fmt.Errorf("there is no cache %q: caches only exist in pipelines", name)
	}
	return e.host.Cache(name)
}

// SchemaRegistry returns a registry of `resources.registries`, for a plugin's build function. The engine opens it before
// any step runs and closes it after all pipelines have ended. The error says that there is no such registry.
func (e Env) SchemaRegistry(name RegistryName) (SchemaRegistry, error) {
	if e.host == nil {
		return nil, fmt.Errorf("there is no registry %q: registries only exist in pipelines", name)
	}
	return e.host.SchemaRegistry(string(name))
}

// RateLimit returns a step that applies a rate limit: one of `resources.rate_limits`, shared by all components that name
// it, or one of its own. Messages that exceed the limit wait outside the lanes, or are dropped. Waiting is an error where
// messages can't wait, as inside another step.
func (e Env) RateLimit(spec RateLimitStep) (Processor, error) { return e.at().RateLimit(spec, e) }

// Emit passes an event to the hooks of the pipeline, for a plugin that consists of others, such as an input that reads
// other inputs. Emit fills in Pipeline and At. It is safe for concurrent use.
func (e Env) Emit(ev Event) {
	if e.host != nil {
		e.host.Emit(ev)
	}
}

// Build builds inner steps, for a plugin's build function.
func (s Steps) Build(env Env) (Runner, error) {
	r, _, err := env.at().Steps(s, env)
	return r, err
}

// BuildNamed is like Build, and also returns the types of all steps.
func (s Steps) BuildNamed(env Env) (r Runner, types []string, err error) {
	return env.at().Steps(s, env)
}

// Check checks inner steps that run in another process, and returns the types of all of them. They are never opened here.
func (s Steps) Check(env Env) (types []string, err error) { return env.at().Check(s, env) }
