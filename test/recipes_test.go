package test

import (
	"strings"
	"testing"
)

// TestRecipes follows each recipe of the cookbooks in a folder of its own.
func TestRecipes(t *testing.T) {
	for _, guide := range []string{"cookbook.md", "from-benthos.md", "from-logstash.md"} {
		recipes := strings.Split("\n"+read(t, repo, "docs", guide), "\n## ")
		for _, recipe := range recipes[1:] {
			title, text, _ := strings.Cut(recipe, "\n")
			t.Run(guide+" "+title, func(t *testing.T) {
				t.Parallel()
				if len(blocks(text)) == 0 {
					t.Skip("it has nothing to run")
				}
				follow(t, t.TempDir(), guide, text)
			})
		}
	}
}
