package file

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// glob is filepath.Glob with ** for any number of folders. It returns files, not folders, and follows no links to folders below a
// **. After an error it finds the rest. Libraries follow all links, even cycles, or none, even before the **. They hide errors, or
// stop at the first.
func glob(pattern string) ([]string, error) {
	if message, remedy := badPattern(pattern); message != "" {
		return nil, fmt.Errorf("%s (%s)", message, remedy)
	}
	before, after, any := strings.Cut(filepath.ToSlash(pattern), "**")
	if !any {
		found, err := filepath.Glob(pattern)
		return slices.DeleteFunc(found, isDir), err
	}
	after = cmp.Or(strings.TrimPrefix(after, "/"), "*")
	roots := []string{"."}
	if before != "" {
		var err error
		if roots, err = globDirs(before); err != nil {
			return nil, err
		}
	}
	var found []string
	var failed error
	depth := strings.Count(after, "/") + 1
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil { // the rest is still found
				failed = cmp.Or(failed, err)
				return nil
			}
			below, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			parts := strings.Split(filepath.ToSlash(below), "/")
			if len(parts) < depth || d.IsDir() {
				return nil
			}
			tail := strings.Join(parts[len(parts)-depth:], "/")
			if ok, _ := filepath.Match(after, tail); ok && !isDir(path) {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, failed
}

// badPattern returns why a pattern is not valid, and what to write instead. An empty message says that it is valid.
func badPattern(pattern string) (message, remedy string) {
	before, after, any := strings.Cut(filepath.ToSlash(pattern), "**")
	_, err := filepath.Match(before, "")
	_, err2 := filepath.Match(after, "")
	switch {
	case err != nil || err2 != nil:
		return "is not a valid pattern", `close each [ with a ], or write \[ for one in a name`
	case any && (before != "" && !strings.HasSuffix(before, "/") || after != "" && !strings.HasPrefix(after, "/")):
		return "** must stand alone as a folder", "write a/**/*.log"
	case strings.Contains(after, "**"):
		return "only one ** is allowed", "list the patterns"
	}
	return "", ""
}

// globDirs finds folders. The pattern and the results end with a slash, which resolves links.
func globDirs(pattern string) ([]string, error) {
	if pattern == "/" {
		return []string{"/"}, nil
	}
	found, err := filepath.Glob(strings.TrimSuffix(pattern, "/"))
	var dirs []string
	for _, dir := range found {
		if isDir(dir) {
			dirs = append(dirs, dir+"/")
		}
	}
	return dirs, err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// natural compares paths as people sort them: digits compare as numbers.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if isDigit(x[0]) && isDigit(y[0]) {
			var m, n string
			m, x = number(x)
			n, y = number(y)
			if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
				return c
			}
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// number cuts the digits off the front, and drops leading zeros.
func number(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return strings.TrimLeft(s[:i], "0"), s[i:]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// matches reports whether one of the patterns matches a path.
func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if filepath.Clean(p) == filepath.Clean(path) {
			return true
		}
		before, after, any := strings.Cut(filepath.ToSlash(p), "**")
		if !any {
			ok, _ := filepath.Match(p, path)
			return ok
		}
		parts := strings.Split(filepath.ToSlash(path), "/")
		front := strings.Count(before, "/")
		after = strings.TrimPrefix(after, "/")
		back := len(parts) - strings.Count(after, "/") - 1
		if back < front {
			return false
		}
		begins, _ := filepath.Match(strings.TrimSuffix(before, "/"), strings.Join(parts[:front], "/"))
		ends, _ := filepath.Match(cmp.Or(after, "*"), strings.Join(parts[back:], "/"))
		return begins && ends
	})
}
