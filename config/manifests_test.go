package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAReloadKeepsAComponentWhileItsManifestIsTheSame(t *testing.T) {
	const manifest = "name: %\nkind: input\ncommand: [a]\n"
	dir := write(t, map[string]string{
		"p.yaml": "service: {plugins: .}\ninputs: {in: {kept_feed: {}}, other: {changed_feed: {}}}\n" +
			"outputs: {out: {stdout: {}}}\n",
		"kept/plugin.yaml":    strings.Replace(manifest, "%", "kept_feed", 1),
		"changed/plugin.yaml": strings.Replace(manifest, "%", "changed_feed", 1),
	})
	load := func() *file {
		t.Helper()
		set, problems := Load([]string{filepath.Join(dir, "p.yaml")}, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if len(set.Included) != 2 {
			t.Errorf("a watcher sees %q, want both manifests", set.Included)
		}
		return set.Pipelines[0].file
	}
	before := load()
	changed := strings.Replace(manifest, "%", "changed_feed", 1) + "timeout: 5s\n"
	if err := os.WriteFile(filepath.Join(dir, "changed", "plugin.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	after := load()
	for name, want := range map[string]bool{"in": true, "other": false} {
		if got := after.sameManifests(after.root.Find("inputs", name), before); got != want {
			t.Errorf("input %s has the same manifest: %v, want %v", name, got, want)
		}
	}
}
