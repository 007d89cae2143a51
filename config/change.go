package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// source is the text of a pipeline file, as it was read.
type source struct {
	path    string
	text    []byte
	managed bool // in the directory of service.pipelines
}

// Change is a change of one pipeline in the directory of service.pipelines.
type Change struct {
	Name string
	File string // in that directory, named after the pipeline
	Text []byte // nil: the file is removed

	// Ended reports whether a pipeline does not run. If pipes connect it with the pipeline that changes, it gets a new
	// plan, too, since one can't run without the other.
	Ended func(pipeline string) bool

	afresh bool // nothing is written or removed: the pipeline only gets a new plan
}

// Again returns the set with a new plan for one pipeline, which adopts nothing of its present plan. Otherwise it is like
// Change.
func (s *Set) Again(pipeline string, ended func(pipeline string) bool, o Options) (*Set, []schema.Problem) {
	file, _ := s.FileOf(pipeline)
	c := Change{Name: pipeline, File: file, Ended: ended, afresh: true}
	set, problems, _ := s.Change(c, o, func() error { return nil })
	return set, problems
}

// Change returns the set with one pipeline added, replaced or removed. It reads no other pipeline file again, and other
// pipelines keep their plans, except as Change.Ended says. accept is called once the change is known to be valid, before
// anything changes. If accept returns an error, or one of the problems is an error, the set that runs stays as it is.
func (s *Set) Change(c Change, o Options, accept func() error) (*Set, []schema.Problem, error) {
	o.change = &changing{c, s}
	set, problems := Load(nil, o) // built separately, so that nothing of it remains
	if failed(problems) {
		return set, problems, nil
	}
	if err := accept(); err != nil {
		return nil, problems, err
	}
	o.instead = s
	set, problems = Load(nil, o)
	return set, problems, nil
}

// changing is a change of a set.
type changing struct {
	Change
	set *Set
}

// FileOf returns the file of a pipeline, and whether it is in the directory of service.pipelines. The file is "" if the set
// has no such pipeline.
func (s *Set) FileOf(pipeline string) (path string, managed bool) {
	for _, l := range s.Pipelines {
		if l.Spec.Name == pipeline {
			return l.File, l.file.managed
		}
	}
	return "", false
}

// readManaged reads the directory of service.pipelines. It comes after includes and overrides, which do not apply to its
// files.
func (l *loader) readManaged() {
	dir, at := l.managedDir()
	if dir == "" || l.options.Testing {
		return
	}
	l.reads = append(l.reads, strings.TrimSuffix(dir, "/")+"/")
	for _, s := range l.sources {
		if absolute(filepath.Dir(s.path)) == absolute(dir) {
			l.complain(at, schema.Problem{Code: "bad-config",
				Message: fmt.Sprintf("%s is in this directory, and is also given by itself", s.path),
				Remedy:  "choose a directory for service.pipelines alone"})
			return
		}
	}
	if c := l.options.change; c != nil {
		for _, s := range c.sources() {
			l.parse(s)
		}
		return
	}
	files, err := pipelineFiles(dir)
	if err != nil && !os.IsNotExist(err) { // flowd creates it at the start
		l.unreadable(dir, err)
	}
	for _, path := range files {
		l.readFile(path, true)
	}
}

// sources returns the texts of the directory after the change.
func (c *changing) sources() []source {
	all := slices.DeleteFunc(slices.Clone(c.set.sources), func(s source) bool {
		return !s.managed || s.path == c.File && !c.afresh
	})
	if c.Text != nil {
		all = append(all, source{c.File, c.Text, true})
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return all
}

// managedDir returns the directory of service.pipelines and the place where it is set; "": there is none.
func (l *loader) managedDir() (dir string, at schema.Place) {
	for _, f := range l.files {
		if n := f.root.Find("service", "pipelines"); n != nil {
			dir, _ = schema.NewDecoder(l.options.Lookup).Text(n)
			at = f.place().At("service", "pipelines")
		}
	}
	return dir, at
}

// checkManaged checks what applies only to files in the directory of service.pipelines.
func (l *loader) checkManaged() {
	for _, f := range l.files {
		if !f.managed {
			continue
		}
		for _, section := range []string{"include", "resources", "service"} {
			if f.root.Lookup(section) != nil {
				l.complain(f.place().Key(section), schema.Problem{Code: "managed-section",
					Message: fmt.Sprintf("a pipeline in service.pipelines can't have `%s`, which is for the process", section),
					Remedy:  "write it in a file that flowd is started with, and remove it here"})
			}
		}
		if name := baseName(f.path); f.spec.Name != name {
			l.complain(f.place().At("name"), schema.Problem{Code: "managed-name",
				Message: fmt.Sprintf("the name %q is not the name of the file, %q", f.spec.Name, name),
				Remedy:  fmt.Sprintf("write `name: %s`, or leave the name out", name)})
		}
	}
}

// baseName returns the name of a pipeline whose file has no `name`.
func baseName(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// onlyProcess reports whether a file has only sections that belong to the process, and is not a pipeline: the pipelines are in
// other files, or in service.pipelines.
func (l *loader) onlyProcess(f *file) bool {
	return !f.managed && shared(f.root) && (f.root.Find("service", "pipelines") != nil ||
		slices.ContainsFunc(slices.Concat(l.files, l.parts), func(other *file) bool { return !shared(other.root) }))
}

// shared reports whether all sections of a file belong to the process.
func shared(root *schema.Node) bool {
	return len(root.Keys) > 0 &&
		!slices.ContainsFunc(root.Keys, func(k *schema.Node) bool { return k.Text != "service" && !includable(k.Text) })
}
