package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// newCtlPipelines returns the command that manages pipelines over the API.
func newCtlPipelines(to *service.Target) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipelines COMMAND",
		Short: "List and change pipelines while flowd runs",
		Long: `Pipelines manages the pipelines of a flowd that runs with service.pipelines set to
a directory. Pipelines in files that flowd was started with can be read, started,
stopped and restarted, but not replaced or removed.`,
		Example: `  flowd ctl pipelines ls
  flowd ctl pipelines put orders.yaml           create or replace the pipeline orders
  flowd ctl pipelines stop orders               until it is started, also over restarts of flowd`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	change := func(use, short, done string, do func(*service.Client, *cobra.Command, string) ([]string, error)) *cobra.Command {
		return &cobra.Command{
			Use:     use + " PIPELINE",
			Short:   short,
			Example: "  flowd ctl pipelines " + use + " orders",
			Args:    cobra.ExactArgs(1),
			RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
				on, err := do(c, cmd, args[0])
				return reportDone(cmd, showRefusal(cmd, err), done, on)
			}),
		}
	}
	operate := func(action string) func(*service.Client, *cobra.Command, string) ([]string, error) {
		return func(c *service.Client, cmd *cobra.Command, name string) ([]string, error) {
			return c.OperatePipeline(cmd.Context(), name, action)
		}
	}
	cmd.AddCommand(
		newCtlPipelinesLs(to),
		newCtlPipelinesGet(to),
		newCtlPipelinesPut(to),
		change("rm", "Remove a pipeline; its messages in flight finish", "removed",
			func(c *service.Client, cmd *cobra.Command, name string) ([]string, error) {
				return c.RemovePipeline(cmd.Context(), name)
			}),
		change("start", "Start a pipeline that was stopped, or has ended", "started", operate("start")),
		change("stop", "Finish what is in flight, and stay stopped until a start", "stopping", operate("stop")),
		change("restart", "Close everything that a pipeline has open, and start it again", "restarted", operate("restart")),
	)
	return cmd
}

func newCtlPipelinesLs(to *service.Target) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List all pipelines with their states and files",
		Example: "  flowd ctl pipelines ls",
		Args:    cobra.NoArgs,
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, _ []string) error {
			list, err := c.Pipelines(cmd.Context())
			if err != nil {
				return shownError{err}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "PIPELINE\tSTATE\tMANAGED\tFILE")
			for _, p := range list.Pipelines {
				managed := "no"
				if p.Managed {
					managed = "yes"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", oneLine(p.Name), oneLine(p.State), managed, oneLine(p.File))
			}
			return t.Flush()
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func newCtlPipelinesGet(to *service.Target) *cobra.Command {
	return &cobra.Command{
		Use:     "get PIPELINE",
		Short:   "Write the YAML of a pipeline to stdout",
		Example: "  flowd ctl pipelines get orders > orders.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			text, err := c.Pipeline(cmd.Context(), args[0])
			if err != nil {
				return shownError{err}
			}
			_, err = messages(cmd.OutOrStdout()).Write(text)
			return err
		}),
	}
}

func newCtlPipelinesPut(to *service.Target) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "put FILE",
		Short: "Create or replace a pipeline; nothing changes if it is not valid",
		Long: `Put sends a pipeline file to flowd, which checks it with all other pipelines, saves
it, and runs it. The exit code is 2 if it is not valid.`,
		Example: `  flowd ctl pipelines put orders.yaml
  flowd ctl pipelines put - --name orders < orders.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			file, in := args[0], cmd.InOrStdin()
			if name == "" && file == "-" {
				return usage("a pipeline from stdin needs --name")
			}
			if name == "" {
				name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			}
			if file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			text, err := io.ReadAll(io.LimitReader(in, service.MaxPipeline+1)) // flowd refuses one more
			if err != nil {
				return err
			}
			on, warnings, err := c.PutPipeline(cmd.Context(), name, text)
			if err := showRefusal(cmd, err); err != nil {
				return err
			}
			if err := printProblems(cmd.ErrOrStderr(), problemsOf(warnings)); err != nil {
				return err
			}
			return reportDone(cmd, nil, "saved", on)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the pipeline; by default, of the file")
	return cmd
}

// showRefusal shows the problems of a pipeline that was refused because of them. It returns an exit code as its error.
func showRefusal(cmd *cobra.Command, err error) error {
	refused, ok := errors.AsType[*service.InvalidError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return shownError{err}
	}
	if err := printProblems(cmd.ErrOrStderr(), problemsOf(refused.Problems)); err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), printable(refused.Error()))
	if refused.Status == http.StatusServiceUnavailable {
		return exit(failed)
	}
	return exit(invalid)
}

// problemsOf returns the problems in an answer.
func problemsOf(list []service.Problem) []schema.Problem {
	all := make([]schema.Problem, 0, len(list))
	for _, p := range list {
		all = append(all, schema.Problem{Pos: schema.Pos{File: p.File, Line: p.Line, Col: p.Col}, Path: p.Path, Code: p.Code,
			Message: p.Message, Remedy: p.Remedy, Warning: p.Severity == "warning"})
	}
	return all
}
