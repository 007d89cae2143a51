package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newDlq() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq COMMAND",
		Short: "See why messages became dead letters, and replay, edit or drop them",
		Long: `Dlq works on dead letters: in files that an output with framing messages wrote, in
queues, and in S3. SOURCE is a file, a pattern of files, s3://BUCKET/PREFIX, the URL
of a broker and the name of a queue, as URL QUEUE or URL#QUEUE, or only a queue if
` + queueURL + ` is set.

Letters belong together if they failed in the same place, with the same class, and
for a reason that differs only in numbers, ids and quoted values. Each such group has
an id, which stays the same.

A letter is removed only once its replay is confirmed. SIGINT finishes what is in
flight and returns the rest; a second one stops at once.

Exit codes: 0 all done; 1 a letter is left, something failed, or the question was
answered no; 2 invalid configuration or usage; 3 interrupted.`,
		Example: `  flowd dlq ls dead.ndjson -c orders.yaml             which causes, how many, since when
  flowd dlq show dead.ndjson --group 7f3a9c           one letter in full
  flowd dlq replay dead.ndjson -c orders.yaml         again, through this pipeline
  flowd dlq ls amqp://localhost/ orders-dead`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	for _, c := range []*cobra.Command{newDlqLs(), newDlqShow(), newDlqReplay(), newDlqEdit(), newDlqDrop()} {
		c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		_ = c.RegisterFlagCompletionFunc("group", completeGroups)
		cmd.AddCommand(c)
	}
	return cmd
}

