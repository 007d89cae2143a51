package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newCtl returns the command that controls a running flowd.
func newCtl() *cobra.Command {
	var to service.Target
	cmd := &cobra.Command{
		Use:   "ctl COMMAND",
		Short: "Inspect a running flowd and control it",
		Long: `Ctl sends requests to a flowd that runs with service.listen set. Commands that
change something or show data need the token, which flowd keeps in a file that
only its user can read. For that user, ctl finds it by the port.`,
		Example: `  flowd ctl state                          what all pipelines are doing
  flowd ctl pause orders                   stop reading
  flowd ctl limit "input web" 500/1s       change a rate limit
  flowd ctl push orders < messages.jsonl   send messages into a pipeline
  flowd ctl ready                          exit code 0 if it is ready, for probes`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	addTarget(cmd.PersistentFlags(), &to)
	cmd.AddCommand(
		newCtlState(&to),
		newCtlHealth(&to, "live", "Check that all loops, steps and writes keep their deadlines"),
		newCtlHealth(&to, "ready", "Check that all outputs and inputs work"),
		newCtlChange(&to, "pause", "Make inputs stop reading", "paused", (*service.Client).Pause),
		newCtlChange(&to, "resume", "Make inputs read again", "resumed", (*service.Client).Resume),
		newCtlChange(&to, "drain", "Finish what is in flight, and stay up", "draining", (*service.Client).Drain),
		newCtlReload(&to),
		newCtlLimit(&to),
		newCtlPush(&to),
		newCtlPipelines(&to),
		newCtlProfile(&to),
	)
	return cmd
}

// addTarget adds the flags that say where a running flowd listens.
func addTarget(f *pflag.FlagSet, to *service.Target) {
	f.StringVar(&to.Addr, "addr", "127.0.0.1:9600", "`ADDRESS` of service.listen; with https:// in front if it has TLS")
	addAccess(f, to)
}

// addAccess adds the flags that say how to be let in.
func addAccess(f *pflag.FlagSet, to *service.Target) {
	f.StringVar(&to.TokenFile, "token-file", "", "`FILE` with the token, if service.token_file is set")
	f.StringVar(&to.CA, "ca", "", "PEM `FILE` of the certificates to trust instead of the system's")
	f.StringVar(&to.Cert, "cert", "", "PEM `FILE` of the certificate to present, if service.tls.client_ca is set")
	f.StringVar(&to.Key, "key", "", "PEM `FILE` of its private key")
}

// newCtlChange returns a command that changes one pipeline or all.
func newCtlChange(to *service.Target, name, short, done string,
	do func(*service.Client, context.Context, string) ([]string, error)) *cobra.Command {
	return &cobra.Command{
		Use:     name + " [PIPELINE]",
		Short:   short,
		Example: fmt.Sprintf("  flowd ctl %s               all pipelines\n  flowd ctl %[1]s orders", name),
		Args:    cobra.MaximumNArgs(1),

		ValidArgsFunction: completePipelines(to),
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			pipeline := ""
			if len(args) > 0 {
				if pipeline = args[0]; pipeline == "" { // a script's unset variable does not mean all
					return usage("the name of the pipeline is empty (leave it out to mean all)")
				}
			}
			on, err := do(c, cmd.Context(), pipeline)
			return reportDone(cmd, err, done, on)
		}),
	}
}

func newCtlReload(to *service.Target) *cobra.Command {
	return &cobra.Command{
		Use:     "reload",
		Short:   "Read the pipeline files again; nothing changes if they have an error",
		Example: "  flowd ctl reload",
		Args:    cobra.NoArgs,
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, _ []string) error {
			on, err := c.Reload(cmd.Context())
			if err := showRefusal(cmd, err); err != nil {
				return err
			}
			return reportDone(cmd, nil, "reloaded", on)
		}),
	}
}

