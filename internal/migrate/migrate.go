// Package migrate turns configurations of Benthos, Bento and Redpanda Connect into pipeline files. `flowd migrate`
// calls it. Start at [Benthos].
//
// A file goes through four stages. Placeholders of the environment, which these systems replace before they read
// YAML, are hidden from the parser (env.go); anchors and merge keys are expanded (source.go). Then components are
// translated: what only has other names by the table components.yaml (fields.go), what has another shape by code
// (steps.go, inputs.go, routes.go, tests.go). In the end sections are written in one layout, each with the comments
// that it had (write.go).
//
// Nothing is guessed. What has no counterpart stands as a comment beside a key `untranslated`, which lint refuses
// with the reason, and what behaves otherwise than before has a comment that says how.
package migrate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Kind says what a note is about.
type Kind string

const (
	// Untranslated marks what has no counterpart: lint finds an error where it stood.
	Untranslated Kind = "untranslated"
	// Differs marks what runs, but not in every case as before; a comment at the place says so.
	Differs Kind = "differs"
)

// Note is something that a person has to know about a translation.
type Note struct {
	Kind Kind   `json:"kind"`
	File string `json:"file"` // that was read
	Line int    `json:"line"` // from 1
	Col  int    `json:"col"`  // in characters, from 1
	Text string `json:"text"`
}

// Done counts what was translated.
type Done struct {
	Whole int `json:"translated"`
	Of    int `json:"of"`
}

// Output is a file that a translation gives.
type Output struct {
	Name string // base name, such as orders.yaml
	Text []byte
	Why  string // what the file is for, where it is not the pipeline itself
}

// Result is the translation of one file.
type Result struct {
	File       string   `json:"file"`
	Outputs    []Output `json:"-"`
	Part       string   `json:"part_of,omitempty"` // the file whose translation has the tests of this file of tests
	Components Done     `json:"components"`
	Tests      Done     `json:"tests"`
	Notes      []Note   `json:"notes"`
	Missing    []string `json:"missing,omitempty"` // components without a counterpart, such as "processor awk"
}

// Whole reports whether nothing was left untranslated.
func (r *Result) Whole() bool {
	return !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Kind == Untranslated })
}

// Options say what a translation may look at besides the file itself.
type Options struct {
	// Read reads a file that the configuration names, such as a mapping or a file of tests; nil: there are none.
	Read func(path string) ([]byte, error)
	// List lists the files of a folder that it names, for schemas; nil: there are none.
	List func(dir string) ([]string, error)
	// Resources are other files, which define resources that it uses.
	Resources []string
}

// Benthos translates a configuration of Benthos, Bento or Redpanda Connect. file is where data was read; what it
// names is looked for relative to that. The error says why there is nothing to translate.
func Benthos(file string, data []byte, o Options) (*Result, error) {
	if o.Read == nil {
		o.Read = func(path string) ([]byte, error) { return nil, fmt.Errorf("%s is not read", path) }
	}
	if o.List == nil {
		o.List = func(string) ([]string, error) { return nil, nil }
	}
	src, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Resources {
		data, err := o.Read(name)
		if err != nil {
			return nil, err
		}
		other, err := parseWith(name, data, &src.env)
		if err != nil {
			return nil, err
		}
		src.others = append(src.others, other)
	}
	if whole := companionOf(file); whole != "" && len(src.root.Content) == 2 && lookup(src.root, "tests") != nil {
		if _, err := o.Read(filepath.Base(whole)); err == nil {
			return &Result{File: file, Part: whole, Notes: []Note{}}, nil
		}
	}
	if lookup(src.root, "type") != nil && (lookup(src.root, "mapping") != nil || lookup(src.root, "fields") != nil) {
		return &Result{File: file, Notes: []Note{{Untranslated, file, src.root.Line, src.root.Column,
			"this is a template, not a configuration: a list of steps in resources.steps has parameters"}}}, nil
	}
	t := newTranslator(file, src, o)
	return t.translate()
}

// base returns the name of what is translated, without folder and extension.
func base(file string) string {
	name := filepath.Base(file)
	return cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), "pipeline")
}
