// Package cli is the command line of flowd, one file per command. Start at [Main]. Builds with plugins of
// their own call it, too.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// Main runs the command in os.Args and exits with its code: 0 clean; 1 the run failed; 2 invalid configuration or
// usage; 3 drained, but some messages were handed back unfinished or were not acknowledged. It imports no plugin: the
// caller's blank imports decide which ones the build has.
func Main() {
	explainMissing()
	log.SetOutput(io.Discard) // discards lines of libraries; commands with a log set this again
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes. Of several pipelines the worst counts, in this order: clean, handedBack, failed, invalid.
const (
	clean      = 0
	failed     = 1
	invalid    = 2
	handedBack = 3
)

// exit ends a command with a code, after the command has said why.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// runE implements a command; its type is the one that cobra expects.
type runE = func(cmd *cobra.Command, args []string) error

// usage is a mistake in the command line that cobra can't detect.
type usage string

func (u usage) Error() string { return string(u) }

// execute runs one command line. When ctx ends, a running command drains.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out, errs := newScreen(stdout), newScreen(stderr)
	defer out.Close()
	defer errs.Close()
	root := newRoot(out, errs)
	root.SetArgs(args)
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	cmd, err := root.ExecuteContextC(ctx)

	var code exit
	var wrong usage
	switch {
	case err == nil:
		return clean
	case errors.As(err, &code):
		return int(code)
	case understood && !errors.As(err, &wrong):
		reportError(cmd, errs, err, "")
		return failed
	}
	reportError(cmd, errs, err, fmt.Sprintf("Run '%s --help' to see its arguments and flags.", cmd.CommandPath()))
	return invalid
}

// reportError writes why a command has failed, in the format of --log-format if the command has this flag.
func reportError(cmd *cobra.Command, w io.Writer, err error, hint string) {
	con := newConsole(w)
	if f := cmd.Flags().Lookup(formatFlag); f != nil {
		newLogging(con, nil, logFlags{format: oneOf{value: f.Value.String()}})
	}
	if con.record(slog.LevelError, err.Error(), slog.String("hint", hint)) {
		return
	}
	fmt.Fprintf(con, "flowd: %v\n", err)
	if hint != "" {
		fmt.Fprintln(con, hint)
	}
}

// Command returns the command line, for manual pages and completions.
func Command(stdout, stderr io.Writer) *cobra.Command { return newRoot(stdout, stderr) }

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := newRun("flowd [-c] FILE...")
	root.Short = "Run pipelines written as YAML files"
	root.Long = `flowd reads, processes and writes messages, as a YAML file describes.

Files and directories may be given several times; all their pipelines run in
this process. SIGTERM or SIGINT drains: messages in flight are finished first.
A second signal stops at once.

Exit codes: 0 clean; 1 the run failed; 2 invalid configuration or usage;
3 drained, but some messages were returned unfinished, or not acknowledged.`
	root.Example = `  flowd -c orders.yaml                              run a pipeline
  flowd -c pipelines/ -s engine.workers=4           run a directory, override a value
  flowd lint orders.yaml                            show every problem at once
  flowd docs file                                   show the settings of a component`
	root.Version = version().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SuggestionsMinimumDistance = 2
	root.SetOut(stdout)
	root.SetErr(stderr)

	run := newRun("run [-c] FILE...")
	run.Short = "Run pipelines: the same as flowd -c FILE..."
	run.Example = "  flowd run orders.yaml"
	root.AddCommand(
		run, newLint(), newFmt(), newNew(), newGraph(), newList(), newDocs(), newSchema(),
		newTest(), newTry(), newEval(), newSimulate(),
		newCtl(), newTop(), newTap(), newTrace(), newMCP(),
		newQueue(), newDlq(),
		newMigrate(), newWorker(), newPool(), newBuild(), newPlugin(), newProgram(), newVersion())
	root.SetHelpCommand(newHelp())
	complete(root)
	return root
}

// newHelp returns `flowd help`. It suggests a name for a misspelt command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does and its arguments",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string,
			_ cobra.ShellCompDirective) {
			if of, rest, _ := cmd.Root().Find(args); len(rest) == 0 {
				for _, c := range of.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				return needsCommand(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// complete lets shells complete file names only where the command expects files.
func complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // commands without these flags return an error
	_ = cmd.RegisterFlagCompletionFunc("set", cobra.NoFileCompletions)
	for _, c := range cmd.Commands() {
		complete(c)
	}
}

// needsCommand runs a command that only groups others: it shows help, or rejects an unknown name.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(cmd.ErrOrStderr())
		_ = cmd.Help()
		return exit(invalid)
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	remedy := "there are " + strings.Join(names, ", ")
	if near := schema.Nearest(args[0], names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	return usage(fmt.Sprintf("%s has no command %q (%s)", cmd.Name(), args[0], remedy))
}
