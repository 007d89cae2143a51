// Package config loads and checks sets of pipeline files. Each problem has a position. The commands call it. Start at
// [Load].
//
// A file goes through five stages: text to nodes (package yamltext), overrides (Options.Set), nodes to an
// engine.Pipeline (package schema), the rules that span files (check), and a plan (runtime.Build, which checks each
// pipeline by itself). Each stage continues after a mistake as far as it can, so that one pass reports everything. It
// passes on what is known to be wrong, so that no problem is reported twice.
package config

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/program/manifest"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
)

// Options say how files are read.
type Options struct {
	// Set holds overrides, "path=value": engine.workers=2,
	// outputs.lake.file.path=/tmp/x, processors[0].filter=true. The value is
	// YAML. With several files an override applies to each that has the
	// component it names, and to all when it names none, as engine.workers does.
	Set    []string
	Lookup schema.Lookup // resolves placeholders; nil: from the environment and files
	Log    *slog.Logger
	Hooks  []engine.Hook // receive the events of all pipelines
	// Observe returns the observers of the messages of all pipelines. nil: there are none.
	Observe func(Service) []engine.Observer
	// Trace returns what follows the messages of all pipelines, or nil. An error is one of service.tracing. nil: nothing does.
	Trace func(Service) (engine.Tracer, error)

	// Secrets collects the secrets that are read, for masking. Callers may read it while pipelines run. nil: a
	// private collection.
	Secrets *schema.Secrets

	// Plugins are folders with manifests of programs, in addition to service.plugins.
	Plugins []string

	// Managers has the secrets of secrets managers, such as ${vault:PATH#FIELD}, and reads those of the files. nil: no
	// manager is asked. Such a placeholder then counts as set, but plans that need its value are nil.
	Managers *secrets.Store

	instead *Set      // the set that runs; see Set.Reload
	change  *changing // see Set.Change

	// Testing reads the files for their tests: each file is read alone, no plans are built,
	// and no placeholder has to be set yet. See Set.Rehearse.
	Testing bool

	// Rewrite changes each pipeline after it was read and checked, and before its plan is built. nil: none is changed. An
	// error is a problem of the pipeline.
	Rewrite func(*engine.Pipeline) error
}

// Set is the content of files and directories: the pipelines of one process.
type Set struct {
	Pipelines []Loaded
	Service   Service // of the process, also if there are errors
	Shared    *engine.Shared

	// Included are the files that these files include, and patterns of such files.
	Included []string

	sources []source
	tables  map[string]*tables.Table
	loader  *loader

	unresolved []schema.Problem // placeholders without a value, which not every test needs
}

// Names returns the names of the pipelines, in the order of their files.
func (s *Set) Names() (names []string) {
	for _, l := range s.Pipelines {
		names = append(names, l.Spec.Name)
	}
	return names
}

// Loaded is one pipeline of a set.
type Loaded struct {
	File string
	Spec *engine.Pipeline
	Plan *runtime.Plan // nil when a problem is an error

	file *file
}

// Load reads and builds everything, and reports all problems sorted by place. It registers the types of manifests. It does no
// I/O beyond the files themselves and the manifests, and requests for secrets (see Options.Managers). A file that can't be
// read or parsed has problems, but is not in the set.
func Load(paths []string, o Options) (*Set, []schema.Problem) {
	l := loader{options: o}
	l.options.Lookup = l.notedLookup(o.Lookup)
	l.managed.testing, l.managed.lint = o.Testing, o.Managers == nil
	l.read(paths)
	l.include()
	l.override()
	l.readManaged()
	l.manage()
	l.manifests()
	for _, f := range slices.Concat(l.files, l.parts) {
		l.inherit(f)
		l.nameParts(f)
	}
	return l.finish()
}

// loader is one call of Load.
type loader struct {
	options  Options
	files    []*file
	parts    []*file  // readable parts of files that are not valid YAML; only checked
	sources  []source // of files and parts
	reads    []string // files and directories that are configuration
	problems []schema.Problem

	managed  managed
	lists    map[string]*engine.StepListNode // of all files; nil: not collected yet
	included []included
	includes []string // files that are included, and patterns of them
	plugins  manifest.Set
	torn     bool // an included file can't be read, so what it contains is unknown
}

// finish turns nodes into plans.
func (l *loader) finish() (*Set, []schema.Problem) {
	if l.options.Secrets == nil {
		l.options.Secrets = &schema.Secrets{}
	}
	for _, f := range slices.Concat(l.files, l.parts) {
		l.decode(f)
	}
	l.check()
	set := &Set{loader: l, sources: l.sources, Included: l.includes, Service: l.service()}
	switch {
	case l.options.Testing:
		l.toTest(set)
	case l.torn:
		for _, f := range l.pipelines() {
			set.Pipelines = append(set.Pipelines, loaded(f))
		}
	default:
		l.build(set)
	}
	l.withoutUnread()
	l.placed()
	l.improve()
	l.show()
	for i := range l.problems { // includes problems of callers that have no secrets
		p := &l.problems[i]
		p.Message, p.Remedy = l.options.Secrets.Mask(p.Message), l.options.Secrets.Mask(p.Remedy)
	}
	return set, sorted(l.problems)
}

// service returns the section `service`, which one of the files has.
func (l *loader) service() (s Service) {
	for _, f := range l.files {
		if f.root.Lookup("service") != nil && !f.managed {
			s = f.spec.Service
			if n := f.root.Find("service", "notify"); n != nil && s.Notify != nil {
				s.Notify.print = connection(n, f.decoder)
			}
			if n := f.root.Find("service", "tracing"); n != nil && s.Tracing != nil {
				s.Tracing.print = connection(n, f.decoder)
			}
		}
	}
	return s
}

// pipelines returns the files that are pipelines.
func (l *loader) pipelines() []*file {
	return slices.DeleteFunc(slices.Clone(l.files), func(f *file) bool { return f.onlyProcess })
}

// observers returns the observers of all pipelines.
func (l *loader) observers(s Service) []engine.Observer {
	if l.options.Observe == nil {
		return nil
	}
	return l.options.Observe(s)
}

// tracer returns what follows the messages of all pipelines, or nil.
func (l *loader) tracer(s Service) engine.Tracer {
	if l.options.Trace == nil {
		return nil
	}
	t, err := l.options.Trace(s)
	if err != nil {
		l.report(schema.Problem{Code: "bad-config", Path: "service.tracing", Message: err.Error()})
		return nil
	}
	return t
}

func (l *loader) report(p ...schema.Problem) { l.problems = append(l.problems, p...) }

// JSONSchema returns the schema of a pipeline file for editors (draft-07).
func JSONSchema() ([]byte, error) {
	return schema.JSONSchema(schema.Of(document{}), "flowd pipeline",
		schema.TopLevel{Ignored: "^x-", Shared: []string{"include", "resources", "service"}})
}

// sorted sorts problems by file, line and column, and removes duplicates.
func sorted(problems []schema.Problem) []schema.Problem {
	slices.SortStableFunc(problems, func(a, b schema.Problem) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
		)
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(problems, func(p schema.Problem) bool {
		key := p.String()
		again := seen[key]
		seen[key] = true
		return again
	})
}
