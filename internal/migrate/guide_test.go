package migrate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/migrate"
)

// sideBySide is a piece of a configuration in the guide, and what it becomes.
var sideBySide = regexp.MustCompile("(?ms)^```yaml benthos\n(.*?)^```$\n\n^```yaml\n(.*?)^```$")

// processors is the section with the steps, without the comment about failures that every file has.
var processors = regexp.MustCompile(`(?ms)^processors:\n(.*?)(^\w|\z)`)

// TestTheGuideShowsWhatComesOut translates each left side in docs/migrate.md: steps, or a whole configuration.
func TestTheGuideShowsWhatComesOut(t *testing.T) {
	guide, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	pairs := sideBySide.FindAllStringSubmatch(string(guide), -1)
	if len(pairs) < 12 {
		t.Fatalf("there are %d pairs, want ten mappings and two more", len(pairs))
	}
	for _, p := range pairs {
		left, right := p[1], p[2]
		whole := !strings.HasPrefix(left, "- ")
		if !whole {
			left = "input: {kafka: {addresses: [a], topics: [a]}}\npipeline:\n  processors:\n" + indent(left, "    ")
		}
		res, err := migrate.Benthos("a.yaml", []byte(left), migrate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := string(res.Outputs[0].Text)
		if !whole {
			got = strings.TrimSpace(strings.ReplaceAll("\n"+processors.FindStringSubmatch(got)[1], "\n  ", "\n")) + "\n"
		}
		if got != right {
			t.Errorf("of\n%s\ncomes\n%s\nthe guide has\n%s", p[1], got, right)
		}
	}
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by) + "\n"
}
