package engine

import (
	"path/filepath"
	"strings"
)

// Reads are the files and directories from which a process reads its configuration and its secrets. A nil Reads is empty.
// Reads are safe for concurrent use.
type Reads struct{ paths []path }

type path struct{ name, form string } // the path as it was given, and its absolute form

// ReadFrom makes Reads of paths. A path that ends with a slash is a directory, and stands for its files whose names end in
// .yaml or .yml.
func ReadFrom(paths []string) *Reads {
	r := &Reads{}
	for _, name := range paths {
		for _, form := range forms(name) {
			r.paths = append(r.paths, path{name, form})
		}
	}
	return r
}

// Meet returns the first of these files that a path may name. If whole is false, path is only the beginning of a path that
// messages complete.
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
	if !inside || !strings.HasSuffix(read, "/") || strings.Contains(rest, "/") { // directories inside it are not read
		return false
	}
	ext := filepath.Ext(rest)
	return !whole || ext == ".yaml" || ext == ".yml"
}

// forms are the absolute forms of a path: as it is written, with links to its directory resolved, and with all links
// resolved. A slash at the end is kept.
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
