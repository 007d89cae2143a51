package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate"
)

// withPeer adds the flag --peer to a score.
func withPeer(score func(peer string, w io.Writer) error) func([]string, io.Writer) error {
	return func(args []string, w io.Writer) error {
		f := flag.NewFlagSet("migrate", flag.ContinueOnError)
		peer := f.String("peer", "", "directory with a checkout of the other system")
		if err := f.Parse(args); err != nil {
			return err
		}
		if *peer == "" {
			return errors.New("--peer DIR is missing: it names the checkout to read")
		}
		return score(*peer, w)
	}
}

// configuration is a configuration of a checkout: a file, or an example in a page.
type configuration struct {
	name string // path in the checkout
	file string // paths in the configuration are relative to the directory of this file
	text []byte

	resources []string // files in the same directory that only define resources
}

// places are the directories of a checkout with configurations that are documentation, or tested.
var places = []string{"config/test", "config/examples", "resources/docker", "website/cookbooks",
	"docs/modules/cookbooks"}

// yamlBlock is a block of YAML in a page.
var yamlBlock = regexp.MustCompile("(?ms)^```ya?ml\\n(.*?)^```$|^\\[source,ya?ml\\]\\n----\\n(.*?)^----$")

// configurations reads all configurations of a checkout.
func configurations(peer string) (all []configuration, err error) {
	add := func(name, file string, text []byte) {
		if isConfiguration(text) {
			all = append(all, configuration{name: name, file: file, text: text, resources: resourcesBeside(file)})
		}
	}
	for _, place := range places {
		err := filepath.WalkDir(filepath.Join(peer, place), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
				return nil
			}
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(peer, path)
			switch filepath.Ext(path) {
			case ".yaml", ".yml":
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				add(name, path, text)
			case ".md", ".adoc":
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for i, m := range yamlBlock.FindAllSubmatch(text, -1) {
					add(fmt.Sprintf("%s#%d", name, i+1), path, append(m[1], m[2]...))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listIn returns a function that lists the files in a directory of the checkout.
func listIn(peer string) func(string) ([]string, error) {
	return func(dir string) ([]string, error) {
		entries, err := os.ReadDir(filepath.Join(peer, dir))
		var names []string
		for _, e := range entries {
			names = append(names, filepath.Join(dir, e.Name()))
		}
		return names, err
	}
}

// resourcesBeside returns the files in the same directory that only define resources, which the peer gets with -r.
func resourcesBeside(file string) (names []string) {
	name := filepath.Join(filepath.Dir(file), "resources.yaml")
	if _, err := os.Stat(name); err == nil && name != file && filepath.Ext(file) == ".yaml" {
		names = append(names, "resources.yaml")
	}
	return names
}

// isConfiguration reports whether a text is a configuration, and not a template or a file of another tool.
func isConfiguration(text []byte) bool {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		// Placeholders may make a configuration invalid YAML.
		return bytes.Contains(text, []byte("input:")) && bytes.Contains(text, []byte("output:"))
	}
	if _, composed := top["services"]; composed || top["mapping"].Kind != 0 {
		return false
	}
	for _, name := range []string{"input", "pipeline", "output", "tests", "processor_resources", "cache_resources"} {
		if top[name].Kind == yaml.MappingNode || top[name].Kind == yaml.SequenceNode {
			return true
		}
	}
	return false
}

// translated is a configuration with its translation.
type translated struct {
	configuration
	result *migrate.Result
	err    error
	peer   string   // path of the checkout
	dir    string   // directory of the translation
	files  []string // files of the translation
	faults []string // problems that lint finds
}

// translateAll translates the configurations of a checkout, each into its own subdirectory of dir.
func translateAll(peer, dir string) ([]*translated, error) {
	found, err := configurations(peer)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no configurations in %s", peer, strings.Join(places, ", "))
	}
	var all []*translated
	for i, c := range found {
		one := &translated{configuration: c, peer: peer, dir: filepath.Join(dir, fmt.Sprint(i))}
		read := func(name string) ([]byte, error) {
			if strings.HasSuffix(c.file, ".md") || strings.HasSuffix(c.file, ".adoc") {
				return nil, fs.ErrNotExist
			}
			data, err := os.ReadFile(filepath.Join(filepath.Dir(c.file), name))
			if err != nil {
				return os.ReadFile(filepath.Join(peer, name))
			}
			return data, nil
		}
		one.result, one.err = migrate.Benthos(c.file, c.text,
			migrate.Options{Read: read, List: listIn(peer), Resources: c.resources})
		all = append(all, one)
		if one.err != nil {
			continue
		}
		if err := os.MkdirAll(one.dir, 0o700); err != nil {
			return nil, err
		}
		for _, out := range one.result.Outputs {
			file := filepath.Join(one.dir, out.Name)
			if err := os.WriteFile(file, out.Text, 0o600); err != nil {
				return nil, err
			}
			one.files = append(one.files, file)
		}
	}
	return all, nil
}

// buildFlowd builds flowd, unless FLOWD names a binary.
func buildFlowd(dir string) (string, error) {
	if made := os.Getenv("FLOWD"); made != "" {
		return made, nil
	}
	flowd := filepath.Join(dir, "flowd")
	build := exec.Command("go", "build", "-o", flowd, "github.com/flowd-io/flowd/cmd/flowd")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build flowd: %w\n%s", err, out)
	}
	return flowd, nil
}

// lint lints the files of a translation. It ignores unset environment variables.
func (t *translated) lint(flowd string) error {
	for _, file := range t.files {
		if data, err := os.ReadFile(file); err == nil && !bytes.Contains(data, []byte("inputs:")) {
			wrapped := file + ".pipeline.yaml" // a file of resources only is for other files to include
			text := fmt.Sprintf("include: %s\ninputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n", filepath.Base(file))
			if err := os.WriteFile(wrapped, []byte(text), 0o600); err != nil {
				return err
			}
			file = wrapped
		}
		cmd := exec.Command(flowd, "lint", "--json", file)
		cmd.Dir = t.peer
		out, err := cmd.Output()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			return err
		}
		var problems []struct {
			Code, Severity, Path, Message string
			Line                          int
		}
		if err := json.Unmarshal(out, &problems); err != nil {
			return fmt.Errorf("lint %s: %w", file, err)
		}
		for _, p := range problems {
			if p.Severity == "error" && p.Code != "unresolved-placeholder" && p.Code != "untranslated" {
				t.faults = append(t.faults, fmt.Sprintf("%s:%d: %s: %s [%s]", filepath.Base(file), p.Line, p.Path,
					p.Message, p.Code))
			}
		}
	}
	return nil
}

