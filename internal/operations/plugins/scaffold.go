package plugins

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// goVersion is the version of Go that flowd needs, as in its go.mod.
const goVersion = "1.26.0"

// The templates are packages of this module, so that they compile and pass their own tests.
//
//go:embed template
var templates embed.FS

// placeholder is the name of the plugin, its package and its files in the templates.
const placeholder = "widget"

// Module says which module to start.
type Module struct {
	Kind  string // one of Kinds
	Name  string // of the component, as in a pipeline file
	Path  string // of the module; "" for example.com/NAME
	Flowd string // a version of flowd, or a folder with its source; "" for the version that is running
	Dir   string // the folder to write; "" for NAME
}

// Kinds are what a plugin can be.
var Kinds = []string{"input", "processor", "batcher", "output"}

// taken reports whether this flowd has such a component.
func (m Module) taken() bool {
	names := map[string]func() []string{"input": engine.Inputs.Names, "processor": engine.Processors.Names,
		"batcher": engine.Batchers.Names, "output": engine.Outputs.Names}
	return slices.Contains(names[m.Kind](), m.Name)
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// New writes a module with one plugin, its conformance test and a pipeline that uses it. It returns what to do next.
func New(m Module) (next string, err error) {
	choice := "" // of flowd
	if isDir(m.Flowd) {
		if m.Flowd, err = filepath.Abs(m.Flowd); err != nil {
			return "", err
		}
	}
	if m.Flowd != "" {
		choice = " --flowd " + m.Flowd
	}
	dir, err := target(m.Kind, m.Name, m.Dir, m.taken())
	if err != nil {
		return "", err
	}
	mod, err := m.goMod()
	if err != nil {
		return "", err
	}
	files := map[string]string{"go.mod": mod}
	from := path.Join("template", m.Kind)
	entries, err := fs.ReadDir(templates, from)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := fs.ReadFile(templates, path.Join(from, e.Name()))
		if err != nil {
			return "", err
		}
		files[strings.ReplaceAll(e.Name(), placeholder, m.Name)] = m.fill(string(text))
	}
	if err := writeAll(dir, files); err != nil {
		return "", err
	}
	return fmt.Sprintf(`%[1]s/ has the %[2]s %[3]q. Next:

  cd %[1]s
  go mod tidy
  go test ./...
  flowd build --with .%[4]s
  ./flowd -c pipeline.yaml
`, dir, m.Kind, m.Name, choice), nil
}

// fill replaces the placeholder: the name of the package can't have underscores or be a keyword, that of the plugin can.
func (m Module) fill(text string) string {
	pkg := strings.ReplaceAll(m.Name, "_", "")
	if token.IsKeyword(pkg) {
		pkg += m.Kind
	}
	return strings.NewReplacer("ackage "+placeholder, "ackage "+pkg, placeholder, m.Name).Replace(text)
}

func (m Module) goMod() (string, error) {
	text := fmt.Sprintf("module %s\n\ngo %s\n", cmp.Or(m.Path, "example.com/"+m.Name), goVersion)
	if !isDir(m.Flowd) {
		v, err := version(m.Flowd)
		return text + fmt.Sprintf("\nrequire %s %s\n", flowd, v), err
	}
	if _, err := os.Stat(filepath.Join(m.Flowd, "go.mod")); err != nil {
		return "", errors.New("--flowd " + m.Flowd + " has no go.mod (give the folder of a checkout of flowd, or a version)")
	}
	return text + fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", flowd, m.Flowd), nil
}
