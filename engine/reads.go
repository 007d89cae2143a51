package engine

import (
	"path/filepath"
	"strings"
)

// Reads are the files and directories from which a process reads what it does, and its
// secrets. The nil Reads are none. They are safe for concurrent use.
type Reads struct{ paths []path }

type path struct{ name, form string } // as it was given, and what it is

// ReadFrom makes Reads of paths; one that ends with a slash is a directory, in which
// every file counts that ends in .yaml or .yml.
func ReadFrom(paths []string) *Reads {
	r := &Reads{}
	for _, name := range paths {
		for _, form := range forms(name) {
			r.paths = append(r.paths, path{name, form})
		}
	}
	return r
}

// Meet is the first of these that a path may be: one that is whole, or one that begins
// like this and that messages have a part in.
func (r *Reads) Meet(path string, whole bool) (name string, ok bool) {
	if r == nil {
		return "", false
	}
	for _, own := range forms(path) {
		for _, read := range r.paths {
			if meets(own, read.form, whole) {
				return read.name, true
			}
		}
	}
	return "", false
}

func meets(own, read string, whole bool) bool {
	if own == read || !whole && strings.HasPrefix(read, own) {
		return true
	}
	rest, inside := strings.CutPrefix(own, read)
	if !inside || !strings.HasSuffix(read, "/") || strings.Contains(rest, "/") { // folders in it are not read
		return false
	}
	ext := filepath.Ext(rest)
	return !whole || ext == ".yaml" || ext == ".yml"
}

// forms are what a path is from the root on: as it is written, with its folder behind
// links, and itself behind them. One that ends with a slash keeps it.
func forms(path string) []string {
	dir, base := filepath.Split(path)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	slashed := func(dir, base string) string { return strings.TrimSuffix(dir, "/") + "/" + base }
	all := []string{slashed(dir, base)}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		all = append(all, slashed(real, base))
	}
	if real, err := filepath.EvalSymlinks(slashed(dir, base)); err == nil && base != "" && real != all[len(all)-1] {
		all = append(all, real)
	}
	return all
}
