package cli

import (
	"fmt"

	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/spf13/cobra"
)

func newDlqDrop() *cobra.Command {
	var pick dlqPick
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop SOURCE",
		Short: "Permanently remove dead letters",
		Long: `Drop permanently removes dead letters, after a question. Save them first with
flowd dlq show --json -n 0, if you may need them.`,
		Example: `  flowd dlq drop dead.ndjson --group 7f3a9c
  flowd dlq drop amqp://localhost/ orders-dead --where 'order.test == true' --yes`,
		RunE: onLetters(&pick, func() bool { return true }, func(c *dlqCall) error {
			which := "all dead letters"
			if c.pick.some() {
				which = "the chosen dead letters"
			}
			if pick.n > 0 {
				which = "at most " + agreeing(pick.n, "dead letter", "dead letters")
			}
			if err := c.confirm(yes, fmt.Sprintf("Permanently remove %s of %s?", which, c.name)); err != nil {
				return err
			}
			n := int64(0)
			var refs []uint64
			settle := func() error {
				if len(refs) == 0 {
					return nil
				}
				err := c.source.Done(c.kill, refs)
				if err == nil {
					n += int64(len(refs))
				}
				refs = refs[:0]
				return err
			}
			total := c.source.Total(c.stop) // dead letters that arrive meanwhile are not removed
			seen := int64(0)
			_, err := c.each(c.stop, pick.n, func(l deadletters.Letter) error {
				if seen++; total >= 0 && seen > total {
					return nil
				}
				if refs = append(refs, l.Ref); len(refs) < 1000 {
					return nil
				}
				return settle()
			})
			err = joined(err, settle())
			fmt.Fprintf(c.con, "%s: %s removed\n", c.hide(oneLine(c.name)), agreeing(n, "dead letter", "dead letters"))
			return c.interrupted(err)
		}),
	}
	pick.add(cmd, 0, "remove at most this many letters")
	addYes(cmd, &yes)
	return cmd
}
