package config

import (
	"maps"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/schema"
)

// build makes the plans. If there is an error it keeps none of them, but still builds what it can, so that plugins
// can report their problems.
func (l *loader) build(set *Set) {
	caches := map[string]engine.Plugin[engine.Cache]{}
	registries := map[string]func(engine.Env) engine.SchemaRegistry{}
	limits, prints := map[string]engine.RateLimit{}, map[string]string{}
	for _, f := range l.files {
		for name, c := range f.spec.Resources.Caches.All() {
			caches[name] = c.Use
		}
		for name, r := range f.spec.Resources.Registries.All() {
			registries[name] = r.New
		}
		for _, section := range []string{"caches", "registries"} {
			if n := f.root.Find("resources", section); n != nil {
				for i, key := range n.Keys {
					prints[section+"."+key.Text] = connection(n.Items[i], f.decoder)
				}
			}
		}
		maps.Insert(limits, f.spec.Resources.RateLimits.All())
	}
	set.Shared = l.shared(set.Service)
	for _, f := range l.files {
		l.readsAlso(f.spec)
	}
	used := l.tables(set)
	o := runtime.Options{
		Reads: engine.ReadFrom(l.reads), Log: l.options.Log, Shared: set.Shared, Hooks: l.options.Hooks, Observers: l.observers(set.Service),
		Tracer:  l.tracer(set.Service),
		Secrets: l.options.Secrets,
		Caches:  caches, Registries: registries, Prints: prints, Limits: limits, Tables: used, Known: l.problems,
	}
	keeps := func(*file) bool { return false }
	if c := l.options.change; c != nil {
		linked := l.linked(c.Name)
		keeps = func(f *file) bool { return f.path != c.File && !(linked[f.spec.Name] && c.Ended(f.spec.Name)) }
	}
	for _, f := range l.pipelines() {
		p := loaded(f)
		if keeps(f) {
			if old := l.options.instead.before(f.spec.Name); old != nil {
				set.Pipelines = append(set.Pipelines, *old)
				continue
			}
		}
		if err := l.rewrite(p.Spec); err != nil {
			l.report(schema.Problem{Pos: schema.Pos{File: f.path}, Code: "bad-config", Message: err.Error()})
			o.Known = l.problems
		}
		var problems []schema.Problem
		p.Plan, problems = runtime.Build(p.Spec, l.instead(f, o))
		l.report(problems...)
		set.Pipelines = append(set.Pipelines, p)
	}
}

func (l *loader) rewrite(p *engine.Pipeline) error {
	if l.options.Rewrite == nil {
		return nil
	}
	return l.options.Rewrite(p)
}

// shared returns the state that the pipelines of a process share, and that a reload keeps.
func (l *loader) shared(service Service) *engine.Shared {
	if l.options.instead != nil {
		return l.options.instead.Shared
	}
	shared := &engine.Shared{}
	wire.Of(shared).Config = service.Cluster
	return shared
}

func loaded(f *file) Loaded {
	return Loaded{File: f.path, Spec: &f.spec.Pipeline, file: f}
}
