// Command texts prints every text that flowd can print, with its place in the source, so that they can be read in one go:
//
//	go run ./test/texts [FOLDER...]
//
// Texts are constant strings of at least two words: messages, descriptions of fields, help. The parts of a concatenation are
// one text. Tests and their helpers are left out.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func main() {
	folders := os.Args[1:]
	if len(folders) == 0 {
		folders = []string{"batchers", "cmd", "config", "engine", "inputs", "internal", "outputs", "processors", "schema"}
	}
	w := bufio.NewWriter(os.Stdout)
	if err := errors.Join(write(w, folders), w.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "texts:", err)
		os.Exit(1)
	}
}

// write writes the texts of all Go files in these folders, a line each.
func write(w io.Writer, folders []string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(forTests, d.Name()):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			texts, err := ofFile(path)
			for _, t := range texts {
				fmt.Fprintf(w, "%s:%d: %s\n", path, t.line, t.text)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forTests are folders whose texts no user sees.
var forTests = []string{"testdata", "testing", "enginetest", "fake"}

type text struct {
	line int
	text string
}

// ofFile returns the texts in a Go file, in order.
func ofFile(path string) (texts []text, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(at token.Pos, s string) {
		if s = strings.Join(strings.Fields(s), " "); strings.Contains(s, " ") {
			texts = append(texts, text{files.Position(at).Line, s})
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag == nil {
				return true
			}
			if tag, err := strconv.Unquote(n.Tag.Value); err == nil {
				add(n.Tag.Pos(), reflect.StructTag(tag).Get("doc"))
			}
			ast.Inspect(n.Type, visit) // a struct's fields have tags, too
			return false
		case ast.Expr:
			if s, ok := constant(n); ok {
				add(n.Pos(), s)
				return false
			}
		}
		return true
	}
	ast.Inspect(f, visit)
	return texts, nil
}

// constant returns what an expression of string literals is. Its parts that are not constant become "…".
func constant(e ast.Expr) (s string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, l := constant(e.X)
		right, r := constant(e.Y)
		if !l && !r {
			return "", false
		}
		if !l {
			left = "…"
		}
		if !r {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}
