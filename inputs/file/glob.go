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

// glob is filepath.Glob with {a,b} for alternatives and ** for any number of folders. It returns files, not folders. Below a **
// it follows no links to folders, and finds no hidden files and folders unless the pattern names them. After an error it finds
// the rest. Several alternatives may match a file. Libraries follow all links, even cycles, or none, even before the **. They hide
// errors, or stop at the first.
func glob(pattern string) (found []string, err error) {
	if message, remedy := badPattern(pattern); message != "" {
		return nil, fmt.Errorf("%s (%s)", message, remedy)
	}
	for _, one := range alternatives(pattern) {
		more, failed := globOne(one)
		found, err = append(found, more...), cmp.Or(err, failed)
	}
	return found, err
}

// globOne is glob without {a,b}.
func globOne(pattern string) ([]string, error) {
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
	hidden := namesHidden(after)
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
			if below != "." && !hidden && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
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

// namesHidden reports whether a pattern, or the part of it behind a **, names hidden files or folders.
func namesHidden(pattern string) bool {
	return strings.HasPrefix(pattern, ".") || strings.Contains(pattern, "/.")
}

// maxAlternatives bounds what the braces of a pattern stand for.
const maxAlternatives = 1000

// alternatives returns the patterns that a pattern with {a,b} stands for, at most maxAlternatives+1. Braces may be nested. As in
// a shell, braces without a comma are characters.
func alternatives(pattern string) (all []string) {
	start, end, choices := firstBraces(pattern)
	if choices == nil {
		return []string{pattern}
	}
	for _, choice := range choices {
		all = append(all, alternatives(pattern[:start]+choice+pattern[end:])...)
		if len(all) > maxAlternatives {
			return all[:maxAlternatives+1]
		}
	}
	return all
}

// firstBraces finds the first {a,b} in a pattern. It returns nil if there is none.
func firstBraces(pattern string) (start, end int, choices []string) {
	for start = 0; start < len(pattern); start++ {
		switch pattern[start] {
		case '\\':
			start++
		case '{':
			if end, choices = bracesAt(pattern, start); choices != nil {
				return start, end, choices
			}
		}
	}
	return 0, 0, nil
}

// bracesAt returns the choices of the braces that open at start, and the offset behind them.
func bracesAt(pattern string, start int) (end int, choices []string) {
	depth, from := 0, start+1
	for i := start; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			depth++
		case c == ',' && depth == 1:
			choices, from = append(choices, pattern[from:i]), i+1
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			if choices != nil {
				choices = append(choices, pattern[from:i])
			}
			return i + 1, choices
		}
	}
	return 0, nil
}

// badPattern returns why a pattern is not valid, and what to write instead. An empty message says that it is valid.
func badPattern(pattern string) (message, remedy string) {
	all := alternatives(pattern)
	if len(all) > maxAlternatives {
		return fmt.Sprintf("its braces stand for more than %d patterns", maxAlternatives), "write * in place of some"
	}
	for _, one := range all {
		if message, remedy = badAlternative(one); message != "" {
			break
		}
	}
	return message, remedy
}

func badAlternative(pattern string) (message, remedy string) {
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
		return filepath.Clean(p) == filepath.Clean(path) ||
			slices.ContainsFunc(alternatives(p), func(one string) bool { return matchesOne(one, path) })
	})
}

func matchesOne(pattern, path string) bool {
	before, after, any := strings.Cut(filepath.ToSlash(pattern), "**")
	if !any {
		ok, _ := filepath.Match(pattern, path)
		return ok
	}
	parts := strings.Split(filepath.ToSlash(path), "/")
	front := strings.Count(before, "/")
	after = strings.TrimPrefix(after, "/")
	back := len(parts) - strings.Count(after, "/") - 1
	if back < front || !namesHidden(after) && slices.ContainsFunc(parts[front:], namesHidden) {
		return false
	}
	begins, _ := filepath.Match(strings.TrimSuffix(before, "/"), strings.Join(parts[:front], "/"))
	ends, _ := filepath.Match(cmp.Or(after, "*"), strings.Join(parts[back:], "/"))
	return begins && ends
}

// excludes reports whether one of the patterns of `exclude` matches a path. A pattern without a slash is for the names of files.
func excludes(patterns []string, path string) bool {
	name := filepath.Base(path)
	return matches(patterns, path) || slices.ContainsFunc(patterns, func(p string) bool {
		return !strings.Contains(filepath.ToSlash(p), "/") && matches([]string{p}, name)
	})
}
