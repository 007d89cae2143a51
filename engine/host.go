package engine

import (
	"fmt"

	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/schema"
)

// host is the pipeline that a plugin is built for, as far as plugins need it: the runtime implements it.
type host interface {
	// Cache is a cache of `resources.caches`.
	Cache(name string) (Cache, error)
	// SchemaRegistry is a registry of `resources.registries`.
	SchemaRegistry(name string) (SchemaRegistry, error)
	// RateLimit makes the step that keeps a rate limit.
	RateLimit(spec RateLimit, env Env) (Processor, error)
	// Steps compiles inner steps, and names the types of all of them.
	Steps(s Steps, env Env) (r Runner, types []string, err error)
	// Check is Steps for those that are to run in another process: nothing of them is opened here.
	Check(s Steps, env Env) (types []string, err error)
	// Wrong says that what stands at a place has a mistake which is reported: there is no use in building it.
	Wrong(at schema.Place) bool
	// Emit tells the hooks of the pipeline of an event.
	Emit(ev Event)
}

// outside is the host of what belongs to no pipeline.
var outside host

// Outside sets the host of plugins that belong to no pipeline, as in tests. Only package runtime can call it.
func Outside(_ inside.Key, h host) { outside = h }

// In is e for a plugin of a pipeline. Only package runtime can call it.
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

// Cache is a cache of `resources.caches`, for a plugin's build function. The
// engine opens it before any step works and closes it after all pipelines have
// ended.
func (e Env) Cache(name string) (Cache, error) {
	if e.host == nil {
		return nil, fmt.Errorf("there is no cache %q: caches only exist in pipelines", name)
	}
	return e.host.Cache(name)
}

// SchemaRegistry is a registry of `resources.registries`, for a plugin's build function.
// The engine opens it before any step works and closes it after all pipelines have ended.
func (e Env) SchemaRegistry(name RegistryName) (SchemaRegistry, error) {
	if e.host == nil {
		return nil, fmt.Errorf("there is no registry %q: registries only exist in pipelines", name)
	}
	return e.host.SchemaRegistry(string(name))
}

// RateLimit is the step that keeps a rate limit: one of `resources.rate_limits`, shared
// by all who name it, or one of the step's own. Messages whose time has not come wait
// beside the lanes. It is refused where messages can't wait.
func (e Env) RateLimit(spec RateLimit) (Processor, error) { return e.at().RateLimit(spec, e) }

// Emit reports an event to the hooks of the pipeline, for a plugin that has parts, such as
// an input that reads others. Pipeline and At are filled in.
func (e Env) Emit(ev Event) {
	if e.host != nil {
		e.host.Emit(ev)
	}
}

// Build compiles inner steps, for a plugin's build function.
func (s Steps) Build(env Env) (Runner, error) {
	r, _, err := env.at().Steps(s, env)
	return r, err
}

// BuildNamed is Build that also names the types of all steps.
func (s Steps) BuildNamed(env Env) (r Runner, types []string, err error) {
	return env.at().Steps(s, env)
}

// Check reports what is wrong with inner steps that are to run in another process,
// and names the types of all of them; nothing of them is opened here.
func (s Steps) Check(env Env) (types []string, err error) { return env.at().Check(s, env) }
