// Package config loads and judges sets of pipeline files, with a position in every
// complaint. The commands call it. Start at [Load].
//
// A file goes through five stages: text to nodes (package yamltext), overrides
// (Options.Set), nodes to an engine.Pipeline (package schema), the rules for what spans
// files (check), and a plan (runtime.Build, which judges the pipeline alone). Each stage
// goes on behind a mistake as far as it can, so that one pass reports everything; what is
// known to be wrong is handed on, so that nothing is said twice.
package config

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/schema"
)

// Options say how files are read.
type Options struct {
	// Set holds overrides, "path=value": engine.workers=2,
	// outputs.lake.file.path=/tmp/x, processors[0].filter=true. The value is
	// YAML. With several files an override applies to each that has the
	// component it names, and to all when it names none, as engine.workers does.
	Set    []string
	Lookup schema.Lookup // of placeholders; nil: the environment and files
	Log    *slog.Logger
	Hooks  []engine.Hook // take the events of all pipelines

	// Secrets collects what must not be shown of everything that is read. It may be read
	// from while pipelines run; nil means one that nobody else has.
	Secrets *schema.Secrets

	instead *Set // that runs; see Set.Reload

	// Testing reads the files for their tests: each file is read alone, no plans are built,
	// and no placeholder has to be set yet. See Set.Rehearse.
	Testing bool
}

// Set is what some files and directories hold: the pipelines of one process.
type Set struct {
	Pipelines []Loaded
	Service   Service // of the process
	Shared    *engine.Shared

	// Included are the files that these include, and patterns of such files.
	Included []string

	tables map[string]*tables.Table
	loader *loader
}

// Loaded is one pipeline of a set.
type Loaded struct {
	File string
	Spec *engine.Pipeline
	Plan *runtime.Plan // nil when a problem is an error

	file *file
}

// Load reads and builds everything without I/O beyond the files themselves and
// reports all problems, sorted by place. A file that can't be read or parsed
// has problems, but is not in the set.
func Load(paths []string, o Options) (*Set, []schema.Problem) {
	l := loader{options: o}
	l.options.Lookup = l.notedLookup(o.Lookup)
	l.read(paths)
	l.include()
	l.override()
	return l.finish()
}

// loader is one call of Load.
type loader struct {
	options  Options
	files    []*file
	parts    []*file  // what can be read of those that are not YAML; only looked at
	reads    []string // files and directories that are configuration
	problems []schema.Problem

	lists    map[string]*engine.StepListNode // of all files; nil: not collected
	included []included
	includes []string // files that are included, and patterns of them
	torn     bool     // an included file can't be read, so that what is there is not known
}

// finish goes from nodes to plans.
func (l *loader) finish() (*Set, []schema.Problem) {
	if l.options.Secrets == nil {
		l.options.Secrets = &schema.Secrets{}
	}
	for _, f := range slices.Concat(l.files, l.parts) {
		l.decode(f)
	}
	l.check()
	set := &Set{loader: l, Included: l.includes}
	switch {
	case l.options.Testing:
		l.toTest(set)
	case l.torn:
		for _, f := range l.files {
			set.Pipelines = append(set.Pipelines, loaded(f))
		}
	default:
		l.build(set)
	}
	l.placed()
	l.improve()
	l.show()
	for i := range l.problems { // those of callers that know no secrets, too
		p := &l.problems[i]
		p.Message, p.Remedy = l.options.Secrets.Mask(p.Message), l.options.Secrets.Mask(p.Remedy)
	}
	return set, sorted(l.problems)
}

func (l *loader) report(p ...schema.Problem) { l.problems = append(l.problems, p...) }

// JSONSchema is the schema of a pipeline file for editors (draft-07).
func JSONSchema() ([]byte, error) {
	return schema.JSONSchema(schema.Of(document{}), "flowd pipeline", "^x-")
}

// sorted are the problems by file, line and column, each one once.
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
