package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/docs"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// mostHits is how many passages a search shows.
const mostHits = 6

// search returns the passages of the documentation, and of the help of root's commands, that have most of the words, each
// with the command that shows it.
func search(root *cobra.Command, args []string, width int, color bool) (string, error) {
	if len(args) == 0 {
		return "", usage("--search takes words, such as dead letter")
	}
	question := strings.Join(args, " ")
	var b strings.Builder
	for i, hit := range docs.NewIndex(append(passages(), helpTexts(root)...)).Search(question, mostHits) {
		if i > 0 {
			b.WriteByte('\n')
		}
		page, title := hit.Page, hit.Page
		if hit.Section != "" {
			page, title = hit.Page+"#"+docs.Anchor(hit.Section), hit.Page+": "+strings.ReplaceAll(hit.Section, "`", "")
		}
		b.WriteString(paint(color, bold, title) + "\n")
		b.WriteString(indent(shorten(hit.Excerpt, question, width-2), "  "))
		show := "flowd docs " + page
		if strings.HasPrefix(page, root.Name()+" ") {
			show = page + " --help"
		}
		b.WriteString("  " + paint(color, dim, show) + "\n")
	}
	if b.Len() == 0 {
		return "", usage(fmt.Sprintf("no page has %q (flowd docs lists all pages)", question))
	}
	return b.String(), nil
}

// passages returns all parts of the documentation: sections of guides, fields of the file's sections, components,
// functions and codes.
func passages() (all []docs.Passage) {
	for _, name := range guideNames() {
		all = append(all, docs.Sections(name, guide(name))...)
	}
	for _, s := range sections {
		fields := fieldsOf(schema.Of(s.of))
		for len(fields) > 0 {
			key := topKey(fields[0].Path)
			n := slices.IndexFunc(fields, func(f schema.Field) bool { return topKey(f.Path) != key })
			if n < 0 {
				n = len(fields)
			}
			all = append(all, docs.Passage{Page: s.name, Section: key, Text: fieldLines(fields[:n]), Weight: 1})
			fields = fields[n:]
		}
	}
	for _, c := range components() {
		p := docs.Passage{Page: c.Kind + " " + c.Name, Text: c.doc, Weight: 0.9}
		if c.Kind == functionKind {
			p.Weight = 0.6
		} else {
			p.Text += "\n\n" + fieldLines(fieldsOf(c.typ))
		}
		all = append(all, p)
	}
	for _, c := range codes() {
		p := docs.Passage{Page: c.Name, Text: c.Summary + "\n\n" + c.doc, Weight: 0.6}
		if c.group == classKind {
			p.Page = classKind + " " + c.Name
		}
		all = append(all, p)
	}
	return all
}

// helpTexts returns the help of the commands under cmd.
func helpTexts(cmd *cobra.Command) (all []docs.Passage) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			text := strings.Join([]string{c.Short, c.Long, c.Example, c.LocalFlags().FlagUsages()}, "\n\n")
			all = append(all, docs.Passage{Page: c.CommandPath(), Text: text, Weight: 0.8})
			all = append(all, helpTexts(c)...)
		}
	}
	return all
}

// topKey returns the first key of a path such as rate_limits.NAME.per or input[].json.
func topKey(path string) string {
	key, _, _ := strings.Cut(path, ".")
	return strings.TrimSuffix(key, "[]")
}

// fieldLines writes each field on a line of its own, as an item of a list.
func fieldLines(fields []schema.Field) string {
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "- %s: %s\n", f.Path, f.Doc)
	}
	return b.String()
}

// sectionOf returns a section of a page as a topic, given the name of its anchor.
func sectionOf(page, anchor string) (component, bool) {
	for _, p := range passages() {
		if p.Page != page || p.Section == "" || docs.Anchor(p.Section) != anchor {
			continue
		}
		if i := slices.IndexFunc(sections, func(s fileSection) bool { return s.name == page }); i >= 0 {
			return component{Kind: topicKind, Name: page, text: fieldsText(page+", "+p.Section, sections[i].of, p.Section)}, true
		}
		return component{Kind: topicKind, Name: page, text: func(int, bool) string {
			return "## " + p.Section + "\n\n" + strings.TrimSpace(p.Text) + "\n"
		}}, true
	}
	return component{}, false
}

var (
	links = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)

	// asterisks matches bold text, whose content is its group. What begins with code or with more asterisks is not bold:
	// these alternatives come first, so that code keeps its asterisks.
	asterisks = regexp.MustCompile("`[^`]*`|\\*{3,}|\\*\\*([^*\\s](?:[^*]*[^*\\s])?)\\*\\*")
)

// shorten writes an excerpt in Markdown as at most three lines of text. They begin near the first of the words.
func shorten(excerpt, words string, width int) string {
	excerpt = links.ReplaceAllString(strings.Trim(strings.TrimPrefix(excerpt, "- "), "| "), "$1")
	excerpt = asterisks.ReplaceAllStringFunc(excerpt, func(found string) string {
		return cmp.Or(asterisks.FindStringSubmatch(found)[1], found)
	})
	excerpt = strings.NewReplacer(`\|`, "|", " | ", "  ").Replace(excerpt)
	const most = 3
	lines := strings.Split(wrap(excerpt, width), "\n")
	first := 0
	if len(lines) > most {
		first = max(0, slices.IndexFunc(lines, func(line string) bool {
			return slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool {
				return len(w) > 3 && strings.Contains(strings.ToLower(line), w[:4])
			})
		}))
		first = min(first, len(lines)-most)
	}
	shown := lines[first:min(first+most, len(lines))]
	text := strings.Join(shown, "\n")
	if first > 0 {
		text = "… " + text
	}
	if first+len(shown) < len(lines) {
		text += " …"
	}
	return text
}
