package cli

import (
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/docs"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// topicKind is the kind of everything in `flowd docs` that is not a component or function: sections of the file,
// guides, and lint codes.
const topicKind = "topic"

// fileSection is a section of a file that is not a list of components.
type fileSection struct {
	name, summary string
	of            any // a struct with its fields
}

var sections = []fileSection{
	{"engine", "parallelism, order, memory, failures, draining", engine.EngineSpec{}},
	{"defaults", "what outputs, steps and batchers inherit", engine.Defaults{}},
	{"resources", "what pipelines share", config.Resources{}},
	{"service", "the process itself", config.Service{}},
	{"tests", "messages and their expected results", config.Test{}},
}

// topics returns the sections and guides, in this order.
func topics() (all []component) {
	add := func(name, summary string, text func(width int, color bool) string) {
		all = append(all, component{Kind: topicKind, Name: name, Summary: summary, text: text})
	}
	for _, s := range sections {
		title := "The section " + s.name
		add(s.name, title+": "+s.summary, fieldsText(title, s.of, ""))
	}
	add("codes", "The codes of problems that flowd lint finds", codeTable)
	for _, name := range guideNames() {
		text := guide(name)
		first, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		add(name, "Guide: "+first, func(_ int, color bool) string {
			if name == "expressions" {
				return text + "\n" + table(functions(), color)
			}
			return text
		})
	}
	return all
}

// guideNames returns the names of the guides that are built in.
func guideNames() (all []string) {
	entries, _ := docs.Guides.ReadDir(".")
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), ".md"))
	}
	return all
}

func guide(name string) string {
	text, _ := docs.Guides.ReadFile(name + ".md")
	return string(text)
}

// fieldsText describes the fields of a struct. With a key, only that field and those in it are described.
func fieldsText(title string, of any, key string) func(width int, color bool) string {
	return func(width int, color bool) string {
		fields := fieldsOf(schema.Of(of))
		if key != "" {
			fields = slices.DeleteFunc(fields, func(f schema.Field) bool { return topKey(f.Path) != key })
		}
		var b strings.Builder
		describeFields(&b, title, fields, "", width, color)
		return strings.TrimPrefix(b.String(), "\n")
	}
}
