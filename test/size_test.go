package test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
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
