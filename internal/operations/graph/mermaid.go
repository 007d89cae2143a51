package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mermaid returns the graphs of several pipelines as one Mermaid flowchart.
func Mermaid(all []*Graph) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, g := range all {
		g.mermaid(&b, fmt.Sprintf("p%d", i))
	}
	return b.String()
}

// mermaid writes a pipeline as a subgraph. Ids begin with an id of its own, since names may have any characters.
func (g *Graph) mermaid(b *strings.Builder, id string) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "    "+format+"\n", args...) }
	fmt.Fprintf(b, "  subgraph %s [%s]\n", id, label(g.Pipeline))
	outputs := map[string]string{}
	for i, o := range g.Outputs {
		outputs[o.Name] = fmt.Sprintf("%so%d", id, i)
		line("%s[/%s/]", outputs[o.Name], label(o.Name+" ("+o.Type+")", list(o.Steps)))
	}
	steady := id + "s" // where all messages come together
	line("%s[%s]", steady, label(cmp.Or(list(g.Steps), "no steps")))
	for i, in := range g.Inputs {
		line("%si%d([%s]) --> %s", id, i, label(in.Name+" ("+in.Type+")", list(in.Steps)), steady)
	}
	for i, of := range g.Batchers {
		from := steady
		if of.Name != "" {
			from = fmt.Sprintf("%sb%d", id, i)
			line("%s{{%s}}", from, label(of.Name, prefixed("by ", of.Key), list(of.Steps)))
			line("%s -->|%s| %s", steady, label(cmp.Or(of.Match, "all others")), from)
		}
		for _, to := range of.Outputs {
			if outputs[to] != "" {
				line("%s -->|%s| %s", from, label(g.promise(of.Name, to)), outputs[to])
			}
		}
	}
	for _, o := range g.Outputs {
		for _, to := range o.Members {
			if outputs[to] != "" {
				line("%s --> %s", outputs[o.Name], outputs[to])
			}
		}
		if outputs[o.Failed] != "" {
			line("%s -.->|failed| %s", outputs[o.Name], outputs[o.Failed])
		}
	}
	if outputs[g.Failed] != "" {
		line("%s -.->|failed| %s", steady, outputs[g.Failed])
	}
	b.WriteString("  end\n")
}

func list(names []string) string { return strings.Join(names, ", ") }

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// promise returns the guarantees and orders of the routes from a batcher to an output, each once.
func (g *Graph) promise(batcher, output string) string {
	leaves := g.leaves([]string{output}, nil)
	var all []string
	for _, r := range g.Routes {
		for _, leaf := range leaves {
			if text := r.Guarantee + ", " + r.Order; r.Batcher == batcher && r.Output == leaf && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, "; ")
}

// label quotes the lines of a label, without those that are empty.
func label(lines ...string) string {
	for i, l := range lines {
		lines[i] = entities.Replace(l)
	}
	return `"` + strings.Join(nonEmpty(lines...), "<br/>") + `"`
}

// entities are what Mermaid reads in place of characters that mean something to it.
var entities = strings.NewReplacer(`"`, "#quot;", "#", "#35;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", "\n", " ")
