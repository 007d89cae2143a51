package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
	"github.com/flowd-io/flowd/internal/operations/tap"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// saving is the file that a tap saves a test to.
type saving struct {
	file, from string // --save, --config
	exists     bool
	pipeline   config.Loaded // of file or, if that does not exist, of from
	records    []observe.Record
	ended      int // messages
}

// prepare checks the flags, and loads the pipeline before the tap begins.
func (s *saving) prepare(con *console, q *tap.Query) error {
	if s.file == "" {
		if s.from != "" {
			return usage("--config is only for --save")
		}
		return nil
	}
	if q.Component != "" || q.Failed {
		return usage("--save needs whole messages, from their input to their end: leave out COMPONENT and --failed")
	}
	from := s.file
	info, err := os.Stat(s.file)
	switch s.exists = err == nil; {
	case s.exists && info.IsDir():
		return usage(s.file + " is a directory: give a pipeline file")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !s.exists && s.from == "":
		return usage(fmt.Sprintf("%s does not exist (give the pipeline file that it begins as: -c FILE)", s.file))
	case !s.exists:
		from = s.from
	case s.from != "":
		return usage(fmt.Sprintf("%s exists, and the test is added to it: leave out --config", s.file))
	}
	loaded, err := load(con, []string{from}, config.Options{Testing: true})
	if err != nil {
		return err
	}
	if len(loaded.Pipelines) != 1 {
		return usage(from + " must be the file of one pipeline")
	}
	s.pipeline = loaded.Pipelines[0]
	if q.Pipeline == "" {
		q.Pipeline = s.pipeline.Spec.Name
	}
	return nil
}

// add keeps a record.
func (s *saving) add(r observe.Record) {
	if s.records = append(s.records, r); r.Kind == engine.EndSpot {
		s.ended++
	}
}

// write adds a test that passes to the file.
func (s *saving) write(cmd *cobra.Command, con *console) error {
	t, left := pipetest.Recorded(s.pipeline.Spec, s.records, tap.MostPayload)
	for _, l := range []struct {
		n   int
		why string
	}{{left.Unended, "the end was not seen"}, {left.TooLarge, "the tap had only a part of the payload"},
		{left.Unsent, "an output failed, and the outputs of a test don't fail"}} {
		if l.n > 0 {
			fmt.Fprintf(con, "left out: %s (%s)\n", plural(l.n, "message"), l.why)
		}
	}
	if len(t.Input) == 0 {
		return fmt.Errorf("%s is unchanged: no message was seen from its input to its end", s.file)
	}
	t.Name = s.name()
	text, err := s.pipeline.WithTest(&t)
	if err != nil {
		return fmt.Errorf("%s: %w", s.pipeline.File, err)
	}
	dir, base := filepath.Split(s.file)
	trial := filepath.Join(dir, "."+base+".saving.yaml") // beside the file, because paths in it are relative to it
	defer os.Remove(trial)
	if text, err = s.pass(cmd, con, trial, text); err != nil {
		return err
	}
	if s.exists {
		err = replaceFile(s.file, text)
	} else {
		err = files.Replace(s.file, []byte(text), 0o644)
	}
	if err == nil {
		fmt.Fprintf(con, "%s: added the test %q with %s\n", s.file, t.Name, plural(len(t.Input), "message"))
	}
	return err
}

// name returns a name that no test of the file has.
func (s *saving) name() string {
	first := time.Now().Format("seen on 2006-01-02 at 15:04:05")
	name := first
	for i := 2; slices.ContainsFunc(s.pipeline.Tests(), func(t config.Test) bool { return t.Name == name }); i++ {
		name = fmt.Sprintf("%s (%d)", first, i)
	}
	return name
}

// pass runs the last test of a file as a trial. If it fails, it expects what the test gives, instead of what was seen. It
// returns the text of the file.
func (s *saving) pass(cmd *cobra.Command, con *console, trial, text string) (string, error) {
	run, err := s.try(cmd, con, trial, text)
	if err != nil || !run.failed() {
		return text, err
	}
	var b strings.Builder
	r := testReport{color: con.color}
	r.differences(&b, run.result.Differences)
	fmt.Fprintf(con, "the test does not give what was seen (-), but this (+):\n%s", b.String())
	update, ok := updateOf(run)
	if !ok {
		return "", fmt.Errorf("%s is unchanged: the test can't pass", s.file)
	}
	if _, text, err = run.pipeline.Rewrite([]config.Update{update}); err != nil {
		return "", err
	}
	if run, err = s.try(cmd, con, trial, text); err != nil {
		return "", err
	}
	if run.failed() {
		b.Reset()
		r.color = false
		r.differences(&b, run.result.Differences)
		return "", fmt.Errorf("%s is unchanged: the test gives something else each time:\n%s", s.file, b.String())
	}
	fmt.Fprintln(con, "the test expects what it gives (times, random values, earlier messages and hidden values can differ)")
	return text, nil
}

// try writes the file of a trial, and runs its last test.
func (s *saving) try(cmd *cobra.Command, con *console, trial, text string) (*testRun, error) {
	if err := files.Replace(trial, []byte(text), 0o600); err != nil {
		return nil, err
	}
	secrets := &schema.Secrets{}
	loaded, err := load(con, []string{trial}, config.Options{Testing: true, Secrets: secrets})
	if err != nil {
		return nil, err
	}
	p := loaded.Pipelines[0]
	last := len(p.Tests()) - 1
	run := &testRun{pipeline: p, test: p.Tests()[last], number: [2]int{0, last}}
	run.result = masked(runWorker(cmd.Context(), run, testOptions{files: []string{trial}, timeout: time.Minute}), secrets)
	return run, nil
}
