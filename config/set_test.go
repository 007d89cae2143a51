package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

const quickstart = "inputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n"

// served is for use with quickstart: a process reads stdin once.
const served = "inputs: {in: {http_server: \"127.0.0.1:8080\"}}\noutputs: {out: {stdout: {}}}\n"

// write makes files in a new directory.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestADirectoryIsItsPipelineFilesInOrder(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": quickstart, "a.yml": served, ".hidden.yaml": "[", "notes.txt": "[", "c.yaml.bak": "[",
		"sub/d.yaml": "[", "e.yaml/x.yaml": "[",
	})
	set, problems := Load([]string{dir, filepath.Join(dir, "b.yaml")}, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for _, p := range set.Pipelines {
		got = append(got, p.Spec.Name)
		if p.Plan == nil {
			t.Errorf("%s has no plan", p.File)
		}
	}
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("pipelines are %v, want %v, each once", got, want)
	}
}

func TestAFileThatCannotBeReadIsAProblem(t *testing.T) {
	dir := write(t, map[string]string{"orders.yaml": quickstart, "empty/readme.md": "", "locked.yaml": quickstart})
	if err := os.Chmod(filepath.Join(dir, "locked.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "broken.yaml")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"a misspelt name", "order.yaml", `there is no such file (did you mean "` + filepath.Join(dir, "orders.yaml") +
			`"?)`},
		{"a name without extension", "orders", `there is no such file (did you mean "` + filepath.Join(dir,
			"orders.yaml") + `"?)`},
		{"a directory that is not there", "some/where.yaml", "there is no such file (check the path)"},
		{"an empty directory", "empty",
			"the directory contains no pipeline (put files that end in .yaml or .yml into it"},
		{"a link to nothing", "broken.yaml", "there is no such file"},
		{"a file without permission", "locked.yaml",
			"permission denied (give this user permission to read it)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == "locked.yaml" && os.Getuid() == 0 {
				t.Skip("root may read everything")
			}
			_, problems := Load([]string{filepath.Join(dir, tt.path)}, Options{})
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) ||
				problems[0].Pos.File != filepath.Join(dir, tt.path) {
				t.Errorf("got %v, want %s", problems, tt.want)
			}
		})
	}
	for _, paths := range [][]string{nil, {"-"}} {
		if _, problems := Load(paths, Options{}); len(problems) != 1 || problems[0].Code != "no-file" ||
			problems[0].Remedy == "" {
			t.Errorf("Load(%q) gives %v, want a problem", paths, problems)
		}
	}
}

func TestABrokenFileDoesNotHideTheOthers(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": "a: [", "b.yaml": quickstart,
		"c.yaml": served + "engine: {wrkers: 1}\n"})
	set, problems := Load([]string{dir}, Options{})
	if len(problems) != 2 || problems[0].Code != "yaml-syntax" || problems[1].Code != schema.UnknownField {
		t.Errorf("problems are %v, want those of a and c", problems)
	}
	if len(set.Pipelines) != 2 || set.Pipelines[0].Plan == nil || set.Pipelines[1].Plan != nil {
		t.Errorf("pipelines are %+v, want a plan of b alone", set.Pipelines)
	}
}

func TestAnOverrideGetsTheSameComplaintsAsAFile(t *testing.T) {
	dir := write(t, map[string]string{"q.yaml": quickstart})
	tests := []struct{ set, want string }{
		{"engine.wrkers=2",
			`-s engine.wrkers: engine: unknown field "wrkers" (did you mean "workers"?) [unknown-field]`},
		{"engine.workers=many",
			`-s engine.workers: engine.workers: "many" is not a whole number (write a number such as 10) [bad-value]`},
		{"processors[0].filter=a ==", "-s processors[0].filter: processors[0].filter: "},
		{"batchers.all={output: ouy}",
			`-s batchers.all: batchers.all.output: there is no output "ouy" (did you mean "out"?)`},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			_, problems := Load([]string{filepath.Join(dir, "q.yaml")}, Options{Set: []string{tt.set}})
			if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), tt.want) {
				t.Errorf("got %v, want %s", problems, tt.want)
			}
		})
	}
	set, problems := Load([]string{dir}, Options{Set: []string{"engine.workers=3", "name=other"}})
	if len(problems) > 0 || set.Pipelines[0].Spec.Engine.Workers != 3 || set.Pipelines[0].Spec.Name != "other" {
		t.Errorf("got %+v, %v, want the overridden values", set.Pipelines, problems)
	}
}

func TestShowTellsWhereEveryValueIsFrom(t *testing.T) {
	dir := write(t, map[string]string{"q.yaml": `inputs: {in: {stdin: {}}}
processors:
  - filter: status >= 500
    timeout: 2s
    retry: {max_attempts: 7}
batchers:
  all: {output: out}
outputs:
  out: {stdout: {}}
engine:
  timeout: 5s
  on_failure: {retry: {max_attempts: 3, intervals: [1s]}}
`})
	set, problems := Load([]string{filepath.Join(dir, "q.yaml")}, Options{Set: []string{"engine.workers=3"}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := strings.ReplaceAll(set.Pipelines[0].Show(), dir+string(filepath.Separator), "")
	for _, want := range []string{
		`name: q +# from the file's name`,
		`- filter: status >= 500 +# q.yaml:3`,
		`timeout: 2s +# q.yaml:4`,
		`timeout: 5s +# inherited from engine.timeout`,
		`workers: 3 +# override`,
		`timeout: 5s +# q.yaml:11`,
		`- out +# q.yaml:7`,
		`max_attempts: 7 +# q.yaml:5`,
		`max_attempts: 3 +# inherited from engine.on_failure.retry`,
		`- 1s +# inherited from engine.on_failure.retry`,
		`- 1s +# q.yaml:12`,
		`messages: 10000 +# default`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line is like %q in\n%s", want, got)
		}
	}
	if again := set.Pipelines[0].Show(); strings.ReplaceAll(again, dir+string(filepath.Separator), "") != got {
		t.Errorf("shown again it is different:\n%s", again)
	}
	if set.Pipelines[0].Spec.Processors[0].Timeout.String() != "2s" ||
		set.Pipelines[0].Spec.Outputs.Entries()[0].Value.Timeout != 0 {
		t.Error("showing the configuration changed it")
	}
}

func TestEveryCodeIsExplained(t *testing.T) {
	known := map[string]bool{}
	for _, c := range schema.Codes() {
		known[c.Name] = true
	}
	var files []string
	for _, root := range []string{".", "../engine"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if filepath.Ext(path) == ".go" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Code: +"([^"]+)"`).FindAllSubmatch(text, -1) {
			if !known[string(m[1])] {
				t.Errorf("%s uses the code %s, which no one explains", name, m[1])
			}
		}
	}
}
