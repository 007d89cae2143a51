package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// properties lists the properties of a field besides its type and its text.
func properties(f schema.Field) []string {
	var all []string
	add := func(format, value string) {
		if value != "" {
			all = append(all, fmt.Sprintf(format, value))
		}
	}
	if f.Required {
		all = append(all, "required")
	}
	if f.Main {
		all = append(all, "may be written alone")
	}
	add("one of the choices of %s", f.Choice)
	add("default %s", f.Default)
	add("one of %s", strings.Join(f.Allowed, ", "))
	add("at least %s", f.Min)
	add("at most %s", f.Max)
	return all
}

// fieldsOf lists the fields of a type that are in force.
func fieldsOf(t *schema.Type) []schema.Field {
	var all []schema.Field
	pending := "."
	for _, f := range t.Fields() {
		if strings.HasPrefix(f.Path, pending) {
			continue
		}
		if f.Pending != "" {
			pending = f.Path + "."
			continue
		}
		all = append(all, f)
	}
	return all
}

// commonKeys lists the keys next to the type key, by kind of component.
func commonKeys(kind string) []schema.Field {
	specs := map[string]any{
		engine.Inputs.Kind():     engine.InputSpec{},
		engine.Processors.Kind(): engine.StepSpec{},
		engine.Batchers.Kind():   engine.BatcherSpec{},
		engine.Outputs.Kind():    engine.OutputSpec{},
	}
	if specs[kind] == nil {
		return nil
	}
	return fieldsOf(schema.Of(specs[kind]))
}

// writeReference writes the reference of everything in this build to a folder: a page for each component, for each kind of
// component, for each section of the file, for the functions and for the lint codes.
func writeReference(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- documentation is not secret
		return err
	}
	for name, text := range referencePages() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { // #nosec G306 -- nor is a page
			return err
		}
	}
	return nil
}

// referencePages returns the pages of the reference by the names of their files.
func referencePages() map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Reference\n\nWritten by `flowd docs --markdown`; do not edit. [The language](../language.md) explains what is " +
		"common to all.\n\n| | |\n|---|---|\n")
	byKind := map[string][]component{}
	for _, c := range components() {
		byKind[c.Kind] = append(byKind[c.Kind], c)
	}
	for _, kind := range kinds {
		if kind == functionKind {
			continue
		}
		var links, page strings.Builder
		fmt.Fprintf(&page, "# %ss\n\n", title(kind))
		for i, c := range byKind[kind] {
			if i > 0 {
				links.WriteString(", ")
			}
			fmt.Fprintf(&links, "[`%s`](%s)", c.Name, fileOfPage(c))
			fmt.Fprintf(&page, "- [`%s`](%s): %s\n", c.Name, fileOfPage(c), cell(c.Summary))
			pages[fileOfPage(c)] = componentPage(c)
		}
		fmt.Fprintf(&index, "| [%ss](%[2]ss.md) | %s |\n", title(kind), kind, links.String())
		if keys := commonKeys(kind); len(keys) > 0 {
			fmt.Fprintf(&page, "\nBesides its type key, each %s takes these keys:\n\n", kind)
			fieldTable(&page, keys)
		} else {
			page.WriteString("\nThey are written under `resources`, by name.\n")
		}
		pages[kind+"s.md"] = page.String()
	}

	var functions strings.Builder
	functionTable(&functions, byKind[functionKind])
	pages["functions.md"] = functions.String()
	index.WriteString("| [Functions](functions.md) | of expressions |\n")
	for _, s := range sections {
		fmt.Fprintf(&index, "| [The section `%s`](%[1]s.md) | %s |\n", s.name, s.summary)
		var page strings.Builder
		fmt.Fprintf(&page, "# The section %s\n\n%s.\n\n", s.name, title(s.summary))
		fieldTable(&page, fieldsOf(schema.Of(s.of)))
		pages[s.name+".md"] = page.String()
	}
	index.WriteString("| [Codes](codes.md) | of problems that `flowd lint` finds |\n")
	pages["codes.md"] = codesPage()
	pages["README.md"] = index.String()
	return pages
}

// fileOfPage returns the name of a component's page.
func fileOfPage(c component) string { return c.Kind + "-" + c.Name + ".md" }

func componentPage(c component) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The %s %s\n\n%s\n\n", c.Kind, c.Name, strings.TrimSpace(c.doc))
	if fields := fieldsOf(c.typ); len(fields) > 0 {
		fieldTable(&b, fields)
	} else {
		fmt.Fprintf(&b, "Takes: %s.\n", c.typ.Text())
	}
	if len(commonKeys(c.Kind)) > 0 {
		fmt.Fprintf(&b, "\nThe keys beside `%s` are those of [all %ss](%[2]ss.md).\n", c.Name, c.Kind)
	}
	return b.String()
}

// functionsIntro precedes all functions. A test evaluates the examples in its pipeline.
const functionsIntro = `Each function shows its arguments and its result; arguments in brackets are optional. Examples about
messages use the first of the two that this pipeline reads, in a step of its output, with REGION=eu in the environment:

~~~sh
echo '{"id":7,"item":"tea"}' > orders.ndjson
echo '{"id":8,"item":"tea"}' >> orders.ndjson
echo '{"sku":"tea","price":3}' > items.ndjson
~~~

~~~yaml
inputs:
  orders: {file: {path: orders.ndjson}}
processors:
  - state: {key: item, set: {count: '(state("count") ?? 0) + 1'}}
  - let: {price: 'lookup("items", item).price'}
batchers:
  by_item: {key: item, batch: {size: 2}, output: out}
outputs:
  out: {stdout: {}}
resources:
  tables:
    items: {file: items.ndjson, key: sku}
engine: {order_by: item, env: [REGION]}
~~~
`

// functionTable lists functions by group.
func functionTable(b *strings.Builder, functions []component) {
	groups := map[string][]component{}
	for _, f := range functions {
		groups[f.group] = append(groups[f.group], f)
	}
	b.WriteString("# Functions\n\n" + strings.ReplaceAll(functionsIntro, "~~~", "```"))
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(b, "\n## %s\n\n| function | meaning | example |\n|---|---|---|\n", title(group))
		for _, f := range groups[group] {
			call, meaning, _ := strings.Cut(f.doc, "\n\n")
			meaning, example, _ := strings.Cut(meaning, "\n\n")
			var examples []string
			for line := range strings.Lines(example) {
				examples = append(examples, "`"+strings.TrimSpace(line)+"`")
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.ReplaceAll(call, "|", `\|`), cell(meaning),
				strings.ReplaceAll(strings.Join(examples, "<br>"), "|", `\|`))
		}
	}
}

func fieldTable(b *strings.Builder, fields []schema.Field) {
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	for _, f := range fields {
		meaning := cell(f.Doc)
		if facts := properties(f); len(facts) > 0 {
			meaning = strings.TrimSpace(meaning + " _(" + cell(strings.Join(facts, "; ")) + ")_")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Path, cell(f.Type), meaning)
	}
}

// cell escapes text for a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "&", "&amp;").Replace(text)
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
