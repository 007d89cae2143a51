package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/docs"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// topic is what `flowd docs` knows besides components and functions: a section of the file,
// a guide, or a lint code.
type topic struct {
	name, summary string
	text          func(width int, color bool) string
}

// topics are the sections and guides, in this order.
func topics() []topic {
	all := []topic{
		{"expressions", "The language of conditions and values, and its functions", expressions},
		{"engine", "The section engine: parallelism, order, memory, failures, draining",
			fieldsText("The section engine", engine.EngineSpec{})},
		{"resources", "The section resources: what pipelines share",
			fieldsText("The section resources", config.Resources{})},
		{"service", "The section service: the process itself", fieldsText("The section service", config.Service{})},
		{"tests", "The section tests: messages, and what must become of them", fieldsText("A test", config.Test{})},
		{"codes", "The codes of problems that flowd lint finds",
			func(_ int, color bool) string { return codeTable(color) }},
	}
	entries, _ := docs.Guides.ReadDir(".") // of what is built in
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".md")
		text := guide(name)
		first, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		all = append(all, topic{name, "Guide: " + first, func(int, bool) string { return text }})
	}
	return all
}

func guide(name string) string {
	text, _ := docs.Guides.ReadFile(name + ".md")
	return string(text)
}

// expressions is what the guide says of them, and the functions.
func expressions(_ int, color bool) string {
	_, text, _ := strings.Cut(guide("language"), "\n## Expressions\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return paint(color, bold, "Expressions") + "\n" + text + "\n" + table(functions(), color)
}

func fieldsText(title string, of any) func(width int, color bool) string {
	return func(width int, color bool) string {
		var b strings.Builder
		describeFields(&b, title, fieldsOf(schema.Of(of)), "", width, color)
		return strings.TrimPrefix(b.String(), "\n")
	}
}

func codeTable(color bool) string {
	var b strings.Builder
	b.WriteString(paint(color, bold, "codes") + "\n")
	for _, c := range schema.Codes() {
		fmt.Fprintf(&b, "  %-24s  %s\n", c.Name, c.Doc)
	}
	return b.String()
}

// lookupTopic is the text of a topic or code, ok where there is one of that name.
func lookupTopic(name string, width int, color bool) (text string, ok bool) {
	for _, t := range topics() {
		if t.name == name {
			return t.text(width, color), true
		}
	}
	for _, c := range schema.Codes() {
		if c.Name == name {
			return paint(color, bold, "code "+c.Name) + "\n\n" + indent(wrap(c.Doc, width-2), "  "), true
		}
	}
	return "", false
}

// topicNames are the names of topics, with a tab and what each is about, and codes.
func topicNames() (names []string) {
	for _, t := range topics() {
		names = append(names, t.name+"\t"+t.summary)
	}
	for _, c := range schema.Codes() {
		names = append(names, c.Name+"\t"+c.Doc)
	}
	return names
}

// topicTable lists the topics.
func topicTable(color bool) string {
	var b strings.Builder
	all := topics()
	width := len(slices.MaxFunc(all, func(a, b topic) int { return len(a.name) - len(b.name) }).name)
	b.WriteString(paint(color, bold, "topics") + "\n")
	for _, t := range all {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, t.name, t.summary)
	}
	return b.String()
}
