package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// sampleCheckout has the files of a checkout that the scores read.
var sampleCheckout = map[string]string{
	"config/examples/whole.yaml": "input: {stdin: {}}\npipeline: {processors: [{mapping: root = this}]}\n",
	"config/examples/lost.yaml":  "input: {stdin: {}}\npipeline: {processors: [{archive: {format: zip}}]}\n",
	"config/examples/other.yaml": "input: {carrier_pigeon: {}}\noutput: {stdout: {}}\n",
	"config/test/two.yaml": "pipeline: {processors: [{mapping: root.a = this.a + 1}]}\ntests:\n" +
		"  - {name: right, input_batch: [{content: '{\"a\":1}'}], output_batches: [[{json_equals: {a: 2}}]]}\n" +
		"  - {name: wrong, input_batch: [{content: '{\"a\":1}'}], output_batches: [[{json_equals: {a: 3}}]]}\n",
	"config/test/docker-compose.yml":  "services: {a: {image: b}}\n",
	"website/cookbooks/cookbook.md":   "# A page\n\n```yaml\ninput: {stdin: {}}\n```\n\n```yaml\na: 1\n```\n",
	"config/template_examples/a.yaml": "name: a\ntype: processor\nmapping: root.log = {}\n",
}

func TestScoresOfConfigurationsAndTheirTests(t *testing.T) {
	if testing.Short() {
		t.Skip("links flowd")
	}
	flowd := filepath.Join(t.TempDir(), "flowd")
	if err := flowdtest.GoBuild("-o", flowd, "github.com/flowd-io/flowd/cmd/flowd"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLOWD", flowd)
	peer := t.TempDir()
	for name, text := range sampleCheckout {
		path := filepath.Join(peer, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for score, want := range map[string][]string{
		"configs": {
			"config/examples/lost.yaml", "line 2: archives of the format zip are not made",
			"components that flowd does not have, by number of configurations: input carrier_pigeon 1",
			"configs: 3 of 4 (75 %) that use only components that flowd has; 5 in all",
		},
		"tests": {
			"config/test/two.yaml: 1 of 2", "two.yaml: wrong:",
			"tests: 1 of 2 (50 %) of configurations that use only components that flowd has; 2 in all",
		},
	} {
		var out strings.Builder
		if err := scores[score]([]string{"--peer", peer}, &out); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("the output of %s lacks %q:\n%s", score, text, out.String())
			}
		}
	}
	if err := scores["configs"]([]string{"--peer", t.TempDir()}, &strings.Builder{}); err == nil {
		t.Error("an empty directory is accepted")
	}
	if err := scores["tests"](nil, &strings.Builder{}); err == nil {
		t.Error("a missing --peer is accepted")
	}
}
