package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFilesStaySmall limits Go files to a size that can be read in one go. Tests may be longer,
// as they are mostly tables.
func TestFilesStaySmall(t *testing.T) {
	const limit, testLimit = 500, 900
	err := filepath.WalkDir(repo, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		lines, most := strings.Count(read(t, path), "\n"), limit
		if strings.HasSuffix(path, "_test.go") {
			most = testLimit
		}
		if lines > most {
			t.Errorf("%s has %d lines, want at most %d: move one of its topics to another file", path, lines, most)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinesStayShort limits the length of lines. Struct tags and raw strings are exempt, since they can't be broken.
func TestLinesStayShort(t *testing.T) {
	const most = 140 // characters; a tab counts as one
	err := filepath.WalkDir(repo, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text := read(t, path)
		var unbroken map[int]bool
		n := 0
		for line := range strings.Lines(text) {
			if n++; utf8.RuneCountInString(strings.TrimRight(line, "\n")) <= most {
				continue
			}
			if unbroken == nil {
				unbroken = unbreakable(t, path, text)
			}
			if !unbroken[n] {
				t.Errorf("%s:%d: the line has more than %d characters", path, n, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unbreakable returns the lines with struct tags or parts of raw strings.
func unbreakable(t *testing.T, path, text string) map[int]bool {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag != nil {
				lines[files.Position(n.Tag.Pos()).Line] = true
			}
		case *ast.BasicLit:
			first, last := files.Position(n.Pos()).Line, files.Position(n.End()).Line
			for i := first; i <= last && last > first; i++ {
				lines[i] = true
			}
		}
		return true
	})
	return lines
}
