package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newList() *cobra.Command {
	var asJSON bool
	var plugins []string
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the components of this build",
		Example: `  flowd list                all components
  flowd list outputs        of one kind: inputs, processors, batchers, outputs, caches, functions
  flowd list --json | jq -r '.[].name'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := usePlugins(cmd, plugins); err != nil {
				return err
			}
			all := components()
			if len(args) == 0 { // there are too many functions to show unless asked for
				all = slices.DeleteFunc(all, func(c component) bool { return c.Kind == functionKind })
			} else {
				kind, err := kindOf(args[0])
				if err != nil {
					return err
				}
				all = ofKind(all, kind)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			text := table(all, colored(cmd.OutOrStdout()))
			if len(args) == 0 {
				text += leftOut(builds.Missing(), colored(cmd.OutOrStdout()))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	addJSON(cmd, &asJSON)
	addPlugins(cmd, &plugins)
	return cmd
}

// kinds are the kinds of components, in the order in which a message meets them.
var kinds = []string{"input", "processor", "batcher", "output", "cache", functionKind}

const functionKind = "function"

// component is a plugin of this build, a function of expressions, or a topic of `flowd docs`.
type component struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Summary string `json:"summary"`

	doc   string
	group string       // of a function
	typ   *schema.Type // of the configuration; nil: a function or topic

	text func(width int, color bool) string // of a topic
}

// components returns all plugins and functions of this build, by kind and name.
func components() []component {
	return slices.Concat(registered(engine.Inputs), registered(engine.Processors), registered(engine.Batchers),
		registered(engine.Outputs), registered(engine.Caches), functions())
}

// ofKind returns the components of one kind.
func ofKind(all []component, kind string) []component {
	return slices.DeleteFunc(all, func(c component) bool { return c.Kind != kind })
}

func functions() []component {
	var all []component
	for _, f := range expr.Functions(expr.Scopes()...) {
		note := ""
		if f.Scope != "" {
			note = " (in " + f.Scope + " only)"
		}
		text := f.Usage + "\n\n" + f.Doc + note
		if f.Example != "" {
			text += "\n\n    " + strings.ReplaceAll(f.Example, "\n", "\n    ")
		}
		all = append(all, component{Kind: functionKind, Name: f.Name, group: cmp.Or(f.Group, "message"), doc: text,
			Summary: f.Usage + ": " + summarize(f.Doc) + note})
	}
	return all
}

func registered[T any](r *engine.Registry[T]) []component {
	var all []component
	for _, name := range r.Names() {
		p := r.Lookup(name)
		all = append(all, component{Kind: r.Kind(), Name: name, Summary: summarize(p.Doc), doc: p.Doc, typ: p.Type})
	}
	return all
}

// leftOut lists what this build leaves out, and how to get it.
func leftOut(families []builds.Family, color bool) string {
	if len(families) == 0 {
		return ""
	}
	width := len(slices.MaxFunc(families, func(a, b builds.Family) int { return cmp.Compare(len(a.Name), len(b.Name)) }).Name)
	var b strings.Builder
	b.WriteString("\n" + paint(color, bold, "left out of this build, by tag") + "\n")
	for _, f := range families {
		var all []string
		for _, of := range []struct {
			what  string
			names []string
		}{{"input ", f.Inputs}, {"processor ", f.Processors}, {"output ", f.Outputs}, {"cache ", f.Caches},
			{"flowd queue ", f.Queues}, {"", f.More}} {
			for _, name := range of.names {
				all = append(all, of.what+name)
			}
		}
		fmt.Fprintf(&b, "  %-*s  %s (%s)\n", width, f.Name, strings.Join(all, ", "), builds.Remedy(f.Name))
	}
	return b.String()
}

// explainMissing makes errors about components that this build leaves out say how to get them.
func explainMissing() {
	for _, f := range builds.Missing() {
		remedy := "not part of this build: " + builds.Remedy(f.Name)
		for _, name := range f.Inputs {
			engine.Inputs.LeftOut(name, remedy)
		}
		for _, name := range f.Processors {
			engine.Processors.LeftOut(name, remedy)
		}
		for _, name := range f.Outputs {
			engine.Outputs.LeftOut(name, remedy)
		}
		for _, name := range f.Caches {
			engine.Caches.LeftOut(name, remedy)
		}
	}
}

// summarize returns the first sentence of a text, without its full stop.
func summarize(doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	first, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(first, ".")
}

// kindOf parses the name of a kind, singular or plural.
func kindOf(word string) (string, error) {
	if kind := strings.TrimSuffix(word, "s"); slices.Contains(kinds, kind) {
		return kind, nil
	}
	return "", usage(fmt.Sprintf("%q is not a kind of component (there are %s)", word, strings.Join(kinds, "s, ")+"s"))
}

// unknownName describes a component that does not exist, and suggests the nearest name.
func unknownName(name string, names []string) string {
	remedy := "flowd list shows all"
	if near := schema.Nearest(name, names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	if family, ok := leftOutWith(name); ok {
		remedy = builds.Remedy(family)
	}
	return fmt.Sprintf("there is no %q in this build (%s)", name, remedy)
}

// leftOutWith returns the family of components that this build leaves out, and that has one of this name.
func leftOutWith(name string) (family string, ok bool) {
	for _, f := range builds.Missing() {
		if slices.Contains(slices.Concat(f.Inputs, f.Processors, f.Outputs, f.Caches), name) {
			return f.Name, true
		}
	}
	return "", false
}

func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp
}

// table groups components under their kinds.
func table(all []component, color bool) string {
	if len(all) == 0 {
		return ""
	}
	width := len(slices.MaxFunc(all, func(a, b component) int { return cmp.Compare(len(a.Name), len(b.Name)) }).Name)
	var b strings.Builder
	kind := ""
	for _, c := range all {
		if c.Kind != kind {
			if kind != "" {
				b.WriteByte('\n')
			}
			kind = c.Kind
			b.WriteString(paint(color, bold, kind+"s") + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name, c.Summary)
	}
	return b.String()
}