func newCtlLimit(to *service.Target) *cobra.Command {
	var pipeline string
	var l service.Limit
	cmd := &cobra.Command{
		Use:   "limit NAME MESSAGES/TIME",
		Short: "Change a rate limit until the next start or reload",
		Long: `Limit changes a rate limit, from its next window or at once. NAME is as flowd
ctl state shows it: the name of a shared limit, "engine", or a component with
its kind, such as "input web".`,
		Example: `  flowd ctl limit engine 500/1s
  flowd ctl limit "output lake" 30000/m --now
  flowd ctl limit engine 10/s --burst 50 --pipeline orders`,
		Args: cobra.ExactArgs(2),
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			var err error
			if l.Messages, l.Per, err = parseRate(args[1]); err != nil {
				return err
			}
			if cmd.Flags().Changed("burst") && l.Burst < 1 {
				return usage("--burst must be at least 1")
			}
			on, err := c.SetLimit(cmd.Context(), pipeline, args[0], l)
			return reportDone(cmd, err, fmt.Sprintf("%d/%s for", l.Messages, l.Per), on)
		}),
	}
	cmd.Flags().StringVar(&pipeline, "pipeline", "", "the `PIPELINE`, if several have such a limit")
	cmd.Flags().IntVar(&l.Burst, "burst", 0,
		"`MESSAGES` that a bucket lets pass at once; by default as many as in the period")
	cmd.Flags().BoolVar(&l.AtOnce, "now", false, "at once instead of from the next window")
	return cmd
}

// parseRate parses rates such as 500/1s and 500/s.
func parseRate(s string) (messages int, per time.Duration, err error) {
	count, unit, found := strings.Cut(s, "/")
	if found && unit != "" && (unit[0] < '0' || unit[0] > '9') {
		unit = "1" + unit
	}
	messages, err = strconv.Atoi(count)
	per, perErr := time.ParseDuration(unit)
	if !found || err != nil || perErr != nil || messages < 1 || per < time.Millisecond {
		return 0, 0, usage(fmt.Sprintf("%q is not a rate (write messages and time, such as 500/1s)", s))
	}
	return messages, per, nil
}

func newCtlHealth(to *service.Target, name, short string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Long:    short + ".\nExit code 0: they do; 1: they do not, or nothing answers.",
		Example: "  flowd ctl " + name,
		Args:    cobra.NoArgs,
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, _ []string) error {
			h, err := c.Health(cmd.Context(), name)
			if err != nil {
				return shownError{err}
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), h)
			} else {
				err = writeHealth(cmd.OutOrStdout(), h)
			}
			if err == nil && h.Status != "ok" {
				return exit(failed)
			}
			return err
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func newCtlState(to *service.Target) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "state [PIPELINE]",
		Short: "Show what pipelines are doing, and what is wrong",
		Example: `  flowd ctl state
  flowd ctl state orders
  flowd ctl state --json | jq '.pipelines[].messages'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePipelines(to),
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			st, err := c.State(cmd.Context())
			if err != nil {
				return shownError{err}
			}
			if len(args) > 0 {
				if st, err = only(st, args[0]); err != nil {
					return err
				}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), st)
			}
			return writeState(cmd.OutOrStdout(), st, time.Now())
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// withClient wraps a command that sends requests to a running flowd.
func withClient(to *service.Target, ask func(*cobra.Command, *service.Client, []string) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		c, err := service.NewClient(*to)
		if err != nil {
			return usage(err.Error())
		}
		return ask(cmd, c, args)
	}
}

// reportDone says on stderr what was done: stdout is for data.
func reportDone(cmd *cobra.Command, err error, done string, on []string) error {
	if err != nil {
		return shownError{err}
	}
	_, err = io.WriteString(cmd.ErrOrStderr(), printable(done+" "+strings.Join(on, ", "))+"\n")
	return err
}

// shownError is an error whose text comes from another process.
type shownError struct{ error }

func (e shownError) Error() string { return printable(e.error.Error()) }
func (e shownError) Unwrap() error { return e.error }
