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

// ofPeer is a score of a checkout, which a flag names.
func ofPeer(score func(peer string, w io.Writer) error) func([]string, io.Writer) error {
	return func(args []string, w io.Writer) error {
		f := flag.NewFlagSet("migrate", flag.ContinueOnError)
		peer := f.String("peer", "", "directory with a checkout of the other system")
		if err := f.Parse(args); err != nil {
			return err
		}
		if *peer == "" {
			return errors.New("--peer names the checkout to look at")
		}
		return score(*peer, w)
	}
}

// configuration is one of a checkout: a file, or an example in a page.
type configuration struct {
	name string // in the checkout
	file string // where what it names is looked for
	text []byte

	resources []string // files beside it that only define resources
}

// places are where a checkout has configurations that people are meant to read or that are tested.
var places = []string{"config/test", "config/examples", "resources/docker", "website/cookbooks",
	"docs/modules/cookbooks"}

// yamlBlock is a block of YAML in a page.
var yamlBlock = regexp.MustCompile("(?ms)^```ya?ml\\n(.*?)^```$|^\\[source,ya?ml\\]\\n----\\n(.*?)^----$")

// configurations are those of a checkout.
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

// listIn lists the files of a folder of the checkout.
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

// resourcesBeside are the files beside a configuration that only define resources: they are given with -r there.
func resourcesBeside(file string) (names []string) {
	name := filepath.Join(filepath.Dir(file), "resources.yaml")
	if _, err := os.Stat(name); err == nil && name != file && filepath.Ext(file) == ".yaml" {
		names = append(names, "resources.yaml")
	}
	return names
}

// isConfiguration says whether a text is a configuration, not a template or a file of other tools.
func isConfiguration(text []byte) bool {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(text, &top); err != nil {
		// Placeholders may be what makes it no YAML.
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

// translated is a configuration and what became of it.
type translated struct {
	configuration
	result *migrate.Result
	err    error
	peer   string   // the checkout
	dir    string   // where its files are
	files  []string // that were written
	faults []string // that lint finds
}

// translation translates the configurations of a checkout into a directory, one folder for each.
func translation(peer, dir string) ([]*translated, error) {
	found, err := configurations(peer)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has none of %s", peer, strings.Join(places, ", "))
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

// buildFlowd builds the command under test, unless FLOWD names one.
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

// lint finds what is wrong with the files of a translation, other than that the environment is not set.
func (t *translated) lint(flowd string) error {
	for _, file := range t.files {
		if data, err := os.ReadFile(file); err == nil && !bytes.Contains(data, []byte("inputs:")) {
			wrapped := file + ".pipeline.yaml" // resources alone are for others to include
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

// whole says whether everything was translated, and lint is content.
func (t *translated) whole() bool { return t.err == nil && t.result.Whole() && len(t.faults) == 0 }

// reasons are why it is not whole.
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

// configs is the score of configurations that are translated whole. KEEP names a directory that keeps the translations.
func configs(peer string, w io.Writer) error {
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
	all, err := translation(peer, dir)
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
		if t.whole() {
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