// complete reports whether everything was translated and lints.
func (t *translated) complete() bool { return t.err == nil && t.result.Whole() && len(t.faults) == 0 }

// reasons says why the translation is not complete.
func (t *translated) reasons() (all []string) {
	if t.err != nil {
		return []string{t.err.Error()}
	}
	for _, n := range t.result.Notes {
		if n.Kind == migrate.Untranslated {
			all = append(all, fmt.Sprintf("line %d: %s", n.Line, n.Text))
		}
	}
	return append(all, t.faults...)
}

// scoreConfigs counts configurations that are translated completely. If KEEP names a directory, it keeps the translations
// there.
func scoreConfigs(peer string, w io.Writer) error {
	dir, err := os.MkdirTemp("", "migrate-")
	if err != nil {
		return err
	}
	if keep := os.Getenv("KEEP"); keep != "" {
		dir = keep
	} else {
		defer os.RemoveAll(dir)
	}
	flowd, err := buildFlowd(dir)
	if err != nil {
		return err
	}
	all, err := translateAll(peer, dir)
	if err != nil {
		return err
	}
	whole, possible := 0, 0
	missing := map[string]int{}
	for _, t := range all {
		if err := t.lint(flowd); err != nil {
			return err
		}
		if t.err == nil && len(t.result.Missing) > 0 {
			for _, name := range t.result.Missing {
				missing[name]++
			}
			continue
		}
		possible++
		if t.complete() {
			whole++
			continue
		}
		fmt.Fprintf(w, "%s (%s)\n", t.name, filepath.Base(t.dir))
		for _, reason := range t.reasons() {
			fmt.Fprintf(w, "    %s\n", reason)
		}
	}
	var names []string
	for name, n := range missing {
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	fmt.Fprintf(w, "components that flowd does not have, by number of configurations: %s\n", strings.Join(names, ", "))
	fmt.Fprintf(w, "configs: %d of %d (%.0f %%) that use only components that flowd has; %d in all\n", whole, possible,
		100*float64(whole)/float64(max(possible, 1)), len(all))
	return nil
}
