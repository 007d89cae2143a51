package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// queueURL is the variable with the broker's URL, used if no argument has it.
const queueURL = "FLOWD_QUEUE_URL"

func newQueue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue COMMAND",
		Short: "Inspect the queues of a broker and move their messages",
		Long: `Queue works on the queues of a message broker: its URL is the first argument, or
the value of ` + queueURL + ` (better for passwords: other users see arguments).

A message is removed only once its destination has confirmed it. One that can't be
sent is listed with the reason and stays where it was. SIGINT finishes what is in
flight and hands back the rest; a second one stops at once.

Exit codes: 0 all done; 1 something failed, or the question was answered no;
2 usage; 3 interrupted.`,
		Example: `  flowd queue ls amqp://localhost/ 'orders*'     queues, and how much is in them
  export ` + queueURL + `=amqp://localhost/
  flowd queue redrive orders-dead                dead letters, back to where they came from
  flowd queue dump orders --delete               into a file, and out of the queue`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(newQueueLs(), newQueueMv(), newQueueRedrive(), newQueuePeek(), newQueueDump(), newQueueLoad(), newQueuePurge())
	return cmd
}

// queueCall is one command on a broker.
type queueCall struct {
	cmd        *cobra.Command
	con        *console
	stop, kill context.Context // end at the first and at the second signal
	server     queue.Server
	secrets    *schema.Secrets // masked in all output
}

// onQueues wraps a command with the arguments after the broker's URL, of which there must be between least and most.
// names describes them.
func onQueues(names string, least, most int, do func(*queueCall, []string) error) runE {
	return func(cmd *cobra.Command, args []string) (err error) {
		address, args, err := brokerOf(args)
		if err != nil {
			return err
		}
		if len(args) < least || len(args) > most {
			return usage(fmt.Sprintf("%s takes %s after the broker's URL, not %s", cmd.Name(), names,
				plural(len(args), "argument")))
		}
		if slices.Contains(args, "") { // a script's unset variable
			return usage("an argument is empty (" + names + ")")
		}
		c := &queueCall{cmd: cmd, con: newConsole(cmd.ErrOrStderr()), secrets: &schema.Secrets{}}
		c.secrets.AddURL(address)
		var release func()
		c.stop, c.kill, release = signals(cmd.Context(), c.con)
		defer release()
		c.server, err = queue.Dial(c.stop, address)
		if err != nil {
			return c.scrub(err)
		}
		defer func() { err = c.scrub(joined(err, c.server.Close())) }()
		return do(c, args)
	}
}

// joined joins errors, but an exit code stays one.
func joined(err, more error) error {
	if _, ended := errors.AsType[exit](err); ended || more == nil {
		return err
	}
	return errors.Join(err, more)
}

// brokerOf takes the broker's URL from the arguments or the environment.
func brokerOf(args []string) (address string, rest []string, err error) {
	env := os.Getenv(queueURL)
	if len(args) > 0 {
		scheme, _, isURL := strings.Cut(args[0], "://")
		if isURL && (env == "" || slices.Contains(queue.Schemes(), scheme)) {
			return args[0], args[1:], nil
		}
	}
	switch {
	case env == "":
		return "", nil, usage("no broker is given (write its URL, such as amqp://localhost/, or set " + queueURL + ")")
	case !strings.Contains(env, "://"):
		return "", nil, usage(queueURL + " is not a URL (write one such as amqp://localhost/)")
	}
	return env, args, nil
}

// scrub removes passwords from an error.
func (c *queueCall) scrub(err error) error {
	var code exit
	var wrong usage
	if err == nil || errors.As(err, &code) || errors.As(err, &wrong) {
		return err
	}
	return errors.New(c.hide(err.Error()))
}

func (c *queueCall) hide(text string) string {
	return printable(c.secrets.Mask(text))
}

// confirm asks before a command destroys something. It reads the answer from the terminal.
func (c *queueCall) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	in := c.cmd.InOrStdin()
	if !c.con.terminal || !isTerminal(in) {
		return usage("there is no terminal to ask on: " + question + " (add --yes)")
	}
	return c.askYesNo(in, question)
}

// ask asks a yes-or-no question. A signal counts as no.
func (c *queueCall) askYesNo(in io.Reader, question string) error {
	fmt.Fprintf(c.con, "%s [y/N] ", printable(question))
	answer := make(chan string, 1)
	go func() { // ends with the process if nobody answers
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		if a == "y" || a == "yes" {
			return nil
		}
		fmt.Fprintln(c.con, "nothing was done")
		return exit(failed)
	case <-c.stop.Done():
		fmt.Fprintln(c.con, "nothing was done")
		return exit(handedBack)
	}
}

// ready returns how many messages a queue has, or -1 if unknown. It only informs people, so it ignores errors.
func (c *queueCall) ready(name string) int64 { return c.info(name).Ready }

// stored returns ready, plus the other messages that a purge removes.
func (c *queueCall) stored(name string) int64 {
	i := c.info(name)
	if i.Ready < 0 {
		return -1
	}
	return i.Ready + i.Kept
}

func (c *queueCall) info(name string) queue.Info {
	ctx, cancel := context.WithTimeout(c.stop, 5*time.Second)
	defer cancel()
	all, err := c.server.List(ctx, literally.Replace(name))
	if err != nil || len(all) != 1 {
		return queue.Info{Ready: -1}
	}
	return all[0]
}

// literally escapes a name for path.Match.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// about formats a number of messages for a question.
func about(n int64) string {
	switch {
	case n < 0:
		return "all messages"
	case n == 1:
		return "1 message"
	}
	return amount(n) + " messages"
}

func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask for confirmation")
}

func addLimit(cmd *cobra.Command, n *int64) {
	cmd.Flags().Int64VarP(n, "number", "n", 0, "at most this many messages")
	cmd.PreRunE = notNegative("-n", n)
}

// notNegative rejects negative values of flags.
func notNegative(names string, flags ...*int64) runE {
	return func(*cobra.Command, []string) error {
		if slices.ContainsFunc(flags, func(n *int64) bool { return *n < 0 }) {
			return usage(names + " must not be negative")
		}
		return nil
	}
}
