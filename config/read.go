package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/internal/program/manifest"
	"github.com/flowd-io/flowd/schema"
)

// read finds and parses all files.
func (l *loader) read(paths []string) {
	if c := l.options.change; c != nil {
		for _, s := range c.set.sources {
			if !s.managed {
				l.readsGiven(s.path)
				l.parse(s)
			}
		}
		return
	}
	if len(paths) == 0 {
		l.report(schema.Problem{Code: "no-file", Message: "no pipeline file is given",
			Remedy: "name one: flowd -c pipeline.yaml"})
	}
	seen := map[string]bool{}
	for _, given := range paths {
		l.readsGiven(given)
		for _, path := range l.expand(given) {
			abs, err := filepath.Abs(path)
			if err != nil || !seen[abs] {
				l.readsGiven(path) // a link in the directory may lead out of it
				l.readFile(path, false)
			}
			seen[abs] = true
		}
	}
}

func (l *loader) readFile(path string, managed bool) {
	data, err := readCapped(path, yamltext.MaxFile+1)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	l.parse(source{path, data, managed})
}

// parse parses the text of a file.
func (l *loader) parse(s source) {
	l.sources = append(l.sources, s)
	path, data := s.path, s.text
	root, problems := yamltext.Parse(path, data)
	p, foreign := schema.Problem{}, false
	if root == nil {
		p, foreign = foreignText(path, data)
	} else {
		p, foreign = foreignRoot(path, root)
	}
	if foreign {
		l.report(p)
		l.torn = true // other files may name what this one was meant to contain
		return
	}
	if root != nil && manifest.Is(path, root) {
		l.options.Plugins = append(slices.Clip(l.options.Plugins), filepath.Dir(path)) // which reports its problems
		return
	}
	l.report(problems...)
	if root != nil {
		l.files = append(l.files, &file{path: path, root: root, managed: s.managed})
		return
	}
	if p = problems[0]; p.Code == "yaml-syntax" {
		root, cuts, more := yamltext.Salvage(path, data, p.Pos.Line)
		l.report(more...)
		if root != nil {
			l.parts = append(l.parts, &file{path: path, root: root, cuts: cuts, managed: s.managed})
		}
	}
}

// expand returns the file that a path names or, for a directory, its pipeline files.
func (l *loader) expand(path string) []string {
	info, err := os.Stat(path)
	switch {
	case path == "-":
		l.report(schema.Problem{Pos: schema.Pos{File: path}, Code: "no-file",
			Message: "a pipeline can't be read from stdin", Remedy: "write it to a file"})
		return nil
	case err != nil:
		l.unreadable(path, err)
		return nil
	case !info.IsDir():
		return []string{path}
	}
	files, err := pipelineFiles(path)
	if err != nil {
		l.unreadable(path, err)
		return nil
	}
	if len(files) == 0 {
		l.report(schema.Problem{Pos: schema.Pos{File: path}, Code: "no-file",
			Message: "the directory contains no pipeline",
			Remedy:  "put files that end in .yaml or .yml into it; subdirectories are not searched"})
	}
	return files
}

// pipelineFiles returns the pipeline files of a directory by name. It does not search subdirectories.
func pipelineFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		// Stat follows links. A broken link counts as a file that can't be read.
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			continue
		}
		files = append(files, file)
	}
	return files, err
}

// unreadable reports a file that can't be opened or read.
func (l *loader) unreadable(path string, err error) { l.report(unreadableBecause(path, err)) }

func unreadableBecause(path string, err error) schema.Problem {
	p := schema.Problem{Pos: schema.Pos{File: path}, Code: "no-file"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Message, p.Remedy = "there is no such file", "check the path"
		if near := neighbour(path); near != "" {
			p.Remedy = fmt.Sprintf("did you mean %q?", near)
		}
	case errors.Is(err, fs.ErrPermission):
		p.Message, p.Remedy = "permission denied", "give this user permission to read it"
	default:
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the problem has the path already
		}
		p.Message, p.Remedy = err.Error(), "give a file or a directory that can be read"
	}
	return p
}

// neighbour returns the file that a misspelt path probably means, or "".
func neighbour(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	base := filepath.Base(path)
	for _, ext := range []string{".yaml", ".yml"} {
		if _, err := os.Stat(path + ext); err == nil {
			return path + ext
		}
	}
	if near := schema.Nearest(base, names); near != "" {
		return filepath.Join(filepath.Dir(path), near)
	}
	return ""
}

// readCapped reads at most limit bytes of a file.
func readCapped(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return io.ReadAll(io.LimitReader(f, limit))
}
