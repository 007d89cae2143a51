package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// checkWords warns of `set: {env: prod}` and `filter: env == prod` where text was probably meant: no other line mentions prod. The
// messages of the tests have no such field, or, without tests, the word is a usual value of the field.
func (l *loader) checkWords() {
	for _, f := range l.files {
		tested := f.testsDocuments()
		found := bareWords(f.place())
		if len(found) == 0 || !tested && !slices.ContainsFunc(found, bareWord.isUsual) {
			continue
		}
		mentioned := map[string]int{}
		countWords(f.root, mentioned)
		for _, at := range found {
			if mentioned[at.word] > 1 || !tested && !at.isUsual() {
				continue
			}
			why := "which nothing else in this file mentions"
			if tested {
				why = "which no message in the tests has"
			}
			l.complain(at.place, schema.Problem{Code: "unknown-word", Warning: true,
				Message: fmt.Sprintf("%s is read as a field, %s", at.word, why), Remedy: at.remedy()})
		}
	}
}

// bareWord is a word without quotes that a step sets, or that a condition compares with a field.
type bareWord struct {
	place       schema.Place
	field, word string
}

// remedy puts the word into quotes.
func (w bareWord) remedy() string {
	text := w.place.Node.Text
	if text == w.word {
		return fmt.Sprintf(`write '"%s"' for the text`, w.word)
	}
	return fmt.Sprintf(`write "%s" for the text`, w.word)
}

// isUsual reports whether a field of this name usually has the word as its value.
func (w bareWord) isUsual() bool {
	return slices.Contains(usual().fields, strings.ToLower(w.field)) && slices.Contains(usual().words, strings.ToLower(w.word))
}

// usual are the fields that usually have one of a few words as their value, and these words.
var usual = sync.OnceValue(func() (all struct{ fields, words []string }) {
	all.fields = strings.Fields("level severity priority status state env environment method")
	all.words = strings.Fields("error warn warning info debug critical fatal high medium low ok failed active inactive open closed " +
		"prod production staging dev get post put delete")
	return all
})

// comparison matches a field that is compared with a word.
var comparison = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\s(])(?:\w+\.)*([A-Za-z_]\w*)\s*[!=]=\s*([A-Za-z_]\w*)(?:$|[\s)])`)
})

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
func valuesOf(section schema.Place, keys ...string) (found []schema.Place) {
	eachBelow(section, func(key string, at schema.Place) bool {
		if slices.Contains(keys, key) && at.Node.Kind == schema.TextNode {
			found = append(found, at)
		}
		return true
	})
	return found
}

// eachBelow calls f for each value below a place, with its key; that of an item of a list is "". If f returns false, what is
// below that value is left out.
func eachBelow(top schema.Place, f func(key string, at schema.Place) bool) {
	for i, item := range top.Node.Items {
		key, at := "", top.Item(i)
		if i < len(top.Node.Keys) {
			key = top.Node.Keys[i].Text
			at = schema.Place{Path: schema.Join(top.Path, key), Node: item}
		}
		if f(key, at) {
			eachBelow(at, f)
		}
	}
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

// bareWords returns the values of steps set and map below a place that are a single word without quotes, and such words in
// conditions.
func bareWords(file schema.Place) (found []bareWord) {
	eachBelow(file, func(key string, at schema.Place) bool {
		switch {
		case key == "tests":
			return false
		case (key == "set" || key == "map") && at.Node.Kind == schema.MapNode:
			for i, value := range at.Node.Items {
				if value.Kind == schema.TextNode && value.Style == schema.Plain && !isConstant(value.Text) &&
					identifier().FindString(value.Text) == value.Text {
					field := at.Node.Keys[i].Text
					found = append(found, bareWord{schema.Place{Path: schema.Join(at.Path, field), Node: value}, field, value.Text})
				}
			}
		case (key == "filter" || key == "when" || key == "match") && at.Node.Kind == schema.TextNode:
			for _, m := range comparison().FindAllStringSubmatch(at.Node.Text, -1) {
				if !isConstant(m[2]) {
					found = append(found, bareWord{at, m[1], m[2]})
				}
			}
		}
		return true
	})
	return found
}

// isConstant reports whether a word of an expression is not the name of a field.
func isConstant(word string) bool {
	return slices.Contains([]string{"this", "nil", "true", "false", "not"}, word)
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
