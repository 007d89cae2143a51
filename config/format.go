package config

import (
	"os"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

// Formatted is the text of a file before and after [Format].
type Formatted struct{ File, Before, After string }

// Changed reports whether the file was not formatted.
func (f Formatted) Changed() bool { return f.Before != f.After }

// Format formats files, and the pipeline files of directories, in memory. Of a file that is not valid it reports why.
func Format(paths []string) (all []Formatted, problems []schema.Problem) {
	l := loader{}
	for _, path := range paths {
		for _, file := range l.expand(path) {
			data, err := os.ReadFile(file)
			if err != nil {
				l.unreadable(file, err)
				continue
			}
			f, wrong := FormatText(file, data)
			l.report(wrong...)
			if len(wrong) == 0 {
				all = append(all, f)
			}
		}
	}
	return all, l.problems
}

// FormatText formats the text of a file.
func FormatText(file string, data []byte) (Formatted, []schema.Problem) {
	after, problems, err := yamltext.Format(file, data)
	if err != nil {
		problems = append(problems, schema.Problem{Pos: schema.Pos{File: file}, Code: "unsafe-format",
			Message: err.Error(), Remedy: "format it by hand"})
	}
	return Formatted{file, string(data), after}, problems
}
