package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// testOptions are the flags of `flowd test`.
type testOptions struct {
	files, set []string
	plugins    []string
	run        string
	json       bool
	junit      string
	update     bool
	allowEmpty bool
	timeout    time.Duration
	worker     string // "" or, in a worker process, its test as "file:test"
}

func newTest() *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test [-c] FILE...",
		Short: "Run the tests of pipeline files",
		Long: `Test runs the section "tests" of each file on the real engine, in virtual time.
Inputs and outputs are not built, and nothing is sent anywhere except by steps that
no test mocks. Placeholders that only inputs and outputs use need no value.

Exit codes: 0 all passed; 1 a test failed; 2 invalid configuration or usage, or
no tests.`,
		Example: `  flowd test orders.yaml
  flowd test pipelines/ --run 'errors' --junit report.xml
  flowd test orders.yaml --update           rewrite what failing tests expect with what arrived`,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.files = append(o.files, args...); len(o.files) == 0 {
				return usage("no pipeline file is given")
			}
			if o.worker != "" {
				return testWorker(cmd, o)
			}
			return test(cmd, o)
		},
	}
	f := cmd.Flags()
	addFiles(cmd, &o.files)
	addSet(cmd, &o.set)
	addPlugins(cmd, &o.plugins)
	f.StringVar(&o.run, "run", "", "run only tests whose name matches the regular `EXPRESSION`")
	addJSON(cmd, &o.json)
	f.StringVar(&o.junit, "junit", "", "write a report in JUnit XML to `FILE`")
	f.BoolVar(&o.update, "update", false, "rewrite what failing tests expect with what arrived")
	f.BoolVar(&o.allowEmpty, "allow-empty", false, "pass when there is no test at all")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "real time that one test may take")
	f.StringVar(&o.worker, "worker", "", "")
	_ = f.MarkHidden("worker")
	return cmd
}

// testRun is a test and its outcome.
type testRun struct {
	pipeline config.Loaded
	test     config.Test
	number   [2]int // of the pipeline, and of the test in it
	result   pipetest.Result
	took     time.Duration // real time
	done     chan struct{} // closed when the fields above are set
}

func (t *testRun) failed() bool { return len(t.result.Differences) > 0 }

func test(cmd *cobra.Command, o testOptions) error {
	con := newConsole(cmd.ErrOrStderr())
	only, err := regexp.Compile(o.run)
	switch {
	case err != nil:
		return usage(fmt.Sprintf("--run: %v", err))
	case o.update && len(o.set) > 0:
		return usage("--update and --set exclude each other: the file would expect the results of the override")
	case o.timeout <= 0:
		return usage("--timeout must be more than 0")
	}
	secrets := &schema.Secrets{}
	loaded, err := load(con, o.files, config.Options{Set: o.set, Plugins: o.plugins, Testing: true, Secrets: secrets})
	if err != nil {
		return err
	}

	var runs []*testRun
	tests := 0
	for i, p := range loaded.Pipelines {
		for j, t := range p.Tests() {
			if tests++; only.MatchString(t.Name) {
				runs = append(runs, &testRun{pipeline: p, test: t, number: [2]int{i, j}, done: make(chan struct{})})
			}
		}
		if len(p.Tests()) == 0 {
			fmt.Fprintf(con, "%s: no tests\n", p.File)
		}
	}
	switch {
	case tests == 0 && !o.allowEmpty:
		fmt.Fprintf(con,
			"there is no test to run (write the section `tests`: flowd docs testing; or give --allow-empty)\n")
		return exit(invalid)
	case tests > 0 && len(runs) == 0:
		return usage(fmt.Sprintf("--run: none of the %s matches", plural(tests, "test")))
	}

	began := time.Now()
	wait := startTests(cmd.Context(), runs, o, secrets)
	defer wait()
	r := testReport{out: cmd.OutOrStdout(), color: colored(cmd.OutOrStdout()), quiet: o.json}
	for _, t := range runs {
		<-t.done
		if err := r.add(t); err != nil {
			return err
		}
	}
	fmt.Fprintf(con, "%s: %d passed, %d failed in %s\n", plural(len(runs), "test"), len(runs)-r.failed, r.failed,
		seconds(time.Since(began)))
	return errors.Join(r.finish(o), conclude(con, r, o))
}

// conclude returns the exit code, after an update has been written.
func conclude(con *console, r testReport, o testOptions) error {
	left := r.failed
	if o.update && left > 0 {
		updated, err := updateTests(con, r.runs)
		if err != nil {
			return err
		}
		left -= updated
	}
	if left > 0 {
		return exit(failed)
	}
	return nil
}

// startTests runs each test in its own process, as many at once as there are processors. wait waits until all have
// ended.
func startTests(ctx context.Context, runs []*testRun, o testOptions, secrets *schema.Secrets) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan *testRun, len(runs))
	for _, t := range runs {
		next <- t
	}
	close(next)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for t := range next {
				began := time.Now()
				t.result = masked(runWorker(ctx, t, o), secrets)
				t.took = time.Since(began)
				close(t.done)
			}
		})
	}
	return func() {
		cancel() // after a failed write nobody waits for the rest
		workers.Wait()
	}
}
