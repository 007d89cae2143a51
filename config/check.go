package config

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// check applies the rules for tests, and those that span files. The engine checks each pipeline by itself.
func (l *loader) check() {
	l.checkTests()
	l.checkWords()
	l.checkShellNames()
	l.checkLists()
	if len(l.parts) == 0 && !l.torn {
		l.checkCalls()
	}
	if l.options.Testing || len(l.parts) > 0 || l.torn {
		return // each file is tested alone; a part that can't be read may contain what seems to be missing
	}
	l.checkNames()
	l.checkProcess("resources")
	l.checkProcess("service")
	l.checkLog()
	l.checkMetrics()
	l.checkManaged()
	for _, s := range sectionsOfResources {
		l.checkResources(s)
	}
	l.checkStates()
	l.checkPipes()
	l.checkReplies()
	l.checkStdin()
	l.checkOwn()
	l.checkFileLoops()
	l.checkPorts()
}

// place returns the place of the file as a whole.
func (f *file) place() schema.Place { return schema.Place{Node: f.root} }

func (l *loader) complain(at schema.Place, p schema.Problem) { l.report(at.Problem(p)) }

// checkNames rejects two pipelines with the same name, since metrics and logs tell them apart by it.
func (l *loader) checkNames() {
	first := map[string]*file{}
	for _, f := range l.pipelines() {
		other := first[f.spec.Name]
		if other == nil {
			first[f.spec.Name] = f
			continue
		}
		l.complain(f.place().At("name"), schema.Problem{Code: "duplicate-name",
			Message: fmt.Sprintf("two pipelines are called %q, this one and the one in %s", f.spec.Name, other.path),
			Remedy:  "rename one of them with `name`; the default is the file's base name"})
	}
}

// checkProcess rejects a second file with a section that belongs to the process.
func (l *loader) checkProcess(section string) {
	var first *schema.Node
	for _, f := range l.files {
		if f.root.Lookup(section) == nil || f.managed || section == "resources" && f.resourcesOnlyIncluded {
			continue
		}
		key := f.place().Key(section)
		if first == nil {
			first = key.Node
			continue
		}
		l.complain(key, schema.Problem{Code: "declared-twice",
			Message: fmt.Sprintf("`%s` belongs to the process and is already declared, at %v", section, first.Pos),
			Remedy:  "keep it in one file: all pipelines of the process share it"})
	}
}

// checkMetrics warns of metrics that nobody can read: without service.listen, only those of flowd itself are shown.
func (l *loader) checkMetrics() {
	if s := l.service(); s.Metrics == nil || s.Listen != "" {
		return
	}
	for _, f := range l.files {
		for _, step := range f.components(engine.Processors.Kind(), "metric") {
			l.complain(step.Place, schema.Problem{Code: "unseen-metrics", Warning: true,
				Message: "service.metrics does not show this metric, since its labels may be data",
				Remedy:  "set service.listen, whose /metrics shows it"})
		}
	}
}

// checkStdin rejects a second reader of standard input: each would get parts of records.
func (l *loader) checkStdin() {
	var first *runtime.Component
	for _, f := range l.files {
		for _, u := range f.components(engine.Inputs.Kind(), "stdin") {
			if first == nil {
				first = &u
				continue
			}
			l.complain(u.Place, schema.Problem{Code: "shared-stdin",
				Message: fmt.Sprintf("standard input is already read by %s", first.Place.Pos),
				Remedy:  "read it once, and pass messages on through batchers or a pipe"})
		}
	}
}
