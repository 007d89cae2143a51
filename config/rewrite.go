package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/schema"
)

// Update is the outcome of a test, to be written into the file as what it expects.
type Update struct {
	Test     int                // index
	Outputs  map[string][]Batch // of outputs where something else is expected: what arrived, write by write
	Fates    *Fates             // nil: as it is
	Failures []ExpectedFailure  // nil: as it is
}

// Batch is what one write brought.
type Batch struct {
	Trigger  string
	Key      string // as JSON; "": none
	Messages []Came
}

// Came is a message that arrived at an output.
type Came struct {
	Body []byte
	Err  *ExpectedError // of a dead letter
}

// Rewrite is the file with what its tests expect replaced, and everything else as it is. It
// is checked to be a file that says what it should.
func (l Loaded) Rewrite(updates []Update) (before, after string, err error) {
	data, err := os.ReadFile(l.File)
	if err != nil {
		return "", "", err
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	mark := string(data[:len(data)-len(text)])
	root, _, err := documents(text)
	if err != nil {
		return "", "", err
	}
	w := rewriter{src: newSource(l.File, text)}
	for _, u := range updates {
		if err := w.update(root, u); err != nil {
			return "", "", fmt.Errorf("test %q: %w (change it by hand)", l.document.Tests[u.Test].Name, err)
		}
	}
	after = mark + w.apply()
	if err := w.check(l.File, root, after); err != nil {
		return "", "", err
	}
	return string(data), after, nil
}

// rewriter collects changes of a text.
type rewriter struct {
	src   *source
	edits []edit
	keys  []*yaml.Node // whose values are replaced
}

// edit replaces what is between two bytes.
type edit struct {
	from, to int
	text     string
}

var errShared = errors.New("it is written elsewhere, through an anchor or merge key")

func (w *rewriter) update(root *yaml.Node, u Update) error {
	tests := valueOf(root, "tests")
	if tests == nil || tests.Kind != yaml.SequenceNode || u.Test >= len(tests.Content) {
		return errShared
	}
	test := tests.Content[u.Test]
	if test.Kind != yaml.MappingNode || valueOf(test, "name") == nil {
		return errShared
	}
	flow := (root.Style|tests.Style|test.Style)&yaml.FlowStyle != 0
	if u.Outputs != nil {
		expect, err := newExpect(valueOf(test, "expect"), u.Outputs)
		if err != nil {
			return err
		}
		if err := w.set(test, "expect", expect, flow); err != nil {
			return err
		}
	}
	if u.Fates != nil {
		if err := w.set(test, "fates", fatesNode(*u.Fates), flow); err != nil {
			return err
		}
	}
	if u.Failures != nil {
		return w.set(test, "failures", failuresNode(u.Failures), flow)
	}
	return nil
}

// set replaces or adds the value of a key of a test.
func (w *rewriter) set(test *yaml.Node, name string, value *yaml.Node, flow bool) error {
	key, old := pairOf(test, name)
	if anchored(old) {
		return errShared
	}
	if key == nil {
		key = textNode(name)
	} else {
		w.keys = append(w.keys, key)
	}
	if flow {
		return w.setInFlow(test, key, old, value)
	}
	return w.setInBlock(test, key, old, value)
}

func (w *rewriter) setInFlow(test, key, old, value *yaml.Node) error {
	text, err := render(oneLine(value))
	if err != nil {
		return err
	}
	if old != nil {
		from := w.offset(old)
		w.edits = append(w.edits, edit{from, flowEnd(w.src.text, from), text})
		return nil
	}
	if test.Style&yaml.FlowStyle == 0 {
		return errShared
	}
	end := flowEnd(w.src.text, w.offset(test)) - 1 // its brace
	end = len(strings.TrimRight(w.src.text[:end], " \t\r\n"))
	separator := ", "
	if strings.HasSuffix(w.src.text[:end], ",") {
		separator = " "
	}
	w.edits = append(w.edits, edit{end, end, separator + key.Value + ": " + text})
	return nil
}

func (w *rewriter) setInBlock(test, key, old, value *yaml.Node) error {
	pair := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode(key.Value), value}}
	pair.Content[0].LineComment = key.LineComment
	if old != nil && old.LineComment != "" {
		pair.Content[0].LineComment = old.LineComment
	}
	text, err := render(pair)
	if err != nil {
		return err
	}
	column := test.Content[0].Column - 1
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", column))
	if old != nil {
		from := w.offset(key)
		w.edits = append(w.edits, edit{from, w.blockEnd(key, old), text})
		return nil
	}
	last := len(test.Content)
	end := w.blockEnd(test.Content[last-2], test.Content[last-1])
	w.edits = append(w.edits, edit{end, end, "\n" + strings.Repeat(" ", column) + text})
	return nil
}

