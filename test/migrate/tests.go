package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// scoreTests counts embedded tests that pass after translation.
func scoreTests(peer string, w io.Writer) error {
	dir, err := os.MkdirTemp("", "migrate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	flowd, err := buildFlowd(dir)
	if err != nil {
		return err
	}
	all, err := translateAll(peer, dir)
	if err != nil {
		return err
	}
	passed, possible, cases := 0, 0, 0
	for _, t := range all {
		if t.err != nil || t.result.Tests.Of == 0 {
			continue
		}
		cases += t.result.Tests.Of
		if len(t.result.Missing) > 0 {
			continue
		}
		possible += t.result.Tests.Of
		good := 0
		var reasons []string
		for _, file := range t.files {
			n, why, err := runTests(flowd, file, peer)
			if err != nil {
				return err
			}
			good += n
			reasons = append(reasons, why...)
		}
		passed += good
		if good == t.result.Tests.Of {
			continue
		}
		fmt.Fprintf(w, "%s: %d of %d\n", t.name, good, t.result.Tests.Of)
		for _, reason := range append(t.reasons(), reasons...) {
			fmt.Fprintf(w, "    %s\n", reason)
		}
	}
	fmt.Fprintf(w, "tests: %d of %d (%.0f %%) of configurations that use only components that flowd has; %d in all\n",
		passed, possible, 100*float64(passed)/float64(max(possible, 1)), cases)
	return nil
}

// runTests runs the tests of a file. It returns how many pass, and why others fail.
func runTests(flowd, file, dir string) (passed int, why []string, err error) {
	cmd := exec.Command(flowd, "test", "--json", "--allow-empty", file)
	cmd.Dir = dir
	var note strings.Builder
	cmd.Stderr = &note
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return 0, nil, err
	}
	var report struct {
		Passed int
		Tests  []struct {
			Name        string
			Passed      bool
			Differences json.RawMessage
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, []string{filepath.Base(file) + ": " + strings.TrimSpace(note.String())}, nil
	}
	for _, t := range report.Tests {
		if !t.Passed {
			why = append(why, fmt.Sprintf("%s: %s: %s", filepath.Base(file), t.Name, t.Differences))
		}
	}
	return report.Passed, why, nil
}
