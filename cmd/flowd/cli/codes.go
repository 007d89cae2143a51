package cli

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// explanations says why each code is a problem, and how failures get each class, with examples. A test runs them.
//
//go:embed codes.md
var explanations string

// explained returns the sections of the explanations by title, such as "unknown-field" and "class late".
var explained = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for section := range strings.SplitSeq(explanations, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		body, _, _ = strings.Cut(body, "\n# Classes\n") // the next part
		all[title] = strings.TrimSpace(body)
	}
	return all
})

// The kinds of topics that codes.md explains.
const (
	codeKind  = "code"
	classKind = "class"
)

// codes returns the lint codes, and the classes of failures, as topics. Lists of topics leave them out.
func codes() (all []component) {
	add := func(kind, title, name, what string) {
		body := explained()[title]
		why, _, _ := strings.Cut(body, "\n\n```")
		if what == "" {
			what, why, _ = strings.Cut(strings.Join(strings.Fields(why), " "), ". ")
			what = strings.TrimSuffix(what, ".") + "."
		}
		all = append(all, component{Kind: topicKind, Name: name, Summary: what, group: kind, doc: body,
			text: func(width int, color bool) string {
				return paint(color, bold, kind+" "+name) + "\n\n" +
					indent(wrap(links.ReplaceAllString(what+" "+why, "$1"), width-2), "  ") + examplesText(body, color)
			}})
	}
	for _, c := range schema.Codes() {
		add(codeKind, c.Name, c.Name, c.Doc)
	}
	for line := range strings.Lines(explanations) {
		if name, ok := strings.CutPrefix(line, "## class "); ok {
			name = strings.TrimSpace(name)
			add(classKind, "class "+name, name, "")
		}
	}
	return all
}

// codeBlock matches an example of an explanation.
var codeBlock = regexp.MustCompile("(?ms)^```\\w+ (\\w+)\n(.*?)^```$")

// examplesText writes the examples of an explanation for a terminal.
func examplesText(body string, color bool) string {
	var b strings.Builder
	for _, m := range codeBlock.FindAllStringSubmatch(body, -1) {
		fmt.Fprintf(&b, "\n%s\n%s", paint(color, bold, title(m[1])), indent(m[2], "    "))
	}
	return b.String()
}

// codeTable lists the codes and classes.
func codeTable(_ int, color bool) string {
	var b strings.Builder
	for i, c := range codes() {
		if i == 0 || c.group == classKind && !strings.Contains(b.String(), "classes") {
			b.WriteString(paint(color, bold, map[string]string{codeKind: "codes", classKind: "classes"}[c.group]) + "\n")
		}
		fmt.Fprintf(&b, "  %-24s  %s\n", c.Name, c.Summary)
	}
	return b.String()
}

// codesPage is the page of the reference.
func codesPage() string {
	var b, sections strings.Builder
	table := func(intro, head, kind string) {
		fmt.Fprintf(&b, "%s\n\n| %s | meaning |\n|---|---|\n", intro, head)
		for _, c := range codes() {
			if c.group != kind {
				continue
			}
			heading := c.Name
			if kind == classKind {
				heading = "class " + c.Name
			}
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.Name, strings.ReplaceAll(heading, " ", "-"), cell(c.Summary))
			body := c.doc
			if kind == codeKind {
				body = c.Summary + " " + body
			}
			fmt.Fprintf(&sections, "\n## %s\n\n%s\n", heading, codeBlock.ReplaceAllStringFunc(body, asShown))
		}
	}
	table("# Codes of flowd lint\n\nEach problem ends with its code in brackets. `flowd docs CODE` explains it.", "code", codeKind)
	table("\nA message that fails has a class, which logs, dead letters and metrics name:", "class", classKind)
	return b.String() + sections.String()
}

// asShown writes an example for a page, below the word before or after.
func asShown(block string) string {
	first, rest, _ := strings.Cut(block, "\n")
	language, word, _ := strings.Cut(first, " ")
	return title(word) + ":\n\n" + language + " part\n" + rest
}
