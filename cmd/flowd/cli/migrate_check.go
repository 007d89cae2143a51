//go:build !no_migrate && (!slim || migrate)

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/schema"
)

// expected are the lint codes that a good translation may have: untranslated parts, and what depends on the
// environment and the other files of where it will run.
var expected = map[string]bool{"untranslated": true, "unresolved-placeholder": true, "open-pipe": true}

// check lints what was written. An error is a mistake in the translation or in the original configuration.
func (m *migrated) check() error {
	dir, err := os.MkdirTemp("", "flowd-migrate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, name := range m.Written {
		problems, err := lintWritten(dir, name, m.Outputs[i].Text)
		if err != nil {
			return err
		}
		m.Refused = append(m.Refused, service.ProblemsOf(problems)...)
	}
	return nil
}

// lintWritten lints a file that was written, or the text that went to standard output.
func lintWritten(dir, name string, text []byte) (found []schema.Problem, err error) {
	file := name
	if name == toStdout {
		file = filepath.Join(dir, "flowd.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	}
	given := file
	if !bytes.HasPrefix(text, []byte("inputs:")) && !bytes.Contains(text, []byte("\ninputs:")) {
		if given, err = including(dir, file); err != nil {
			return nil, err
		}
	}
	_, problems := config.Load([]string{given}, config.Options{})
	for _, p := range problems {
		if p.Warning || expected[p.Code] || given != file && p.Pos.File == given {
			continue
		}
		p.Pos.File = name
		found = append(found, p)
	}
	return found, nil
}

// including writes a pipeline that includes a file of resources, which is not a pipeline by itself.
func including(dir, file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	given := filepath.Join(dir, "includes.yaml")
	text := fmt.Sprintf("include: '%s'\ninputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\n",
		strings.ReplaceAll(path, "'", "''"))
	return given, os.WriteFile(given, []byte(text), 0o600)
}