func (w *rewriter) offset(n *yaml.Node) int {
	return (&cursor{source: w.src}).offset(n.Line, n.Column)
}

// blockEnd is where the value of a key in a block mapping ends: after the last line that is
// indented further than the key.
func (w *rewriter) blockEnd(key, value *yaml.Node) int {
	off := w.offset(key)
	end := off + contentLen(w.src.text[off:])
	listed := value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0
	for at := off + lineLen(w.src.text[off:]); at < len(w.src.text); at += lineLen(w.src.text[at:]) {
		line := w.src.text[at : at+contentLen(w.src.text[at:])]
		indent := spaces(line)
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case indent >= key.Column, listed && indent == key.Column-1 && strings.HasPrefix(line[indent:], "-"):
			end = at + len(line)
			continue
		}
		return end
	}
	return end
}

// flowEnd is where the value that begins at off inside { } or [ ] ends.
func flowEnd(text string, off int) int {
	depth := 0
	for i := off; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '\'' && (i == off || strings.IndexByte(" ,:[{\n\t", text[i-1]) >= 0):
			i++
			for ; i < len(text) && text[i] != '\''; i++ {
			}
		case c == '#' && i > 0 && strings.IndexByte(" \t\n", text[i-1]) >= 0:
			i += contentLen(text[i:]) - 1
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return len(strings.TrimRight(text[:i], " \t\r\n"))
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// apply is the text with all changes made.
func (w *rewriter) apply() string {
	text := w.src.text
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	slices.SortFunc(w.edits, func(a, b edit) int { return b.from - a.from })
	for i := 0; i < len(w.edits); i++ {
		e := w.edits[i]
		for i+1 < len(w.edits) && w.edits[i+1].from == e.from { // two keys that are added in one place
			i++
			e.text = w.edits[i].text + e.text
		}
		text = text[:e.from] + strings.ReplaceAll(e.text, "\n", eol) + text[e.to:]
	}
	return text
}

// check makes sure that a new text is a pipeline file like the one before except for what
// was replaced.
func (w *rewriter) check(file string, old *yaml.Node, text string) error {
	const failed = "the file can't be rewritten safely (change it by hand)"
	root, _, err := documents(strings.TrimPrefix(text, "\ufeff"))
	if err != nil || root == nil || !w.alike(old, root) {
		return errors.New(failed)
	}
	nodes, problems := parse(file, []byte(text))
	if nodes == nil || len(problems) > 0 {
		return errors.New(failed)
	}
	d := schema.NewDecoder(func(string) (string, bool, error) { return "1", true, nil })
	var tests []Test
	d.Decode(nodes.Lookup("tests"), &tests)
	for _, p := range d.Problems() {
		if !p.Warning {
			return fmt.Errorf("%s: %s", failed, p)
		}
	}
	return nil
}

// alike compares two trees except for what was replaced or added.
func (w *rewriter) alike(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.Value != b.Value || a.Anchor != b.Anchor {
		return false
	}
	if a.Kind != yaml.MappingNode {
		return len(a.Content) == len(b.Content) && !slices.ContainsFunc(indexes(a.Content), func(i int) bool { return !w.alike(a.Content[i], b.Content[i]) })
	}
	if len(b.Content) < len(a.Content) {
		return false
	}
	for i := 0; i+1 < len(a.Content); i += 2 {
		if !w.alike(a.Content[i], b.Content[i]) || !slices.Contains(w.keys, a.Content[i]) && !w.alike(a.Content[i+1], b.Content[i+1]) {
			return false
		}
	}
	return true
}

func indexes(list []*yaml.Node) []int {
	all := make([]int, len(list))
	for i := range all {
		all[i] = i
	}
	return all
}
