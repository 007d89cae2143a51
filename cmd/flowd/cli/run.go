package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/spf13/cobra"
)

// newRun is the command that runs pipelines; it is the root command, too.
func newRun(use string) *cobra.Command {
	var files, set []string
	cmd := &cobra.Command{
		Use:               use,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mistyped(cmd.Root(), args); err != nil {
				return err
			}
			if files = append(files, args...); len(files) == 0 {
				cmd.SetOut(cmd.ErrOrStderr())
				_ = cmd.Help() // it says more than an error would
				return exit(invalid)
			}
			return run(cmd, files, set)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "config", "c", nil, "pipeline `FILE` or directory; may repeat")
	addSet(cmd, &set)
	return cmd
}

func addSet(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVarP(set, "set", "s", nil, "override one value, as `path=value`; may repeat")
}

func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// mistyped finds an argument that is no file but looks like a misspelt command.
func mistyped(root *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.ContainsAny(a, "./\\") {
			continue
		}
		if _, err := os.Stat(a); err == nil {
			continue
		}
		if near := root.SuggestionsFor(a); len(near) > 0 {
			return usage(fmt.Sprintf("%q is neither a file nor a command (did you mean %q?)", a, near[0]))
		}
		return usage(fmt.Sprintf("%q is neither a file nor a command", a))
	}
	return nil
}

func run(cmd *cobra.Command, files, set []string) error {
	con := newConsole(cmd.ErrOrStderr())
	logs := newLogging(con)
	loaded, problems := config.Load(files, config.Options{Set: set, Log: logs.log})
	if err := printProblems(con, problems); err != nil {
		return err
	}
	if n, _ := count(problems); n > 0 {
		return exit(invalid)
	}

	logs.configure(loaded.Service.Log)
	stop, kill, release := signals(cmd.Context(), con)
	defer release()
	if code := runAll(stop, kill, loaded.Pipelines, con); code != clean {
		return exit(code)
	}
	return nil
}

// runAll runs all pipelines at once, reports each when it ends, and returns the
// worst of their exit codes.
func runAll(stop, kill context.Context, pipelines []config.Loaded, con *console) int {
	progress, done := context.WithCancel(context.Background())
	var watch, plans sync.WaitGroup
	if sharesNoTerminal(pipelines) {
		watch.Go(func() { con.progress(progress, pipelines) })
	}

	var mu sync.Mutex // guards worst
	worst := clean
	for _, p := range pipelines {
		plans.Go(func() {
			start := time.Now()
			report := p.Plan.Run(stop, kill)
			con.report(report, time.Since(start))
			mu.Lock()
			defer mu.Unlock()
			worst = worse(worst, report.Code())
		})
	}
	plans.Wait()
	done()
	watch.Wait()
	return worst
}

// worse is the exit code that tells more of two.
func worse(a, b int) int {
	rank := map[int]int{clean: 0, handedBack: 1, failed: 2, invalid: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// sharesNoTerminal says whether the terminal is free for a progress line: no
// pipeline reads from it or writes its data to it.
func sharesNoTerminal(pipelines []config.Loaded) bool {
	for _, p := range pipelines {
		for _, in := range p.Spec.Inputs.All() {
			if in.Use.Name == "stdin" && isTerminal(os.Stdin) {
				return false
			}
		}
		for _, out := range p.Spec.Outputs.All() {
			if out.Use.Name == "stderr" || out.Use.Name == "stdout" && isTerminal(os.Stdout) {
				return false
			}
		}
	}
	return true
}
