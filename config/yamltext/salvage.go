package yamltext

import (
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Salvage reads what it can of a file that is not valid YAML: it removes one entry with a mistake after another until
// the rest parses. Nodes keep their positions. It returns nil if nothing sensible is left. more are mistakes in other
// sections than that of the first mistake, which is in line at.
func Salvage(file string, data []byte, at int) (root *schema.Node, cuts Cuts, more []schema.Problem) {
	const mistakes, longest = 20, 256 << 10 // in bytes; each attempt parses all of it
	if len(data) > longest {
		return nil, nil, nil
	}
	all := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	t := &cutter{whole: all, lines: slices.Clone(all)}
	for range mistakes {
		var problems []schema.Problem
		ok := false
		for _, region := range t.regions(at) {
			was := slices.Clone(t.lines)
			t.cut(region)
			root, problems = Parse(file, []byte(t.text()))
			if ok = root != nil || len(problems) == 1 && problems[0].Code == "yaml-syntax" &&
				!region.has(problems[0].Pos.Line); ok {
				cuts = append(cuts, region)
				break
			}
			t.lines = was
		}
		switch {
		case !ok:
			return nil, nil, more
		case root != nil:
			return root, cuts, append(more, problems...)
		}
		at = problems[0].Pos.Line
		alias := strings.Contains(problems[0].Message, "repeats the value") // the anchor may have been removed
		if !alias && !slices.ContainsFunc(cuts, func(c lines) bool { return t.section(c.from) == t.section(at) }) {
			more = append(more, problems[0]) // in the same section it may follow from the first mistake
		}
	}
	return nil, nil, more
}

// lines is a range of lines, both ends included, counted from 1.
type lines struct{ from, to int }

func (l lines) has(line int) bool { return l.from <= line && line <= l.to }

// cutter is a file's text as lines, without their ends.
type cutter struct {
	whole []string // the original
	lines []string // the remaining text
}

func (t *cutter) text() string { return strings.Join(t.lines, "\n") }

// regions returns the ranges that may be removed for a mistake in a line, the smallest first: the entry of a section,
// and the section.
func (t *cutter) regions(at int) []lines {
	section := t.section(at)
	all := []lines{section}
	for i := section.from + 1; i <= section.to; i++ {
		if line := t.whole[i-1]; hasContent(line) {
			if entry := t.around(at, spaces(line), true, section); entry.from > section.from {
				all = []lines{entry, section}
			}
			break
		}
	}
	return all
}

// section returns the lines under the top-level key whose value contains line at.
func (t *cutter) section(at int) lines {
	return t.around(at, 0, false, lines{1, len(t.whole)})
}

// around returns a range inside within: from the last line before at with this indentation up to the next such line.
// At the top level, an item does not begin a range: it belongs to the key above.
func (t *cutter) around(at, indent int, items bool, within lines) lines {
	begins := func(i int) bool {
		line := t.whole[i-1]
		return hasContent(line) && spaces(line) <= indent && (items || !strings.HasPrefix(line, "-"))
	}
	from := at
	for from > within.from && !begins(from) {
		from--
	}
	to := at
	for to < within.to && !begins(to+1) {
		to++
	}
	return lines{from, to}
}

// hasContent reports whether a line has more than blanks and a comment.
func hasContent(line string) bool {
	line = strings.TrimLeft(line, " \t\r")
	return line != "" && line[0] != '#'
}

// cut empties lines, except for a key or dash at their beginning, so that the remaining entries keep their names and
// numbers.
func (t *cutter) cut(l lines) {
	first := t.whole[l.from-1]
	indent := spaces(first)
	clear(t.lines[l.from-1 : l.to])
	switch rest := first[indent:]; {
	case strings.HasPrefix(rest, "- "):
		t.lines[l.from-1] = first[:indent+1]
	default:
		if colon := keyLen(rest); colon >= 0 {
			t.lines[l.from-1] = first[:indent+colon+1]
		}
	}
}

// Cuts are the removed parts of a file.
type Cuts []lines

// Without returns the problems that are not caused by the removed parts.
func (cuts Cuts) Without(problems []schema.Problem) []schema.Problem {
	if len(cuts) == 0 {
		return problems
	}
	return slices.DeleteFunc(problems, func(p schema.Problem) bool {
		top := p.Code == schema.Required && !strings.Contains(p.Path, ".")
		return top || slices.ContainsFunc(cuts, func(c lines) bool { return c.has(p.Pos.Line) })
	})
}
