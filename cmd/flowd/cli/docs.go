package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newDocs() *cobra.Command {
	var markdown string
	var asSearch bool
	var plugins []string
	cmd := &cobra.Command{
		Use:   "docs [[KIND] NAME | WORDS]",
		Short: "Show or search the documentation",
		Long: `Shows the settings of a component, what a function does, what a code of flowd lint means,
or a guide. Other words are searched for in all of them.`,
		Example: `  flowd docs                          list all topics
  flowd docs stdin
  flowd docs input file               a name that is an input and an output
  flowd docs function uniq
  flowd docs expressions              also engine, tests, codes and the guides
  flowd docs failures#retries         a section of a guide
  flowd docs unknown-field            a code of flowd lint, with an example
  flowd docs class late               a class of failures
  flowd docs dead letter              the passages about it
  flowd docs --search kafka           also if a page has this name
  flowd docs --markdown reference     write the reference of everything to a folder`,
		ValidArgsFunction: completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := usePlugins(cmd, plugins); err != nil {
				return err
			}
			if markdown != "" {
				if len(args) > 0 || asSearch {
					return usage("docs takes a name, or --markdown alone")
				}
				return writeReference(markdown)
			}
			out := cmd.OutOrStdout()
			show := pages
			if asSearch {
				show = search
			}
			text, err := show(cmd.Root(), args, columns(out), colored(out))
			if err != nil {
				return err
			}
			_, err = io.WriteString(out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asSearch, "search", false, "search for words, even if they are the name of a page")
	cmd.Flags().StringVar(&markdown, "markdown", "", "write the reference of everything to a `FOLDER`, as Markdown")
	addPlugins(cmd, &plugins)
	return cmd
}

// pages returns the pages that the arguments name, or the list of all pages. It searches for words that name none.
func pages(root *cobra.Command, args []string, width int, color bool) (string, error) {
	if len(args) == 0 {
		return table(topics(), color) + "\n" + table(components(), color) +
			"\nflowd docs NAME shows a page. Any other words are searched for, as in: flowd docs dead letter\n", nil
	}
	found, err := find(args)
	if err != nil {
		if text, none := search(root, args, width, color); none == nil && !namesComponent(args) {
			return text, nil
		}
		return "", err
	}
	var b strings.Builder
	between := ""
	for _, c := range found {
		b.WriteString(between)
		if c.text != nil {
			b.WriteString(c.text(width, color))
			between = "\n"
			continue
		}
		describe(&b, c, width, color)
		between = "\n\n"
	}
	return b.String(), nil
}

// namesComponent reports whether arguments that name no page can only be meant as the name of a component: they are a kind and
// a name, or name a component that this build leaves out. Then a search would not help.
func namesComponent(args []string) bool {
	_, err := kindOf(args[0])
	_, missing := leftOutWith(args[len(args)-1])
	return len(args) == 2 && err == nil || missing
}

// find returns the components with a name, or with a kind and a name. Topics come first. PAGE#SECTION is a section of a
// topic.
func find(args []string) ([]component, error) {
	all, name := slices.Concat(components(), topics(), codes()), args[0]
	if page, anchor, ok := strings.Cut(name, "#"); ok && len(args) == 1 {
		if section, ok := sectionOf(page, anchor); ok {
			return []component{section}, nil
		}
	}
	switch len(args) {
	case 1:
	case 2:
		if name = args[1]; args[0] == codeKind || args[0] == classKind {
			all = slices.DeleteFunc(codes(), func(c component) bool { return c.group != args[0] })
			break
		}
		kind, err := kindOf(args[0])
		if err != nil {
			return nil, err
		}
		all = ofKind(all, kind)
	default:
		return nil, usage(unknownName(strings.Join(args, " "), nil))
	}
	var found []component
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
		switch {
		case c.Name == name && c.text != nil:
			found = slices.Insert(found, 0, c)
		case c.Name == name:
			found = append(found, c)
		}
	}
	if canonical := expr.Canonical(name); len(found) == 0 && canonical != name {
		return find([]string{functionKind, canonical})
	}
	if len(found) == 0 {
		return nil, usage(unknownName(name, names))
	}
	return found, nil
}

// describe writes the reference of a component for a terminal with this many columns.
func describe(b *strings.Builder, c component, width int, color bool) {
	b.WriteString(paint(color, bold, c.Kind+" "+c.Name) + "\n\n")
	b.WriteString(indent(c.doc, "  "))
	if c.typ == nil {
		return
	}
	describeFields(b, "Fields", fieldsOf(c.typ), c.typ.Text(), width, color)
	describeFields(b, "Beside the type key", commonKeys(c.Kind), "", width, color)
}

func describeFields(b *strings.Builder, title string, fields []schema.Field, otherwise string, width int, color bool) {
	if len(fields) == 0 && otherwise == "" {
		return
	}
	b.WriteString("\n" + paint(color, bold, title) + "\n")
	if len(fields) == 0 {
		b.WriteString("  " + otherwise + "\n")
		return
	}
	longest := 0
	for _, f := range fields {
		longest = max(longest, len(f.Path))
	}
	longest = min(longest, 24)
	for _, f := range fields {
		fmt.Fprintf(b, "  %-*s  %s\n", longest, f.Path,
			paint(color, dim, strings.Join(append([]string{f.Type}, properties(f)...), "; ")))
		if f.Doc != "" {
			b.WriteString(indent(wrap(f.Doc, width-longest-4), strings.Repeat(" ", longest+4)))
		}
	}
}

// indent puts a margin before each line that is not empty.
func indent(text, margin string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if line != "\n" {
			b.WriteString(margin)
		}
		b.WriteString(line)
	}
	return b.String()
}

// wrap breaks text at spaces into lines of at most width columns. Longer words stay whole.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// columns returns how many columns text on w should have: the terminal's width, within limits.
func columns(w any) int {
	if n := width(w); n > 0 {
		return min(max(n, 60), 110)
	}
	return 80
}

// completeNames completes names, after a kind only those of that kind.
func completeNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	var all []component
	switch len(args) {
	case 0:
		all = slices.Concat(topics(), codes(), components())
	case 1:
		kind, _ := kindOf(args[0]) // "": all kinds
		all = ofKind(components(), kind)
	}
	for _, c := range all {
		names = append(names, c.Name+"\t"+c.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
