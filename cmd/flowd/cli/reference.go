package cli

import (
	"fmt"
	"io"
	"maps"
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

// referenceMarkdown writes the reference of everything in this build.
func referenceMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Reference\n\nWritten by `flowd docs --markdown`; do not edit. [language.md](language.md) explains the language.\n\n")
	byKind := map[string][]component{}
	links := map[string][]string{}
	for _, c := range components() {
		byKind[c.Kind] = append(byKind[c.Kind], c)
		links[c.Kind] = append(links[c.Kind], fmt.Sprintf("[`%s`](#%s)", c.Name, anchor(c)))
	}
	for _, kind := range kinds[:len(kinds)-1] {
		fmt.Fprintf(&b, "- [%ss](#%ss): %s\n", title(kind), kind, strings.Join(links[kind], ", "))
	}
	b.WriteString("- [Functions](#functions)\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "- [The section %s](#the-section-%[1]s)\n", s.name)
	}

	for _, kind := range kinds {
		fmt.Fprintf(&b, "\n## %ss\n\n", title(kind))
		if kind == functionKind {
			functionTable(&b, byKind[kind])
			continue
		}
		if keys := commonKeys(kind); len(keys) > 0 {
			fmt.Fprintf(&b, "Besides its type key, each %s takes these keys:\n\n", kind)
			fieldTable(&b, keys)
		} else {
			fmt.Fprintf(&b, "They are written under `resources`, by name.\n")
		}
		for _, c := range byKind[kind] {
			section(&b, c)
		}
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## The section %s\n\n%s.\n\n", s.name, title(s.summary))
		fieldTable(&b, fieldsOf(schema.Of(s.of)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func section(b *strings.Builder, c component) {
	fmt.Fprintf(b, "\n<a id=\"%s\"></a>\n\n### %s\n\n%s\n\n", anchor(c), c.Name, strings.TrimSpace(c.doc))
	if fields := fieldsOf(c.typ); len(fields) > 0 {
		fieldTable(b, fields)
		return
	}
	fmt.Fprintf(b, "Takes: %s.\n", c.typ.Text())
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
	b.WriteString(strings.ReplaceAll(functionsIntro, "~~~", "```"))
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(b, "\n### Functions: %s\n\n| function | meaning | example |\n|---|---|---|\n", group)
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

func anchor(c component) string { return c.Kind + "-" + c.Name }

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
