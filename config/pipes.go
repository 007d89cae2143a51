package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// end is one end of a pipe: an input or output `pipe` of a pipeline.
type end struct {
	runtime.Component
	file *file
}

// pipeEnds returns the components of type pipe and of a kind, by the pipe's name.
func (l *loader) pipeEnds(kind string) map[string][]end {
	ends := map[string][]end{}
	for _, f := range l.files {
		for _, u := range f.components(kind, "pipe") {
			ends[u.Refers()] = append(ends[u.Refers()], end{u, f})
		}
	}
	return ends
}

// Upstream returns the pipelines of a set that write to pipes which pipeline reads.
func (s *Set) Upstream(pipeline string) (names []string) {
	writers := s.loader.pipeEnds(engine.Outputs.Kind())
	for _, f := range s.loader.files {
		if f.spec.Name != pipeline {
			continue
		}
		for _, in := range f.components(engine.Inputs.Kind(), "pipe") {
			for _, w := range writers[in.Refers()] {
				names = append(names, w.file.spec.Name)
			}
		}
	}
	return names
}

// Linked returns a pipeline that pipes connect with another one, or "".
func (s *Set) Linked(pipeline string) string {
	linked := s.loader.linked(pipeline)
	delete(linked, pipeline)
	for _, name := range s.Names() {
		if linked[name] {
			return name
		}
	}
	return ""
}

// linked returns the names of a pipeline and of those that pipes connect with it, directly or by way of others.
func (l *loader) linked(pipeline string) map[string]bool {
	found := map[string]bool{pipeline: true}
	readers, writers := l.pipeEnds(engine.Inputs.Kind()), l.pipeEnds(engine.Outputs.Kind())
	for before := 0; before < len(found); {
		before = len(found)
		for pipe := range readers {
			ends := slices.Concat(readers[pipe], writers[pipe])
			if slices.ContainsFunc(ends, func(e end) bool { return found[e.file.spec.Name] }) {
				for _, e := range ends {
					found[e.file.spec.Name] = true
				}
			}
		}
	}
	return found
}

// checkPipes checks that every pipe has both ends and that pipes form no loop: a message in a loop would wait for
// itself.
func (l *loader) checkPipes() {
	readers, writers := l.pipeEnds(engine.Inputs.Kind()), l.pipeEnds(engine.Outputs.Kind())
	delete(readers, "") // the decoder reports empty names
	delete(writers, "")
	l.openEnds(readers, writers, "nothing writes to the pipe %q", "an output `pipe: %s`")
	l.openEnds(writers, readers, "nothing reads from the pipe %q", "an input `pipe: %s`")
	l.pipeCycles(readers)
}

// openEnds reports pipes that lack their other end.
func (l *loader) openEnds(pipes, others map[string][]end, message, missing string) {
	known := slices.Sorted(maps.Keys(others))
	for name, ends := range pipes {
		if len(others[name]) > 0 {
			continue
		}
		remedy := schema.Suggest(name, known, fmt.Sprintf("load a pipeline that has "+missing, name))
		for _, e := range ends {
			l.complain(e.Place, schema.Problem{Code: "open-pipe", Message: fmt.Sprintf(message, name), Remedy: remedy})
		}
	}
}

// pipeCycles reports pipes that lead from a pipeline back to itself.
func (l *loader) pipeCycles(readers map[string][]end) {
	done := map[*file]bool{}
	var follow func(f *file, trail []*file)
	follow = func(f *file, trail []*file) {
		if done[f] {
			return
		}
		trail = append(slices.Clip(trail), f)
		for _, w := range f.components(engine.Outputs.Kind(), "pipe") {
			for _, r := range readers[w.Refers()] {
				i := slices.Index(trail, r.file)
				if i < 0 {
					follow(r.file, trail)
					continue
				}
				var names []string
				for _, t := range append(slices.Clip(trail[i:]), r.file) {
					names = append(names, t.spec.Name)
				}
				l.complain(w.Place, schema.Problem{Code: "pipe-cycle",
					Message: "these pipes form a loop: " + strings.Join(names, " → "),
					Remedy:  "remove one of these pipes"})
			}
		}
		done[f] = true
	}
	for _, f := range l.files {
		follow(f, nil)
	}
}
