package cli

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/docs"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// topicKind is the kind of everything in `flowd docs` that is not a component or function: sections of the file,
// guides, and lint codes.
const topicKind = "topic"

// sections are the sections of a file that are not lists of components.
var sections = []struct {
	name, summary string
	of            any // a struct with its fields
}{
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
		add(s.name, title+": "+s.summary, fieldsText(title, s.of))
	}
	add("codes", "The codes of problems that flowd lint finds", codeTable)
	entries, _ := docs.Guides.ReadDir(".") // of what is built in
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".md")
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

// codes returns the lint codes as topics. Lists of topics leave them out.
func codes() (all []component) {
	for _, c := range schema.Codes() {
		all = append(all, component{Kind: topicKind, Name: c.Name, Summary: c.Doc,
			text: func(width int, color bool) string {
				return paint(color, bold, "code "+c.Name) + "\n\n" + indent(wrap(c.Doc, width-2), "  ")
			}})
	}
	return all
}

func guide(name string) string {
	text, _ := docs.Guides.ReadFile(name + ".md")
	return string(text)
}

func fieldsText(title string, of any) func(width int, color bool) string {
	return func(width int, color bool) string {
		var b strings.Builder
		describeFields(&b, title, fieldsOf(schema.Of(of)), "", width, color)
		return strings.TrimPrefix(b.String(), "\n")
	}
}

func codeTable(_ int, color bool) string {
	var b strings.Builder
	b.WriteString(paint(color, bold, "codes") + "\n")
	for _, c := range schema.Codes() {
		fmt.Fprintf(&b, "  %-24s  %s\n", c.Name, c.Doc)
	}
	return b.String()
}
