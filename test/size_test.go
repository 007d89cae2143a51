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

// TestFilesStaySmall holds Go files to a size that can be read in one go. Tests,
// which are tables for the most part, may be longer.
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
			t.Errorf("%s has %d lines, more than %d: what in it is an idea of its own?", path, lines, most)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinesStayShort holds lines of code to what fits beside another file. Struct tags and the lines of a text in
// backquotes can't be broken.
func TestLinesStayShort(t *testing.T) {
	const most = 140 // characters, of which a tab is one
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

// unbreakable are the lines of struct tags, and of literals that reach over several lines.
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
