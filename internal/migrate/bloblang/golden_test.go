package bloblang

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write what mappings are translated to as what is expected")

// Each mapping of testdata is translated to the steps beside it, with its notes behind them. A name that begins with
// mutation is that of a mutation, one with batch runs in a batch.
func TestMappingsBecomeSteps(t *testing.T) {
	files, err := filepath.Glob("testdata/*.blobl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".blobl"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := translated(string(src), optionsOf(file))
			golden := strings.TrimSuffix(file, ".blobl") + ".yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the translation of %s differs (-want +got):\n%s", file, diff)
			}
			if again := translated(string(src), optionsOf(file)); again != got {
				t.Errorf("the second translation differs from the first (-first +second):\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func optionsOf(file string) (o Options) {
	o.Batch = strings.HasPrefix(filepath.Base(file), "batch")
	if strings.HasPrefix(filepath.Base(file), "mutation") {
		o.Target = InPlace
	}
	return o
}

// translated is a translation as YAML, with a comment for each note.
func translated(src string, o Options) string {
	steps, notes := Steps(src, o)
	var b bytes.Buffer
	if len(steps) > 0 {
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := e.Encode(&yaml.Node{Kind: yaml.SequenceNode, Content: steps}); err != nil {
			return err.Error()
		}
	}
	for _, n := range notes {
		kind := map[Kind]string{Untranslated: "untranslated", Differs: "differs"}[n.Kind]
		fmt.Fprintf(&b, "# %d:%d %s: %s\n", n.Line, n.Column, kind, n.Text)
	}
	return b.String()
}
