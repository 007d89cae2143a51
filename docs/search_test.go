package docs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/docs"
)

const guide = "# Cats\n\nThey sleep.\n\n## What they eat\n\n- Fish, in all **seasons**.\n- Mice\n  and birds.\n\n" +
	"```sh\n# not a heading\n```\n\n### `Time zones`\n\n| zone | time |\n|---|---|\n| UTC | noon |\n| CET | one |\n"

func TestSectionsBeginAtHeadings(t *testing.T) {
	var got []string
	for _, p := range docs.Sections("cats", guide) {
		got = append(got, docs.Anchor(p.Section)+": "+strings.Join(strings.Fields(p.Text), " "))
	}
	want := []string{": They sleep.",
		"what-they-eat: - Fish, in all **seasons**. - Mice and birds. ```sh # not a heading ```",
		"time-zones: | zone | time | |---|---| | UTC | noon | | CET | one |"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSearchFindsFormsOfWords(t *testing.T) {
	x := docs.NewIndex(append(docs.Sections("cats", guide), docs.Passage{Page: "dogs", Text: "Dogs run, and retry.", Weight: 1}))
	for words, want := range map[string]string{
		"sleeping":     "cats They sleep.",
		"bird":         "cats#What they eat - Mice and birds.",
		"timezone CET": "cats#`Time zones` | CET | one |",
		"the dog runs": "dogs Dogs run, and retry.",
		"retries":      "dogs Dogs run, and retry.",
		"retried":      "dogs Dogs run, and retry.",
		"heading":      "cats#What they eat # not a heading",
		"elephants":    "",
		"what is the":  "",
	} {
		got := ""
		if hits := x.Search(words, 1); len(hits) > 0 {
			got = hits[0].Page
			if hits[0].Section != "" {
				got += "#" + hits[0].Section
			}
			got += " " + hits[0].Excerpt
		}
		if got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}
