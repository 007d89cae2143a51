package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/controls"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// place is where files may be. A path without data may be anywhere; paths with data are confined to one folder.
type place struct {
	literal string // the whole path, or the part before data
	dir     string // the folder of that, with a slash at its end
	data    bool   // paths are made of data
	reads   *engine.Reads
	root    *os.Root // of dir; it does not follow links that lead out of it
}

func newPlace(path *expr.Template, reads *engine.Reads) *place {
	literal, constant := path.Const()
	if !constant {
		literal = path.Prefix()
	}
	return &place{literal: literal, dir: literal[:strings.LastIndexByte(literal, '/')+1], data: !constant, reads: reads}
}

// meets returns an error if a path may lead to flowd's configuration: messages could then control flowd.
func (p *place) meets() error {
	if name, ok := p.reads.Meet(p.literal, !p.data); ok {
		return engine.Errorf(engine.Permanent,
			"path: messages could change %s, from which flowd reads its configuration (write to a separate folder)",
			name)
	}
	return nil
}

func (p *place) open() error {
	if p.data {
		if err := p.openRoot(); err != nil {
			return err
		}
	}
	return p.meets() // links may have changed since it was built
}

func (p *place) openRoot() (err error) {
	if err = os.MkdirAll(p.dir, dirMode); err != nil {
		return explain(p.dir, err)
	}
	if p.root, err = os.OpenRoot(p.dir); err != nil {
		return explain(p.dir, err)
	}
	return nil
}

// renew opens the folder again if its path now names another one, or none.
func (p *place) renew() error {
	if !p.data {
		return nil
	}
	if p.root != nil {
		open, err := p.root.Stat(".")
		if now, gone := os.Stat(p.dir); err == nil && gone == nil && os.SameFile(open, now) {
			return nil
		}
		_ = p.root.Close()
		p.root = nil
	}
	return p.open()
}

func (p *place) close() error {
	if p.root == nil {
		return nil
	}
	return p.root.Close()
}

// maxFolders bounds the folders that data may name below the literal one.
const maxFolders = 32

// allows returns why data must not lead to a path, or nil.
func (p *place) allows(path string) error {
	rest := path[len(p.dir):]
	switch {
	case strings.Count(rest, "/") > maxFolders:
		return fmt.Errorf("path %q… has %d folders below %q, and data may name at most %d",
			path[:len(p.dir)+min(len(rest), 64)], strings.Count(rest, "/"), p.dir, maxFolders)
	case controls.In(rest) != "":
		return fmt.Errorf("path %q %s", path, controls.In(rest))
	case rest == "" || strings.HasSuffix(rest, "/"):
		return fmt.Errorf("path %q has no file name", path)
	case strings.HasPrefix(rest, "/"):
		return fmt.Errorf("path %q is absolute because of its data, which is not allowed (write the folder literally in front)", path)
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == ".." {
			return fmt.Errorf("path %q leads out of its folder", path)
		}
	}
	return nil
}

// openFile opens a file, and creates the folders that it is in.
func (p *place) openFile(path string, flags int) (*os.File, error) {
	open := func() (*os.File, error) { return os.OpenFile(path, flags, fileMode) }
	mkdir := func() error { return os.MkdirAll(filepath.Dir(path), dirMode) }
	if p.root != nil {
		name := path[len(p.dir):]
		open = func() (*os.File, error) { return p.root.OpenFile(name, flags, fileMode) }
		mkdir = func() error { return p.root.MkdirAll(filepath.Dir(name), dirMode) }
	}
	f, err := open()
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := mkdir(); err != nil {
		return nil, err
	}
	return open()
}

func (p *place) stat(path string) (fs.FileInfo, error) {
	if p.root != nil {
		return p.root.Stat(path[len(p.dir):])
	}
	return os.Stat(path)
}

func (p *place) rename(from, to string) error {
	if p.root != nil {
		return p.root.Rename(from[len(p.dir):], to[len(p.dir):])
	}
	return os.Rename(from, to)
}

func (p *place) remove(path string) error {
	if p.root != nil {
		return p.root.Remove(path[len(p.dir):])
	}
	return os.Remove(path)
}

// full returns the paths of the full files of a path, the oldest first.
func (p *place) full(path string) (all []string, err error) {
	dir, stem, ext := parts(path)
	open := func() (*os.File, error) { return os.Open(cmp.Or(dir, ".")) }
	if p.root != nil {
		open = func() (*os.File, error) { return p.root.Open(cmp.Or(dir[len(p.dir):], ".")) }
	}
	d, err := open()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	type file struct {
		path string
		at   time.Time
		n    int
	}
	var files []file
	for _, name := range names {
		if at, n, ok := stampOf(name, stem, ext); ok {
			files = append(files, file{dir + name, at, n})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.at.Compare(b.at), a.n-b.n) })
	for _, f := range files {
		all = append(all, f.path)
	}
	return all, err
}

// unused returns a name for a full file that no other file has.
func (p *place) unused(path string, now time.Time) string {
	for n := 0; ; n++ {
		name := stamped(path, now, n)
		if _, err := p.stat(name); err != nil {
			return name
		}
	}
}
