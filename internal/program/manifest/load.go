package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

// File is the name of manifests.
const File = "plugin.yaml"

// Dir is a folder with a manifest, or a folder of such folders.
type Dir struct {
	Path string
	At   schema.Place // where it is named in a pipeline file; zero: on the command line
}

// Set has the manifests that Load has found.
type Set struct {
	Files  []string          // their paths
	Prints map[string]string // by the name of a type: a text that changes with its manifest
}

// Load reads manifests and registers their types, in place of those that it registered before under the same names. It
// reports all problems. It starts no program. It is safe for concurrent use, except that of several calls with different
// manifests for a name any may be the last.
func Load(dirs []Dir) (Set, []schema.Problem) {
	l := loader{Set: Set{Prints: map[string]string{}}, from: map[string]string{}, seen: map[string]bool{}}
	for _, d := range dirs {
		l.dir(d)
	}
	return l.Set, l.problems
}

type loader struct {
	Set
	from     map[string]string // by kind and name of a type: its manifest
	seen     map[string]bool   // absolute paths of manifests
	problems []schema.Problem
}

// dir reads the manifest of a folder, or those of the folders in it.
func (l *loader) dir(d Dir) {
	if file := filepath.Join(d.Path, File); isFile(file) {
		l.file(d, file)
		return
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		l.refuse(d, describeError(d.Path, err), "give a folder with a "+File+", or one that contains such folders")
		return
	}
	found := false
	for _, e := range entries {
		if file := filepath.Join(d.Path, e.Name(), File); isFile(file) {
			found = true
			l.file(d, file)
		}
	}
	if !found {
		l.refuse(d, fmt.Sprintf("neither %s nor a folder in it has a %s", d.Path, File), "flowd plugin new --lang python step NAME writes one")
	}
}

func describeError(path string, err error) string {
	switch e, ok := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no folder " + path
	case ok:
		return path + ": " + e.Err.Error()
	}
	return err.Error()
}

// Is reports whether a YAML file is a manifest, and not a pipeline that has the file name of manifests.
func Is(path string, root *schema.Node) bool {
	return filepath.Base(path) == File && root.Find("kind") != nil && root.Find("inputs") == nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// refuse reports a problem with a folder.
func (l *loader) refuse(d Dir, message, remedy string) {
	if d.At.Node == nil {
		d.At.Path = "--plugins"
	}
	l.problems = append(l.problems, d.At.Problem(schema.Problem{Code: "no-file", Message: message, Remedy: remedy}))
}

// file reads a manifest.
func (l *loader) file(d Dir, file string) {
	if abs, err := filepath.Abs(file); err == nil {
		if l.seen[abs] {
			return
		}
		l.seen[abs] = true
	}
	l.Files = append(l.Files, file)
	text, err := os.ReadFile(file)
	if err != nil {
		l.refuse(d, describeError(file, err), "give this user permission to read it")
		return
	}
	if len(text) > yamltext.MaxFile {
		l.refuse(d, file+" is too large", "")
		return
	}
	m := read(file, text, func(m *manifest) string { return l.from[m.Kind+" "+m.Name] },
		func(p ...schema.Problem) { l.problems = append(l.problems, p...) })
	if m == nil {
		return
	}
	l.from[m.Kind+" "+m.Name] = file
	sum := sha256.Sum256(text)
	l.Prints[m.Name] += m.folder + " " + hex.EncodeToString(sum[:]) + "\n"
}
