package config

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/schema"
)

// Rehearsal is what one test runs: a pipeline and the resources that it uses. It belongs to the caller, who may
// change it.
type Rehearsal struct {
	Pipeline *engine.Pipeline
	Caches   map[string]engine.Plugin[engine.Cache]
	Limits   map[string]engine.RateLimit
	// Registries are the names of schema registries.
	Registries []string
	Tables     map[string]runtime.Resource // only those that the pipeline or the test uses
	Test       Test
	Secrets    *schema.Secrets // masked in errors and logs
}

// EachStep calls f for every step, including steps inside others.
func (r *Rehearsal) EachStep(f func(*engine.StepSpec)) {
	eachStep(r.Pipeline, f)
}

// EachStep calls f for every step of a pipeline, including steps inside others.
func EachStep(p *engine.Pipeline, f func(*engine.StepSpec)) { eachStep(p, f) }

// LeaveOutCalls replaces the steps that call other systems, and that the test does not mock, by steps that do nothing. It
// returns their names, each once, and their places.
func (r *Rehearsal) LeaveOutCalls() (names []string, places map[schema.Place]bool) {
	places = map[schema.Place]bool{}
	r.EachStep(func(s *engine.StepSpec) {
		name := StepName(s)
		_, mocked := r.Test.Mocks.Get(name)
		if mocked || engine.TraitsOf(s.Use.Config).Effects != engine.EffectsElsewhere {
			return
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		places[s.Place] = true
		use := engine.Use(func(engine.Env) (engine.Processor, error) {
			return engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }), nil
		})
		use.Place, s.Name = s.Use.Place, name
		s.Use = use
	})
	return names, places
}

// eachStep calls f for every step in v, including steps inside others. f may change the steps, since it gets pointers
// into lists.
func eachStep(v any, f func(*engine.StepSpec)) {
	schema.Walk(v, func(x reflect.Value) {
		if x.Type() == stepType && x.CanAddr() {
			f(x.Addr().Interface().(*engine.StepSpec))
		}
	})
}

var stepType = reflect.TypeFor[engine.StepSpec]()

// StepName returns the name of a step in errors, metrics and tests.
func StepName(s *engine.StepSpec) string {
	used, _ := s.Use.Config.(engine.UsedSteps)
	return cmp.Or(s.Name, used.Name, s.Use.Name)
}

// Routes are the types of outputs that only pass messages on to other outputs. A test does not replace them.
var Routes = []string{"fallback", "round_robin", "partition"}

// Tests returns the tests of the file, in order.
func (l Loaded) Tests() []Test { return l.file.spec.Tests }

// Rehearse decodes a pipeline again for its i-th test.
func (s *Set) Rehearse(l Loaded, i int) Rehearsal {
	own := s.loader.decodeAgain(l.file)
	return s.rehearse(l, own, own.spec.Tests[i])
}

// RehearseWith decodes a pipeline again for a test that no file has.
func (s *Set) RehearseWith(l Loaded, t Test) Rehearsal {
	return s.rehearse(l, s.loader.decodeAgain(l.file), t)
}

// Trial decodes a pipeline again to try it with messages. Steps have the mocks of the file's tests; if several tests mock a
// step, those of the first. The problems are placeholders without a value that the messages need.
func (s *Set) Trial(l Loaded, input []TestInput) (Rehearsal, []schema.Problem) {
	own := s.loader.decodeAgain(l.file)
	t := Test{Name: "try", Input: input, Seed: 1, TakesBack: "one", Place: schema.Place{Path: "try"}}
	var mocks []schema.Entry[Mock]
	for _, test := range own.spec.Tests {
		for _, e := range test.Mocks.Entries() {
			if !slices.ContainsFunc(mocks, func(m schema.Entry[Mock]) bool { return m.Key == e.Key }) {
				mocks = append(mocks, e)
			}
		}
	}
	t.Mocks = schema.MapOf(mocks...)
	needed := s.loader.needed(l.file, s.unresolved, t)
	if other := s.loader.resourcesOf(l.file); other != l.file {
		needed = append(needed, s.loader.needed(other, s.unresolved, t)...)
	}
	return s.rehearse(l, own, t), needed
}

func (s *Set) rehearse(l Loaded, own *file, t Test) Rehearsal {
	r := Rehearsal{
		Pipeline: &own.spec.Pipeline, Test: t, Secrets: s.loader.options.Secrets,
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
	unjudged := &loader{} // collects no problems: the test reports them when it runs
	for _, f := range []*file{own, shared} {
		tables.Fill(f.decoder, all)
		for name := range unjudged.lookups(f, all) {
			r.Tables[name] = all[name]
		}
	}
	return r
}

// toTest lists the files for their tests. A placeholder without a value is a problem only if a test needs it: not in
// an input, an output or a mocked step.
func (l *loader) toTest(set *Set) {
	var unresolved []schema.Problem
	l.problems = slices.DeleteFunc(l.problems, func(p schema.Problem) bool {
		if p.Code == schema.UnresolvedPlaceholder {
			unresolved = append(unresolved, p)
		}
		return p.Code == schema.UnresolvedPlaceholder
	})
	set.unresolved = unresolved
	for _, f := range l.pipelines() {
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

// needed returns the problems of placeholders in f that test t needs.
func (l *loader) needed(f *file, unresolved []schema.Problem, t Test) (problems []schema.Problem) {
	var unused []string // paths that the test does not use
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
	unused = append(unused, "resources.registries") // tests do not call registries
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

// holds reports whether f, or a file that it includes, contains a place. It contains places without a line.
func (l *loader) holds(f *file, at schema.Pos) bool {
	return at.File == f.path || at.Line == 0 ||
		slices.ContainsFunc(l.included, func(in included) bool { return in.into == f && in.path == at.File })
}

// decodeAgain decodes a file once more.
func (l *loader) decodeAgain(f *file) *file {
	again := &file{path: f.path, root: f.root}
	again.decoder = l.decoder(again)
	again.read()
	return again
}

// resourcesOf returns the file whose resources a pipeline uses: its own file if that has resources, else the one file
// that has.
func (l *loader) resourcesOf(f *file) *file {
	has := func(f *file) bool { return f.root.Lookup("resources") != nil }
	if i := slices.IndexFunc(l.files, has); i >= 0 && !has(f) {
		return l.files[i]
	}
	return f
}
