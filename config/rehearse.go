package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/schema"
)

// Rehearsal is what one test runs: a pipeline and what it uses of resources. It
// is the caller's own, to be changed as it likes.
type Rehearsal struct {
	Pipeline *engine.Pipeline
	Caches   map[string]engine.Plugin[engine.Cache]
	Limits   map[string]engine.RateLimit
	// Registries are the names of schema registries.
	Registries []string
	Tables     map[string]runtime.Resource // those that the pipeline or its test uses
	Test       Test
	Secrets    *schema.Secrets // that no error and no log shows
}

// EachStep calls f for every step, those inside of others included.
func (r *Rehearsal) EachStep(f func(*engine.StepSpec)) {
	eachStep(r.Pipeline, f)
}

// eachStep calls f for every step in v, including those inside others. Steps are in lists,
// so f may change them.
func eachStep(v any, f func(*engine.StepSpec)) {
	schema.Walk(v, func(x reflect.Value) {
		if x.Type() == stepType && x.CanAddr() {
			f(x.Addr().Interface().(*engine.StepSpec))
		}
	})
}

var stepType = reflect.TypeFor[engine.StepSpec]()

// StepName is the name of a step in errors, metrics and tests.
func StepName(s *engine.StepSpec) string {
	used, _ := s.Use.Config.(engine.UsedSteps)
	return cmp.Or(s.Name, used.Name, s.Use.Name)
}

// Routes are the outputs that only hand on to other outputs: a test leaves them
// as they are.
var Routes = []string{"fallback", "round_robin", "partition"}

// Tests are the tests of the file, in order.
func (l Loaded) Tests() []Test { return l.file.spec.Tests }

// Rehearse decodes a pipeline again for its i-th test.
func (s *Set) Rehearse(l Loaded, i int) Rehearsal {
	own := s.loader.decodeAgain(l.file)
	r := Rehearsal{
		Pipeline: &own.spec.Pipeline, Test: own.spec.Tests[i], Secrets: s.loader.options.Secrets,
		Caches: map[string]engine.Plugin[engine.Cache]{},
		Limits: map[string]engine.RateLimit{},
	}
	shared := own
	if other := s.loader.resourcesOf(l.file); other != l.file {
		shared = s.loader.decodeAgain(other)
	}
	maps.Insert(r.Limits, shared.spec.Resources.RateLimits.All())
	for name, c := range shared.spec.Resources.Caches.All() {
		r.Caches[name] = c.Use
	}
	for name := range shared.spec.Resources.Registries.All() {
		r.Registries = append(r.Registries, name)
	}
	all := map[string]*tables.Table{}
	for name, c := range shared.spec.Resources.Tables.All() {
		rows, _ := r.Test.Tables.Get(name)
		all[name] = tables.ForTest(name, c, rows)
	}
	r.Tables = map[string]runtime.Resource{}
	unjudged := &loader{} // a test meets what is wrong by itself
	for _, f := range []*file{own, shared} {
		tables.Fill(f.decoder, all)
		for name := range unjudged.lookups(f, all) {
			r.Tables[name] = all[name]
		}
	}
	return r
}

// toTest lists the files for their tests. A placeholder without a value is a
// problem only where a test needs it: not in an input or output, nor in a step
// that the test mocks.
func (l *loader) toTest(set *Set) {
	var unresolved []schema.Problem
	l.problems = slices.DeleteFunc(l.problems, func(p schema.Problem) bool {
		if p.Code == schema.UnresolvedPlaceholder {
			unresolved = append(unresolved, p)
		}
		return p.Code == schema.UnresolvedPlaceholder
	})
	for _, f := range l.files {
		set.Pipelines = append(set.Pipelines, loaded(f))
		l.report(runtime.Judge(&f.spec.Pipeline)...)
		if len(unresolved) == 0 {
			continue
		}
		for _, t := range f.spec.Tests {
			l.report(l.needed(f, unresolved, t)...)
			if other := l.resourcesOf(f); other != f {
				l.report(l.needed(other, unresolved, t)...)
			}
		}
	}
}

// needed are the placeholders in f that a test can't do without.
func (l *loader) needed(f *file, unresolved []schema.Problem, t Test) (problems []schema.Problem) {
	var unused []string // paths
	for _, in := range f.spec.Inputs.Entries() {
		unused = append(unused, in.Value.Use.Place.Path)
	}
	for _, out := range f.spec.Outputs.Entries() {
		if !slices.Contains(Routes, out.Value.Use.Name) {
			unused = append(unused, out.Value.Use.Place.Path)
		}
	}
	for _, c := range f.spec.Resources.Caches.Entries() {
		unused = append(unused, c.Value.Use.Place.Path)
	}
	unused = append(unused, "resources.registries") // no test asks one
	for name, c := range f.spec.Resources.Tables.All() {
		if _, given := t.Tables.Get(name); given || c.URL != "" {
			unused = append(unused, schema.Join("resources.tables", name))
		}
	}
	mocked := func(s *engine.StepSpec) {
		if _, ok := t.Mocks.Get(StepName(s)); ok {
			unused = append(unused, s.Use.Place.Path)
		}
	}
	eachStep(f.spec.Pipeline, mocked)
	eachStep(f.spec.Resources.Steps, mocked)

	for _, p := range unresolved {
		switch {
		case !l.holds(f, p.Pos), schema.Within(p.Path, "service"), schema.Within(p.Path, "tests") &&
			!schema.Within(p.Path, t.Place.Path):
		case slices.ContainsFunc(unused, func(path string) bool { return path != "" && schema.Within(p.Path, path) }):
		default:
			p.Remedy += "; or mock the step in the test"
			problems = append(problems, p)
		}
	}
	return problems
}

// holds says whether a place is in a file or in one that it includes; one without a line is.
func (l *loader) holds(f *file, at schema.Pos) bool {
	return at.File == f.path || at.Line == 0 ||
		slices.ContainsFunc(l.included, func(in included) bool { return in.into == f && in.path == at.File })
}

// decodeAgain decodes a file that was decoded before.
func (l *loader) decodeAgain(f *file) *file {
	again := &file{path: f.path, root: f.root}
	again.decoder = l.decoder(again)
	again.read()
	return again
}

// resourcesOf is the file whose resources a pipeline uses: its own or, where it has none,
// that of all files which has some.
func (l *loader) resourcesOf(f *file) *file {
	has := func(f *file) bool { return f.root.Lookup("resources") != nil }
	if i := slices.IndexFunc(l.files, has); i >= 0 && !has(f) {
		return l.files[i]
	}
	return f
}
