package config

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// checkWords warns of `set: {env: prod}` where text was probably meant: the messages of the tests have no field prod, and no other
// line mentions it.
func (l *loader) checkWords() {
	for _, f := range l.files {
		if !f.testsDocuments() {
			continue
		}
		mentioned := map[string]int{}
		countWords(f.root, mentioned)
		for _, at := range bareWords(f.place(), nil) {
			word := at.Node.Text
			if mentioned[word] > 1 {
				continue
			}
			l.complain(at, schema.Problem{Code: "unknown-word", Warning: true,
				Message: fmt.Sprintf("%s is read as a field, which no message in the tests has", word),
				Remedy:  fmt.Sprintf(`write '"%s"' for the text`, word)})
		}
	}
}

// shellName matches a variable as shells write it, at the beginning of a part of a path or URL.
var shellName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[/:@])\$([A-Z_][A-Z0-9_]+)`) })

// checkShellNames warns of $NAME in the places that inputs and outputs name: only ${NAME} is a placeholder.
func (l *loader) checkShellNames() {
	for _, f := range l.files {
		for _, section := range []string{"inputs", "outputs"} {
			if f.root.Lookup(section) == nil {
				continue
			}
			for _, at := range valuesOf(f.place().At(section), "path", "url", "dir") {
				if m := shellName().FindStringSubmatch(at.Node.Text); m != nil {
					l.complain(at, schema.Problem{Code: schema.BadPlaceholder, Warning: true,
						Message: fmt.Sprintf("$%s is not replaced", m[1]), Remedy: fmt.Sprintf("write ${%s}", m[1])})
				}
			}
		}
	}
}

// valuesOf returns the texts of some keys below a section.
func valuesOf(at schema.Place, keys ...string) (found []schema.Place) {
	for i, item := range at.Node.Items {
		below := schema.Place{Path: fmt.Sprintf("%s[%d]", at.Path, i), Node: item}
		if i < len(at.Node.Keys) {
			below.Path = schema.Join(at.Path, at.Node.Keys[i].Text)
			if slices.Contains(keys, at.Node.Keys[i].Text) && item.Kind == schema.TextNode {
				found = append(found, below)
			}
		}
		found = append(found, valuesOf(below, keys...)...)
	}
	return found
}

// testsDocuments reports whether the file has tests, and all their messages are documents.
func (f *file) testsDocuments() bool {
	any := false
	for _, t := range f.spec.Tests {
		for _, in := range t.Input {
			if in.Place.Node == nil || in.Place.Node.Lookup("json") == nil {
				return false
			}
			any = true
		}
	}
	return any
}

var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z_]\w*`) })

// bareWords adds the values of steps set and map below a place that are a single word without quotes.
func bareWords(at schema.Place, found []schema.Place) []schema.Place {
	for i, item := range at.Node.Items {
		below := schema.Place{Path: fmt.Sprintf("%s[%d]", at.Path, i), Node: item}
		if i < len(at.Node.Keys) {
			key := at.Node.Keys[i].Text
			below.Path = schema.Join(at.Path, key)
			if key == "tests" {
				continue
			}
			if (key == "set" || key == "map") && item.Kind == schema.MapNode {
				for j, value := range item.Items {
					if value.Kind == schema.TextNode && value.Style == schema.Plain && value.Text != "this" && value.Text != "nil" &&
						identifier().FindString(value.Text) == value.Text {
						found = append(found, schema.Place{Path: schema.Join(below.Path, item.Keys[j].Text), Node: value})
					}
				}
			}
		}
		found = bareWords(below, found)
	}
	return found
}

// countWords counts the words in keys and texts, without what tests expect.
func countWords(n *schema.Node, count map[string]int) {
	if len(n.Items) == 0 {
		for _, word := range identifier().FindAllString(n.Text, -1) {
			count[word]++
		}
	}
	for i, item := range n.Items {
		if i < len(n.Keys) {
			if n.Keys[i].Text == "expect" {
				continue
			}
			countWords(n.Keys[i], count)
		}
		countWords(item, count)
	}
}
