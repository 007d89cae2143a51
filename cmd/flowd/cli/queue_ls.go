package cli

import (
	"fmt"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/spf13/cobra"
)

func newQueueLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [URL] [PATTERN]",
		Short: "List queues and how many messages they hold",
		Example: `  flowd queue ls amqp://localhost/
  flowd queue ls 'orders-*' --json | jq -r '.[] | select(.ready > 0).name'`,
		RunE: onQueues("[PATTERN]", 0, 1, func(c *queueCall, args []string) error {
			pattern := strings.Join(args, "")
			if _, err := path.Match(pattern, ""); err != nil {
				return usage(fmt.Sprintf("%q is not a pattern (a [ is not closed)", pattern))
			}
			all, err := c.server.List(c.stop, pattern)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.cmd.OutOrStdout(), jsonQueues(all))
			}
			return writeQueues(c, all)
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// queueJSON is the JSON form of a queue. An unknown count is null.
type queueJSON struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Ready       *int64 `json:"ready"`
	InFlight    *int64 `json:"in_flight"`
	Delayed     *int64 `json:"delayed"`
	DeadLetters string `json:"dead_letters,omitempty"`
}

func jsonQueues(infos []queue.Info) []queueJSON {
	all := make([]queueJSON, 0, len(infos)) // [] instead of null
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	for _, i := range infos {
		all = append(all, queueJSON{i.Name, i.Kind, known(i.Ready), known(i.InFlight), known(i.Delayed), i.DeadLetters})
	}
	return all
}

func writeQueues(c *queueCall, all []queue.Info) error {
	if len(all) == 0 {
		fmt.Fprintln(c.con, "no queues")
		return nil
	}
	count := func(n int64) string {
		if n < 0 {
			return "?"
		}
		return amount(n)
	}
	w := tabwriter.NewWriter(c.cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tREADY\tIN FLIGHT\tDELAYED\tDEAD LETTERS")
	for _, i := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(i.Name), oneLine(i.Kind), count(i.Ready), count(i.InFlight),
			count(i.Delayed), oneLine(i.DeadLetters))
	}
	return w.Flush()
}

func newQueuePurge() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "purge [URL] QUEUE",
		Short:   "Permanently remove all messages from a queue",
		Example: "  flowd queue purge orders-dead",
		RunE: onQueues("QUEUE", 1, 1, func(c *queueCall, args []string) error {
			name := args[0]
			if err := c.confirm(yes, fmt.Sprintf("Permanently remove %s from %s?", about(c.stored(name)),
				name)); err != nil {
				return err
			}
			n, err := c.server.Purge(c.stop, name)
			if err != nil {
				return fmt.Errorf("queue %s: %w", name, err)
			}
			removed := "all messages"
			if n >= 0 {
				removed = plural(int(n), "message")
			}
			fmt.Fprintf(c.con, "%s: %s removed\n", oneLine(name), removed)
			return nil
		}),
	}
	addYes(cmd, &yes)
	return cmd
}
