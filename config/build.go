package config

import (
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/cluster"
	"github.com/flowd-io/flowd/schema"
)

// build makes the plans. A file with an error has none, but is built all the same, for the
// problems that its plugins report.
func (l *loader) build(set *Set) {
	steps := map[string]engine.Steps{}
	caches := map[string]engine.Plugin[engine.Cache]{}
	limits, prints := map[string]engine.RateLimit{}, map[string]string{}
	for _, f := range l.files {
		for name, c := range f.spec.Resources.Caches.All() {
			caches[name] = c.Use
			if n := find(f.root, "resources", "caches", name); n != nil {
				prints[name] = connection(n, f.decoder)
			}
		}
		for name, r := range f.spec.Resources.RateLimits.All() {
			limits[name] = r
		}
		for name, list := range f.spec.Resources.Steps.All() {
			steps[name] = list
		}
		if f.root.Lookup("service") != nil {
			set.Service = f.spec.Service
		}
	}
	set.Shared = l.shared()
	set.Shared.Get(cluster.Shared, func() any { return set.Service.Cluster })
	for _, f := range l.files {
		l.readsAlso(f.spec)
	}
	o := engine.Options{Reads: engine.ReadFrom(l.reads), Log: l.options.Log, Shared: set.Shared, Steps: steps, Caches: caches, Prints: prints, Limits: limits, Hooks: l.options.Hooks, Secrets: l.options.Secrets}
	for _, f := range l.files {
		p := loaded(f)
		if l.failed(f.path) {
			l.report(l.rehearse(f, o)...)
		} else {
			plan, problems := engine.Build(p.Spec, l.instead(f, o))
			p.Plan = plan
			l.report(problems...)
		}
		set.Pipelines = append(set.Pipelines, p)
	}
}

// shared is what the pipelines of a process have in common: a reload continues with it.
func (l *loader) shared() *engine.Shared {
	if l.options.instead != nil {
		return l.options.instead.Shared
	}
	return &engine.Shared{}
}

func loaded(f *file) Loaded {
	return Loaded{File: f.path, Spec: &f.spec.Pipeline, document: f.spec, decoder: f.decoder, file: f}
}

// failed says whether a file has an error so far; an error without a line, as
// in an override, concerns all.
func (l *loader) failed(path string) bool {
	for _, p := range l.problems {
		if !p.Warning && (p.Pos.File == path || p.Pos.Line == 0) {
			return true
		}
	}
	return false
}

// rehearse builds a file that has errors and returns what that finds at places
// that nothing has been said about.
func (l *loader) rehearse(f *file, o engine.Options) (found []schema.Problem) {
	defer func() {
		// A build function may trip over a configuration that is known to be
		// wrong, and has no duty not to.
		if recover() != nil {
			found = nil
		}
	}()
	_, problems := engine.Build(&f.spec.Pipeline, o)
	for _, p := range problems {
		if p.Path != "outputs" && p.Code != "output-cycle" && !l.spokenOf(f.path, p.Path) { // routes are checked here
			found = append(found, p)
		}
	}
	return found
}

// spokenOf says whether there is an error at a path, above it or below it.
func (l *loader) spokenOf(file, path string) bool {
	for _, p := range l.problems {
		if !p.Warning && (p.Pos.File == file || p.Pos.Line == 0) && (within(p.Path, path) || within(path, p.Path)) {
			return true
		}
	}
	return false
}

// within says whether a path is another one or below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}
