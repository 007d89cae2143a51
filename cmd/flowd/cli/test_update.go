package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
)

// updateTests shows the change, and then writes what arrived into the files as what failing tests expect. It returns
// how many tests it has changed.
func updateTests(con *console, runs []*testRun) (updated int, err error) {
	for len(runs) > 0 {
		file, n := runs[0].pipeline.File, 0
		var updates []config.Update
		for ; n < len(runs) && runs[n].pipeline.File == file; n++ {
			if u, ok := updateOf(runs[n]); ok {
				updates = append(updates, u)
			} else if runs[n].failed() {
				fmt.Fprintf(con, "%s: %q can't be updated: what failed is not one of its expectations\n",
					runs[n].place(), runs[n].test.Name)
			}
		}
		if len(updates) > 0 {
			if err := rewrite(con, runs[0].pipeline, updates); err != nil {
				return updated, fmt.Errorf("%s: %w", file, err)
			}
			updated += len(updates)
		}
		runs = runs[n:]
	}
	return updated, nil
}

// updateOf returns what to write so that a failed test passes, if that is possible.
func updateOf(t *testRun) (config.Update, bool) {
	u := config.Update{Test: t.number[1]}
	if !t.failed() {
		return u, false
	}
	outputs := map[string][]config.Batch{}
	for _, d := range t.result.Differences {
		kind, rest, _ := strings.Cut(d.At, " ")
		switch kind, _, _ := strings.Cut(kind, ","); kind {
		case "test":
			for name, writes := range t.result.Came {
				outputs[name] = batches(writes)
			}
			u.Failures = lost(t.result.Failures)
			u.Outputs = outputs
		case "output":
			name := outputNamed(t, rest)
			outputs[name] = batches(t.result.Came[name])
			u.Outputs = outputs
		case "input":
			u.Acks = acks(t)
		case "fates":
			u.Fates = &t.result.Fates
		case "failures":
			u.Failures = lost(t.result.Failures)
			if len(t.test.Failures) > 0 {
				u.Failures = failures(t.result.Failures)
			}
		default:
			return u, false
		}
	}
	return u, true
}

// outputNamed returns the output in "NAME, message 2". A name may contain a comma.
func outputNamed(t *testRun, at string) (name string) {
	for out := range t.pipeline.Spec.Outputs.All() {
		if (at == out || strings.HasPrefix(at, out+", ")) && len(out) > len(name) {
			name = out
		}
	}
	return name
}

func batches(writes []pipetest.Write) []config.Batch {
	all := []config.Batch{}
	for _, w := range writes {
		b := config.Batch{Trigger: string(w.Trigger), Key: w.Key}
		for _, m := range w.Messages {
			came := config.Came{Body: m.Body}
			if m.Err != nil {
				e := expectedError(*m.Err)
				came.Err = &e
			}
			b.Messages = append(b.Messages, came)
		}
		all = append(all, b)
	}
	return all
}

// acks returns the acknowledgements that differ from those of the test, by message, with the fields that the test compares.
func acks(t *testRun) map[int]config.ExpectedAck {
	differs := map[int]config.ExpectedAck{}
	for i, want := range t.test.Acks {
		if got := t.result.Acks[i]; !got.Meets(want) {
			differs[i] = got.Expected(want)
		}
	}
	return differs
}

func failures(came []pipetest.CameFailure) (all []config.ExpectedFailure) {
	for _, f := range came {
		all = append(all, config.ExpectedFailure{ExpectedError: expectedError(f.Failure), Fate: f.Fate, Count: f.Count})
	}
	return all
}

func expectedError(f pipetest.Failure) config.ExpectedError {
	message, _, _ := strings.Cut(f.Message, "\n")
	return config.ExpectedError{Class: string(f.Class), Place: f.Place, Message: message}
}

// lost returns the failures if one of them was not dead-lettered. Otherwise a test need not mention them.
func lost(came []pipetest.CameFailure) []config.ExpectedFailure {
	if slices.ContainsFunc(came, func(f pipetest.CameFailure) bool { return f.Fate != "dead_lettered" }) {
		return failures(came)
	}
	return nil
}

// rewrite shows and makes the change of one file.
func rewrite(con *console, p config.Loaded, updates []config.Update) error {
	before, after, err := p.Rewrite(updates)
	if err != nil || before == after {
		return err
	}
	fmt.Fprintf(con, "%s is rewritten:\n%s", p.File, lineDiff(before, after, con.color))
	return replaceFile(p.File, after)
}

// lineDiff shows the removed and the added lines.
func lineDiff(before, after string, color bool) string {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	var b strings.Builder
	show := func(mark, color_ string, line int, text string) {
		fmt.Fprintf(&b, "%s\n", paint(color, color_,
			fmt.Sprintf("%5d %s %s", line, mark, printable(strings.TrimSuffix(text, "\r")))))
	}
	for _, p := range pipetest.Align(len(old), len(now), func(i, j int) bool { return old[i] == now[j] }) {
		if p.Want >= 0 && p.Got >= 0 && old[p.Want] == now[p.Got] {
			continue
		}
		if p.Want >= 0 {
			show("-", red, p.Want+1, old[p.Want])
		}
		if p.Got >= 0 {
			show("+", green, p.Got+1, now[p.Got])
		}
	}
	return b.String()
}

// replaceFile replaces a file in one step and keeps its permissions. A link stays a link.
func replaceFile(path, text string) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	old, err := os.OpenFile(path, os.O_WRONLY, 0) // fails for a read-only file, which must not be replaced
	if err != nil {
		return err
	}
	info, err := old.Stat()
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	return files.Replace(path, []byte(text), info.Mode().Perm())
}