// completeGroups completes the ids of the groups in a file, with their reasons. It does not connect to brokers.
func completeGroups(cmd *cobra.Command, args []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
	address, path, err := sourceOf(args)
	if err != nil || address != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	source, err := deadletters.OpenFile(path, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer source.Close()
	const most = 10_000 // letters: a completion must not take long
	var s deadletters.Summary
	_, _ = deadletters.Each(cmd.Context(), source, most, func(l deadletters.Letter) error { s.Add(l); return nil })
	for _, g := range s.Groups() {
		ids = append(ids, cobra.CompletionWithDesc(g.ID, oneLine(g.Reason)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// dlqCall is one command on dead letters.
type dlqCall struct {
	*queueCall
	name   string // of the source, for people
	source deadletters.Source
	pick   dlqPick
}

// onLetters wraps a command with the arguments that name a source. If take is true, it may settle letters.
func onLetters(pick *dlqPick, take func() bool, do func(*dlqCall) error) runE {
	return func(cmd *cobra.Command, args []string) (err error) {
		if err := pick.parse(); err != nil {
			return err
		}
		address, name, err := sourceOf(args)
		if err != nil {
			return err
		}
		c := &dlqCall{name: name, pick: *pick, queueCall: &queueCall{cmd: cmd, con: newConsole(cmd.ErrOrStderr()),
			secrets: &schema.Secrets{}}}
		c.secrets.AddURL(address)
		var release func()
		c.stop, c.kill, release = signals(cmd.Context(), c.con)
		defer release()
		defer func() { err = c.scrub(err) }()
		if err := c.open(address, take()); err != nil {
			return err
		}
		defer func() { err = joined(err, c.close()) }()
		return do(c)
	}
}

// never is for commands that only read.
func never() bool { return false }

// open opens the source. address is "" for files.
func (c *dlqCall) open(address string, take bool) (err error) {
	if address == "" {
		c.source, err = deadletters.OpenFile(c.name, take)
		return err
	}
	if objects.IsURL(address) {
		store, prefix, err := objects.Dial(c.stop, address)
		if err == nil {
			c.source = deadletters.OpenObjects(store, prefix)
		}
		return err
	}
	if c.server, err = queue.Dial(c.stop, address); err != nil {
		return err
	}
	c.source, err = deadletters.OpenQueue(c.stop, c.server, c.name, c.ready(c.name))
	if err != nil {
		return errors.Join(fmt.Errorf("queue %s: %w", c.name, err), c.server.Close())
	}
	return nil
}

func (c *dlqCall) close() error {
	if c.source == nil {
		return nil
	}
	err := c.source.Close()
	c.source = nil
	if c.server != nil {
		err = errors.Join(err, c.server.Close())
	}
	return err
}

// sourceOf returns the broker's URL and the queue that arguments name, or "" and a path.
func sourceOf(args []string) (address, name string, err error) {
	const forms = "write a file, or a broker's URL and a queue"
	if slices.Contains(args, "") { // a script's unset variable
		return "", "", usage("an argument is empty (" + forms + ")")
	}
	env := os.Getenv(queueURL)
	switch {
	case len(args) == 1 && objects.IsURL(args[0]):
		return args[0], args[0], nil
	case len(args) == 1 && strings.Contains(args[0], "://"):
		address, name, found := strings.Cut(args[0], "#")
		if !found || name == "" {
			return "", "", usage("the URL names no queue (write URL QUEUE, or URL#QUEUE)")
		}
		return address, name, nil
	case len(args) == 2 && strings.Contains(args[0], "://"):
		return args[0], args[1], nil
	case len(args) != 1:
		return "", "", usage("there is no source of dead letters (" + forms + ")")
	case env != "" && !isFile(args[0]):
		address, name, err := brokerOf(args)
		if err != nil {
			return "", "", err
		}
		return address, name[0], nil
	}
	return "", args[0], nil
}

// isFile reports whether a name is that of a file, a pattern of files, or a file that a command on dead letters has taken.
func isFile(name string) bool {
	if strings.ContainsRune(name, filepath.Separator) {
		return true
	}
	if _, err := os.Lstat(name); err == nil {
		return true
	}
	found, _ := filepath.Glob(literally.Replace(name) + "*")
	pattern, _ := filepath.Glob(name)
	return len(found)+len(pattern) > 0
}

// dlqPick chooses letters.
type dlqPick struct {
	group string
	where string
	n     int64

	cond expr.Cond
}

func (p *dlqPick) add(cmd *cobra.Command, n int64, what string) {
	f := cmd.Flags()
	f.StringVar(&p.group, "group", "", "only letters of the group with this `ID`")
	f.StringVar(&p.where, "where", "", "only letters for which this `EXPRESSION` is true, such as 'meta(\"error_class\") == \"rejected\"'")
	f.Int64VarP(&p.n, "number", "n", n, what)
	cmd.PreRunE = notNegative("-n", &p.n)
}

func (p *dlqPick) parse() (err error) {
	if p.where == "" {
		return nil
	}
	if p.cond, err = expr.CompileCond(p.where); err != nil {
		return usage("--where: " + err.Error())
	}
	return nil
}

// some reports whether not all letters are chosen.
func (p *dlqPick) some() bool { return p.group != "" || p.where != "" }

// matches reports whether a letter is chosen. One for which the expression can't be evaluated is not.
func (p *dlqPick) matches(l *deadletters.Letter) (bool, error) {
	if p.group != "" && (l.Broken != nil || l.Cause.ID() != p.group) {
		return false, nil
	}
	if p.where == "" {
		return true, nil
	}
	if l.Broken != nil {
		return false, nil
	}
	m := engine.NewBatch(1).Add(l.Payload)
	m.Meta = l.Metadata()
	ok, err := p.cond.Test(m)
	return ok && err == nil, nil
}

// each calls f for the chosen letters of the source, at most most of them (0: all).
func (c *dlqCall) each(ctx context.Context, most int64, f func(deadletters.Letter) error) (more bool, err error) {
	errEnough := errors.New("enough")
	n := int64(0)
	more, err = deadletters.Each(ctx, c.source, 0, func(l deadletters.Letter) error {
		ok, err := c.pick.matches(&l)
		if err != nil || !ok {
			return err
		}
		if n++; most > 0 && n > most {
			return errEnough
		}
		return f(l)
	})
	if err == errEnough {
		return true, nil
	}
	return more, err
}
