package migrate_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// goldenCase is an archive in testdata: in/… is what is read, the first file that which is translated; want/… and
// notes are what comes out.
type goldenCase struct {
	name    string
	archive *txtar.Archive
}

func (c goldenCase) files(folder string) map[string][]byte {
	all := map[string][]byte{}
	for _, f := range c.archive.Files {
		if name, ok := strings.CutPrefix(f.Name, folder+"/"); ok {
			all[name] = f.Data
		}
	}
	return all
}

// translate translates the first file of a case.
func (c goldenCase) translate(t *testing.T) *migrate.Result {
	t.Helper()
	file := strings.TrimPrefix(c.archive.Files[0].Name, "in/")
	res, err := migrate.Benthos(file, c.archive.Files[0].Data, migrate.Options{Read: c.read, List: c.list})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (c goldenCase) read(name string) ([]byte, error) {
	if data, ok := c.files("in")[strings.TrimPrefix(name, "./")]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (c goldenCase) list(dir string) (names []string, err error) {
	for name := range c.files("in") {
		if strings.HasPrefix(name, strings.TrimPrefix(dir, "./")+"/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func cases(t testing.TB) (all []goldenCase) {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, goldenCase{strings.TrimSuffix(filepath.Base(name), ".txtar"), a})
	}
	return all
}

func notesOf(res *migrate.Result) string {
	var b strings.Builder
	for _, n := range res.Notes {
		fmt.Fprintf(&b, "%d:%d: %s: %s\n", n.Line, n.Col, n.Kind, n.Text)
	}
	fmt.Fprintf(&b, "components %d of %d, tests %d of %d\n", res.Components.Whole, res.Components.Of, res.Tests.Whole,
		res.Tests.Of)
	return b.String()
}

func TestTranslations(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			res := c.translate(t)
			want := c.files("want")
			if *update {
				c.archive.Files = slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool {
					return f.Name == "notes" || strings.HasPrefix(f.Name, "want/")
				})
				for _, out := range res.Outputs {
					c.archive.Files = append(c.archive.Files, txtar.File{Name: "want/" + out.Name, Data: out.Text})
				}
				c.archive.Files = append(c.archive.Files, txtar.File{Name: "notes", Data: []byte(notesOf(res))})
				if err := os.WriteFile("testdata/"+c.name+".txtar", txtar.Format(c.archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, out := range res.Outputs {
				if got := string(out.Text); got != string(want[out.Name]) {
					t.Errorf("%s is\n%s\nwant\n%s", out.Name, got, want[out.Name])
				}
				delete(want, out.Name)
			}
			for name := range want {
				t.Errorf("%s is not written", name)
			}
			notes := ""
			for _, f := range c.archive.Files {
				if f.Name == "notes" {
					notes = string(f.Data)
				}
			}
			if got := notesOf(res); got != notes {
				t.Errorf("notes are\n%s\nwant\n%s", got, notes)
			}
		})
	}
}

func TestMigratingTwiceGivesTheSame(t *testing.T) {
	for _, c := range cases(t) {
		first := c.translate(t)
		for range 5 {
			again := c.translate(t)
			for i, out := range again.Outputs {
				if !bytes.Equal(out.Text, first.Outputs[i].Text) {
					t.Fatalf("%s: %s differs at the next attempt", c.name, out.Name)
				}
			}
			if a, b := notesOf(first), notesOf(again); a != b {
				t.Fatalf("%s: notes differ: %s\n%s", c.name, a, b)
			}
		}
	}
}

// Every line of comment in a configuration is somewhere in what was made of it.
func TestNoCommentIsLost(t *testing.T) {
	for _, c := range cases(t) {
		var all strings.Builder
		for _, out := range c.translate(t).Outputs {
			all.Write(out.Text)
		}
		for line := range strings.Lines(string(c.archive.Files[0].Data)) {
			_, said, found := strings.Cut(line, "# ")
			if found && !strings.ContainsAny(line[:strings.Index(line, "# ")], `'"`) &&
				!strings.Contains(all.String(), strings.TrimSpace(said)) {
				t.Errorf("%s: %q is lost", c.name, strings.TrimSpace(line))
			}
		}
	}
}

func TestWhatCanNotBeTranslatedIsNotedAndRefused(t *testing.T) {
	for _, c := range cases(t) {
		res := c.translate(t)
		refused := false
		for _, out := range res.Outputs {
			refused = refused || bytes.Contains(out.Text, []byte("untranslated"))
		}
		if len(res.Outputs) > 0 && refused == res.Whole() {
			t.Errorf("%s: whole is %v, and there is a key untranslated: %v", c.name, res.Whole(), refused)
		}
	}
}

func TestFilesThatAreNotConfigurations(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "a.yaml: the file contains no configuration"},
		{"a list", "- a\n", "a.yaml: a configuration is a mapping with input, pipeline and output"},
		{"no YAML", "input: {stdin: {}\n", "a.yaml: this is not YAML: line 1: did not find expected ',' or '}'"},
		{"two documents", "input: {stdin: {}}\n---\ninput: {stdin: {}}\n",
			"a.yaml:2:1: a second document begins here (migrate each in a file of its own)"},
		{"an anchor in itself", "a: &a [*a]\n", "a.yaml: the configuration, with its anchors, is too large or too deep"},
		{"a billion laughs", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" +
			"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
			"a.yaml: the configuration, with its anchors, is too large or too deep"},
	} {
		_, err := migrate.Benthos("a.yaml", []byte(tt.text), migrate.Options{})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: the error is %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestAFileOfTestsBelongsToItsConfiguration(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name == "orders.yaml" {
			return []byte("pipeline: {processors: [{mapping: root = this}]}"), nil
		}
		return nil, fs.ErrNotExist
	}
	res, err := migrate.Benthos("orders_benthos_test.yaml", []byte("tests: [{name: a, input_batch: [{content: a}]}]"),
		migrate.Options{Read: read})
	if err != nil || res.Part != "orders.yaml" || len(res.Outputs) > 0 {
		t.Errorf("it is %+v, %v", res, err)
	}
}

func FuzzBenthos(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(c.archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := migrate.Benthos("a.yaml", data, migrate.Options{})
		if err != nil {
			return
		}
		for _, out := range res.Outputs {
			var top yaml.Node
			if err := yaml.Unmarshal(out.Text, &top); err != nil {
				t.Errorf("%s is not YAML: %v\n%s", out.Name, err, out.Text)
			}
		}
		again, err := migrate.Benthos("a.yaml", data, migrate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, out := range again.Outputs {
			if !bytes.Equal(out.Text, res.Outputs[i].Text) {
				t.Errorf("%s differs at the next attempt", out.Name)
			}
		}
	})
}
