package plugins

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// Program says which program to start: a folder with a manifest, which makes a type of component out of the program.
type Program struct {
	Lang string // one of Langs
	Kind string // one of ProgramKinds
	Name string // of the component, as in a pipeline file
	Dir  string // the folder to write; "" for NAME
}

// Langs are the languages of new programs.
var Langs = []string{"python", "node", "ruby"}

// ProgramKinds are what a program can be.
var ProgramKinds = []string{"step", "input", "output"}

// languages have what a program needs, by its language.
var languages = map[string]struct{ ext, command, install string }{
	"python": {".py", "[python3, widget.py]", "pip install flowd-sdk"},
	"node":   {".mjs", "[node, widget.mjs]", "npm install flowd-sdk"},
	"ruby":   {".rb", "[ruby, widget.rb]", "gem install flowd-sdk"},
}

// NewProgram writes a program that works, its manifest, and a pipeline that uses it. It returns what to do next.
func NewProgram(p Program) (next string, err error) {
	lang := languages[p.Lang]
	taken := map[string]bool{"step": engine.Processors.Lookup(p.Name) != nil, "input": engine.Inputs.Lookup(p.Name) != nil,
		"output": engine.Outputs.Lookup(p.Name) != nil}[p.Kind]
	dir, err := target(p.Kind, p.Name, p.Dir, taken)
	if err != nil {
		return "", err
	}
	from := path.Join("template", "program", p.Kind)
	written := map[string]string{}
	for _, name := range []string{"plugin.yaml", "pipeline.yaml", placeholder + lang.ext} {
		text, err := fs.ReadFile(templates, path.Join(from, name))
		if err != nil {
			return "", err
		}
		written[strings.ReplaceAll(name, placeholder, p.Name)] =
			strings.NewReplacer("COMMAND", strings.ReplaceAll(lang.command, placeholder, p.Name), placeholder, p.Name).Replace(string(text))
	}
	if err := writeAll(dir, written); err != nil {
		return "", err
	}
	return fmt.Sprintf(`%[1]s/ has the %[2]s %[3]q. Next:

  cd %[1]s
  %[4]s
  flowd docs %[3]s --plugins .
  flowd -c pipeline.yaml
`, dir, p.Kind, p.Name, lang.install), nil
}

// target returns the folder to write, which must be empty. taken says that flowd has the name.
func target(kind, name, dir string, taken bool) (string, error) {
	switch {
	case !validName.MatchString(name):
		return "", fmt.Errorf("%q can't be the name of a plugin (use lower-case letters, digits and _, and begin with a letter)", name)
	case taken:
		return "", fmt.Errorf("flowd has the %s %q already (choose another name)", kind, name)
	}
	dir = cmp.Or(dir, name)
	if found, err := os.ReadDir(dir); err == nil && len(found) > 0 {
		return "", fmt.Errorf("%s has files in it (choose another folder with --dir, or remove them)", dir)
	}
	return dir, nil
}

// writeAll writes files by their names.
func writeAll(dir string, all map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
