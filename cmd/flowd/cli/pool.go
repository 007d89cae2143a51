//go:build !no_nats && (!slim || nats)

package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/pool/worker"
	"github.com/spf13/cobra"
)

// newPool returns the command that inspects pools.
func newPool() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pool COMMAND",
		Short:   "Inspect pools of workers",
		Example: "  flowd pool ls --join hub:5019",
		Args:    cobra.ArbitraryArgs,
		RunE:    needsCommand,
	}
	cmd.AddCommand(newPoolLs())
	return cmd
}

func newPoolLs() *cobra.Command {
	var to joining
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "Show pools, their workers and their jobs",
		Long: `Ls asks all hubs of a cluster for their pools: the jobs that wait and those that
workers have; for each worker its slots, how many have a job, when it last renewed
the lease of its oldest job, and its version. Like a worker, it needs the token.`,
		Example: "  flowd pool ls --join hub:5019",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			targets, err := to.targets()
			if err != nil {
				return err
			}
			var all []wire.Pools
			for _, t := range targets {
				ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
				found, err := worker.List(ctx, t)
				cancel()
				if err != nil {
					return err
				}
				all = append(all, found...)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			return writePools(cmd.OutOrStdout(), all)
		},
	}
	to.flags(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

func writePools(to io.Writer, all []wire.Pools) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	found := false
	for _, h := range all {
		for _, p := range h.Pools {
			if found {
				fmt.Fprintln(w)
			}
			found = true
			fmt.Fprintf(w, "%s of %s at %s: %s waiting, %s in flight (flowd %s, configuration %s, lease %v)\n",
				printable(p.Name), printable(p.Pipeline), printable(h.Host), amount(int64(p.Waiting)),
				amount(int64(p.InFlight)), printable(h.Version), printable(p.Hash), p.Lease)
			if len(p.Members) == 0 {
				fmt.Fprintln(w, "  no workers")
				continue
			}
			fmt.Fprintln(w, "  WORKER\tSLOTS\tBUSY\tLEASE AGE\tHEARD\tVERSION")
			for _, m := range p.Members {
				age := "-"
				if m.Busy > 0 {
					age = m.LeaseAge.Round(100 * time.Millisecond).String()
				}
				fmt.Fprintf(w, "  %s\t%d\t%d\t%s\t%v ago\t%s\n", printable(m.Name), m.Slots, m.Busy, age,
					m.Heard.Round(100*time.Millisecond), printable(m.Version))
				if m.Refused != "" {
					fmt.Fprintf(w, "    takes no jobs: %s\n", printable(m.Refused))
				}
			}
		}
	}
	if !found {
		fmt.Fprintln(w, "no pools")
	}
	return w.Flush()
}
