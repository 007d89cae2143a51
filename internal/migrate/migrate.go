// Package migrate translates configurations of Benthos, Bento and Redpanda Connect to pipeline files. `flowd migrate`
// calls it. Start at [Benthos].
//
// A file goes through four stages. Placeholders of the environment, which these systems replace before they parse
// YAML, are hidden from the parser (env.go). Anchors and merge keys are expanded (source.go). Components are
// translated: with the table components.yaml if only names differ (fields.go), with code if the shape differs
// (steps.go, inputs.go, routes.go, tests.go). Finally, sections are written in one layout, each with its comments
// (write.go).
//
// A translation never guesses. A part without a counterpart becomes a comment at a key `untranslated`, which lint
// rejects with the reason. A part that behaves differently has a comment that says how.
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
	// Untranslated marks a part without a counterpart: lint reports an error in its place.
	Untranslated Kind = "untranslated"
	// Differs marks a part that runs, but may behave differently; a comment at the place says how.
	Differs Kind = "differs"
)

// Note is what a person must know about a translation.
type Note struct {
	Kind Kind   `json:"kind"`
	File string `json:"file"` // the source file
	Line int    `json:"line"` // from 1
	Col  int    `json:"col"`  // in characters, from 1
	Text string `json:"text"`
}

// Done counts what was translated.
type Done struct {
	Whole int `json:"translated"`
	Of    int `json:"of"`
}

// Output is a file of a translation.
type Output struct {
	Name string // base name, such as orders.yaml
	Text []byte
	Why  string // purpose of the file, if it is not the pipeline itself
}

// Result is the translation of one file.
type Result struct {
	File       string   `json:"file"`
	Outputs    []Output `json:"-"`
	Part       string   `json:"part_of,omitempty"` // the file whose translation contains the tests of this test file
	Components Done     `json:"components"`
	Tests      Done     `json:"tests"`
	Notes      []Note   `json:"notes"`
	Missing    []string `json:"missing,omitempty"` // components without a counterpart, such as "processor awk"
}

// Whole reports whether everything was translated.
func (r *Result) Whole() bool {
	return !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Kind == Untranslated })
}

// Options say what a translation may read besides the file itself.
type Options struct {
	// Read reads a file that the configuration names, such as a mapping or test file; nil: no files can be read.
	Read func(path string) ([]byte, error)
	// List lists the files of a folder that the configuration names, for schemas; nil: no folders can be read.
	List func(dir string) ([]string, error)
	// Resources are other files with resources that the configuration uses.
	Resources []string
}

// Benthos translates a configuration of Benthos, Bento or Redpanda Connect. file is where data was read; names of
// files are relative to it. The error says why nothing can be translated.
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

// base returns the name of a file without folder and extension.
func base(file string) string {
	name := filepath.Base(file)
	return cmp.Or(strings.TrimSuffix(name, filepath.Ext(name)), "pipeline")
}
