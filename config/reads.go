package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// configFiles is a config struct that names files which determine what a pipeline does, or hold its secrets: schemas,
// certificates, programs.
type configFiles interface{ ConfigFiles() []string }

// notedLookup wraps the lookup of placeholders: it records the files that placeholders name, and has the secrets that
// have been read.
func (l *loader) notedLookup(lookup schema.Lookup) schema.Lookup {
	if lookup == nil {
		lookup = schema.Environment
	}
	return func(name string) (string, bool, error) {
		if path, ok := strings.CutPrefix(name, "file:"); ok {
			l.reads = append(l.reads, path)
		}
		if schema.Managed(name) {
			return l.managed.lookup(name)
		}
		return lookup(name)
	}
}

// readsAlso records the files that v names.
func (l *loader) readsAlso(v any) {
	schema.Walk(v, func(x reflect.Value) {
		if c, ok := reflect.TypeAssert[configFiles](x); ok {
			files := slices.DeleteFunc(slices.Clone(c.ConfigFiles()), func(path string) bool { return path == "" })
			l.reads = append(l.reads, files...)
		}
	})
}

// readsGiven records a path that was given for pipelines.
func (l *loader) readsGiven(path string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = strings.TrimSuffix(path, "/") + "/"
	}
	l.reads = append(l.reads, path)
}
