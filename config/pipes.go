package config

import (
	"fmt"
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

// checkPipes checks that every pipe has both ends, and that no message can return to a
// pipeline that it has left: it would wait for itself.
func (l *loader) checkPipes() {
	readers, writers := map[string][]end{}, map[string][]end{}
	var order []end // of the writers, as written
	for _, f := range l.files {
		for _, u := range runtime.Components(f.spec.Pipeline) {
			e := end{u, f}
			switch {
			case u.Type != "pipe" || u.Refers() == "":
			case u.Kind == engine.Inputs.Kind():
				readers[u.Refers()] = append(readers[u.Refers()], e)
			case u.Kind == engine.Outputs.Kind():
				writers[u.Refers()] = append(writers[u.Refers()], e)
				order = append(order, e)
			}
		}
	}
	for name, ends := range readers {
		if len(writers[name]) == 0 {
			l.openEnd(ends, "nothing writes to the pipe %q", "an output `pipe: %s`", sortedKeys(writers))
		}
	}
	for name, ends := range writers {
		if len(readers[name]) == 0 {
			l.openEnd(ends, "nothing reads from the pipe %q", "an input `pipe: %s`", sortedKeys(readers))
		}
	}
	l.pipeCycles(order, readers)
}

// openEnd complains about a pipe that lacks its other end.
func (l *loader) openEnd(ends []end, message, missing string, others []string) {
	for _, e := range ends {
		name := e.Refers()
		remedy := schema.Suggest(name, others, fmt.Sprintf("load a pipeline that has "+missing, name))
		l.complain(e.Place, schema.Problem{Code: "open-pipe", Message: fmt.Sprintf(message, name), Remedy: remedy})
	}
}

// pipeCycles looks for a way from a pipeline back to it.
func (l *loader) pipeCycles(writers []end, readers map[string][]end) {
	next := map[*file][]end{}
	for _, w := range writers {
		next[w.file] = append(next[w.file], w)
	}
	done := map[*file]bool{}
	var follow func(f *file, trail []*file)
	follow = func(f *file, trail []*file) {
		if done[f] {
			return
		}
		trail = append(slices.Clip(trail), f)
		for _, w := range next[f] {
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
					Message: "messages would go round in a circle: " + strings.Join(names, " → "),
					Remedy:  "remove one of these pipes"})
			}
		}
		done[f] = true
	}
	for _, f := range l.files {
		follow(f, nil)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
