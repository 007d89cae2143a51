package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/history"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/spf13/cobra"
)

func newTrace() *cobra.Command {
	var to service.Target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace ID",
		Short: "Show what became of a message, by its id",
		Long: `Trace shows the way of the last messages with an id through a running flowd: when
each was read, the steps that it passed, its batch, every attempt to write it, and
how it ended, with the reason. The flowd needs service.listen and service.history:

    service:
      listen: 127.0.0.1:9600
      history: {id: order.id, messages: 100000}

Exit codes: 0 found; 1 not found, or nothing answers; 2 usage.`,
		Example: `  flowd trace 1042
  flowd trace 1042 --json | jq -r '.messages[].fate'`,
		Args: cobra.ExactArgs(1),
		RunE: withClient(&to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			t, err := c.Trace(cmd.Context(), args[0])
			if err != nil {
				return shownError{err}
			}
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), t); err != nil {
					return err
				}
			} else if err := writeTrace(cmd.OutOrStdout(), t); err != nil {
				return err
			}
			if len(t.Messages) > 0 {
				return nil
			}
			since := ""
			if t.Kept > 0 {
				since = ", since " + t.Since.Local().Format(time.DateTime)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "no message with this id among the last %s%s\n", amount(int64(t.Kept)), since)
			return exit(failed)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addTarget(cmd.Flags(), &to)
	addJSON(cmd, &asJSON)
	return cmd
}

// writeTrace writes the ways of messages as text.
func writeTrace(w io.Writer, t history.Trace) error {
	var b strings.Builder
	p := recordPrinter{out: w, color: colored(w)}
	for i, m := range t.Messages {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s read %s\n", paint(p.color, bold, p.line(m.Pipeline+": "+m.Name)),
			m.Read.Local().Format("2006-01-02 15:04:05.000"))
		for k, e := range m.Events {
			if m.Left > 0 && k == len(m.Events)/2 {
				fmt.Fprintf(&b, "    … %s\n", plural(m.Left, "more passage"))
			}
			r := observe.Record{Kind: e.Kind, Name: e.Name, Of: e.Of, Place: e.Place, Passage: e.Passage, Part: e.Part, Batch: e.Batch,
				Error: e.Error}
			if e.Kind == engine.InputSpot && e.Passage == engine.PassedOn {
				continue
			}
			fmt.Fprintf(&b, "%9s", "+"+span(e.Seconds))
			p.record(&b, r)
		}
		switch {
		case m.Fate == history.InFlight:
			fmt.Fprintf(&b, "  = in flight for %s\n", seconds(time.Since(m.Read)))
		default:
			p.end(&b, m.Fate, m.Error)
			if d := m.Ended.Sub(m.Read); d > 0 {
				text := strings.TrimSuffix(b.String(), "\n")
				b.Reset()
				fmt.Fprintf(&b, "%s, after %s\n", text, span(d.Seconds()))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
