package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

const twoSteps = `
inputs: {in: {stdin: {}}}
processors:
  - filter: status >= 500
  - set: {customer.name: upper(name), total: 1}
outputs: {out: {stdout: {}}}
`

// mustParse gives the nodes of a text without mistakes.
func mustParse(t *testing.T, text string) *schema.Node {
	t.Helper()
	root, problems := yamltext.Parse("f.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("parse %q: %v", text, problems)
	}
	return root
}

// overridden parses text and applies overrides to it.
func overridden(t *testing.T, text string, set ...string) (*schema.Node, []schema.Problem) {
	t.Helper()
	l := loader{options: Options{Set: set}, files: []*file{{path: "f.yaml", root: mustParse(t, text)}}}
	l.override()
	return l.files[0].root, l.problems
}

func TestAnOverrideReplacesOrAddsAValue(t *testing.T) {
	tests := []struct {
		name, set string
		path      []string // of keys and "[i]"
		want      string
	}{
		{"a value", "processors[0].filter=status < 500", []string{"processors", "[0]", "filter"}, "status < 500"},
		{"a value in a section that is not there", "engine.workers=2", []string{"engine", "workers"}, "2"},
		{"a key with a dot", "processors[1].set.customer.name=lower(name)",
			[]string{"processors", "[1]", "set", "customer.name"}, "lower(name)"},
		{"a key beside one", "processors[1].set.customer=1", []string{"processors", "[1]", "set", "customer"}, "1"},
		{"a mapping", "outputs.out={file: {path: x}}", []string{"outputs", "out", "file", "path"}, "x"},
		{"the inside of an empty mapping", "inputs.in.stdin.framing=csv", []string{"inputs", "in", "stdin", "framing"},
			"csv"},
		{"an item behind the last", "processors[2]={filter: a}", []string{"processors", "[2]", "filter"}, "a"},
		{"an equals sign in the value", "processors[0].filter=a == b", []string{"processors", "[0]", "filter"},
			"a == b"},
		{"quotes", "name='a: b'", []string{"name"}, "a: b"},
		{"nothing", "name=", []string{"name"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, problems := overridden(t, twoSteps, tt.set)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			n := root
			for _, key := range tt.path {
				if n == nil {
					break
				}
				if key[0] == '[' {
					n = n.Items[key[1]-'0']
				} else {
					n = n.Lookup(key)
				}
			}
			if n == nil || n.Text != tt.want {
				t.Fatalf("%v is %+v, want %q", tt.path, n, tt.want)
			}
			if !strings.HasPrefix("-s "+tt.set, n.Pos.File+"=") || n.Pos.Line != 0 || n.Origin != "override" {
				t.Errorf("it is from %+v, %q, want the override", n.Pos, n.Origin)
			}
			if tt.want != "" && !strings.HasPrefix(strings.TrimLeft(tt.set[n.At(0).Col-1:], "'"), tt.want) {
				t.Errorf("its text begins at column %d of %q", n.At(0).Col, tt.set)
			}
		})
	}
}

// What --show prints can be overridden by the path at which it is printed, however it is
// written in the file.
func TestAnOverrideAddressesWhatShowPrints(t *testing.T) {
	const text = `
inputs: {in: {file: x.txt}}
processors:
  - filter: a > 1
  - {name: clean, unset: a}
  - decode: json
batchers: {all: {output: out}}
outputs: {out: {http: "http://h/"}}
`
	comments := regexp.MustCompile(` +#.*`)
	tests := []struct{ set, want string }{
		{"inputs.in.file.path=y", "path:\n        - y"},
		{"inputs.in.file.path[0]=y", "path:\n        - y"},
		{"inputs.in.file.framing=whole", "whole: {}"},
		{"processors.clean.unset[0]=b", "unset:\n      - b"},
		{"processors.clean.timeout=7s", "timeout: 7s"},
		{"processors[2].decode.json.indent=3", "indent: 3"},
		{"batchers.all.output[0]=out", "- out"},
		{"outputs.out.http.url=http://other/", "url: http://other/"},
		{"outputs.out.http.method=PUT", "method: PUT"},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, problems := Load([]string{path}, Options{Set: []string{tt.set}})
		if len(problems) > 0 {
			t.Errorf("-s %s: %v", tt.set, problems)
			continue
		}
		if shown := comments.ReplaceAllString(set.Pipelines[0].Show(), ""); !strings.Contains(shown, tt.want) {
			t.Errorf("-s %s shows\n%s\nwant %s", tt.set, shown, tt.want)
		}
	}
}

func TestAMalformedOverrideIsRefusedWithAnExample(t *testing.T) {
	tests := []struct{ name, set, want string }{
		{"no equals sign", "engine.workers", "-s engine.workers: an override is path=value, but this has no ="},
		{"no path", "=1", "-s : a name is missing in the path"},
		{"two dots", "engine..workers=1", "a name is missing in the path"},
		{"a bad index", "processors[x]=1", "an index is a number in brackets"},
		{"an open index", "processors[0=1", "an index is a number in brackets"},
		{"no dot", "processors[0]filter=1", "a dot is missing in the path"},
		{"an index too high", "processors[5].filter=1", "processors has 2 items, counted from 0"},
		{"an index in a mapping", "outputs[0]=1", "outputs is a mapping, not a list"},
		{"a key in a list", "processors.filter=1", `processors is a list, so it has no "filter"`},
		{"a key in text", "processors[0].filter.x=1", `processors[0].filter is text, so it has no "x"`},
		{"a bad value", "outputs.out={file: [}", "outputs.out: } can't close the [ before it"},
		{"two documents", "name=a\n---\nb", "a second document begins in it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := overridden(t, twoSteps, tt.set)
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Fatalf("got %v, want %s", problems, tt.want)
			}
			if problems[0].Remedy == "" || problems[0].Excerpt == "" {
				t.Errorf("%+v: want a remedy and an excerpt", problems[0])
			}
		})
	}
}

func TestAnOverrideAppliesToTheFilesThatHaveItsComponent(t *testing.T) {
	load := func(set string) (a, b *schema.Node, problems []schema.Problem) {
		l := loader{options: Options{Set: []string{set}}, files: []*file{
			{path: "a.yaml", root: mustParse(t, "inputs: {x: {stdin: {}}}\noutputs: {lake: {file: {path: a}}}\n")},
			{path: "b.yaml", root: mustParse(t, "inputs: {x: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n")},
		}}
		l.override()
		return l.files[0].root, l.files[1].root, l.problems
	}
	a, b, problems := load("outputs.lake.file.path=z")
	if got := a.Find("outputs", "lake", "file", "path"); got.Text != "z" || b.Find("outputs", "lake") != nil ||
		len(problems) > 0 {
		t.Errorf("a component of one file: got %v and %v, %v", got, b.Find("outputs", "lake"), problems)
	}
	a, b, problems = load("engine.workers=3")
	if a.Find("engine", "workers") == nil || b.Find("engine", "workers") == nil || len(problems) > 0 {
		t.Errorf("no component: engine is set in %v and %v, %v, want both", a.Find("engine"), b.Find("engine"),
			problems)
	}
	a, b, problems = load("service.listen=127.0.0.1:1")
	if a.Find("service", "listen") == nil || b.Find("service") != nil || len(problems) > 0 {
		t.Errorf("what belongs to the process is set in %v and %v, %v, want the first", a.Find("service"),
			b.Find("service"), problems)
	}
	_, _, problems = load("outputs.lack.file.path=z")
	if len(problems) != 1 || problems[0].Code != "unknown-override" {
		t.Errorf("a component of no file: got %v", problems)
	}
}
