package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/tap"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// tapping holds the arguments of `flowd tap`.
type tapping struct {
	to    service.Target
	query tap.Query
	where string
	limit int
	json  bool
	save  saving

	client *service.Client
	show   recordPrinter
	last   string // the message that was shown last
	shown  int
	missed int64
}

func newTap() *cobra.Command {
	var t tapping
	cmd := &cobra.Command{
		Use:   "tap [COMPONENT]",
		Short: "Show live messages of a running flowd at each component",
		Long: `Tap shows messages while they pass the components of a running flowd: what a step
changed, why a filter dropped, which batch, what an output wrote, why it failed.
COMPONENT is the name of an input, step, batcher or output, or a kind and a name,
such as "output lake". Like flowd ctl, tap needs service.listen and the token.

Messages never wait for a tap: those beyond the rate are counted and not shown.
Passwords, tokens, card numbers and the like are hidden; service.tap.redact hides
more. A tap goes on across reloads.

With --save, the messages become a test of a pipeline file: what was read, what steps
that call other systems answered (as mocks), and what arrived at the outputs. The test
is run, and it passes: where it can't give what was seen, because of times, random
values or earlier messages, it expects what it gives. Values that are hidden are saved
as [redacted]. The pipeline is the one with the name of that in FILE, or --pipeline.

Exit codes: 0 it ended, by --limit or by Ctrl-C; 1 nothing answers, the connection was
lost, or no test could be saved; 2 usage.`,
		Example: `  flowd tap                                   everything, 10 messages per second
  flowd tap 'check address' --where 'country == nil'
  flowd tap lake --failed
  flowd tap --limit 100 --json | jq -c '[.kind, .name, .passage]'
  flowd tap --save orders.yaml --limit 5      add a test with the next 5 messages
  flowd tap --save test.yaml -c orders.yaml   to a copy of orders.yaml, until Ctrl-C`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.query.Component = args[0]
			}
			return t.run(cmd)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return t.components(cmd, args), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	addTarget(f, &t.to)
	f.StringVar(&t.query.Pipeline, "pipeline", "", "only the pipeline with this `NAME`")
	f.StringVar(&t.where, "where", "", "only messages for which this `EXPRESSION` is true when they arrive at the component")
	f.BoolVar(&t.query.Failed, "failed", false, "only messages that fail at the component")
	f.IntVar(&t.query.Rate, "rate", tap.DefaultRate, fmt.Sprintf("show up to this many messages per second, at most %d", tap.MaxRate))
	f.IntVar(&t.limit, "limit", 0, "end after this many lines of messages, with --save after this many messages; 0: never")
	f.StringVar(&t.save.file, "save", "", "add a test with what is seen to this pipeline `FILE`")
	f.StringVarP(&t.save.from, "config", "c", "", "pipeline `FILE` to copy if that of --save does not exist")
	f.BoolVar(&t.json, "json", false, "write one JSON object per message and component, for programs")
	return cmd
}

// components returns the names of components for completion.
func (t *tapping) components(cmd *cobra.Command, args []string) (names []string) {
	c, err := service.NewClient(t.to)
	if err != nil || len(args) > 0 {
		return nil
	}
	st, err := c.State(cmd.Context())
	if err != nil {
		return nil
	}
	for _, p := range st.Pipelines {
		for _, x := range p.Inputs {
			names = append(names, x.Name+"\tinput")
		}
		for _, x := range p.Steps {
			names = append(names, x.Name+"\tstep")
		}
		for _, x := range p.Batchers {
			names = append(names, x.Name+"\tbatcher")
		}
		for _, x := range p.Outputs {
			names = append(names, x.Name+"\toutput")
		}
	}
	return names
}

func (t *tapping) run(cmd *cobra.Command) (err error) {
	if t.query.Rate < 1 || t.query.Rate > tap.MaxRate {
		return usage(fmt.Sprintf("--rate must be from 1 to %d", tap.MaxRate))
	}
	if t.where != "" {
		if t.query.Where, err = expr.CompileCond(t.where, "batch"); err != nil {
			return usage("--where: " + err.Error())
		}
	}
	if t.client, err = service.NewClient(t.to); err != nil {
		return usage(err.Error())
	}
	con := newConsole(cmd.ErrOrStderr())
	if err := t.save.prepare(con, &t.query); err != nil {
		return err
	}
	ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // a second Ctrl-C ends a test that --save runs
	if err := t.check(cmd); err != nil {
		return err
	}
	stream, err := t.client.Tap(ctx, t.query.Values())
	if err != nil {
		return shownError{err}
	}
	defer stream.Close()
	out := cmd.OutOrStdout()
	t.show = recordPrinter{out: out, color: colored(out)}
	lines := bufio.NewReaderSize(stream, 64<<10)
	for t.limit == 0 || t.count() < t.limit {
		line, err := lines.ReadBytes('\n')
		switch {
		case ctx.Err() != nil:
			return t.end(cmd, con)
		case errors.Is(err, io.EOF):
			return errors.Join(errors.New("the connection was closed (flowd has stopped)"), t.end(cmd, con))
		case err != nil:
			return errors.Join(fmt.Errorf("the connection was lost: %w", err), t.end(cmd, con))
		}
		if err := t.line(line); err != nil {
			return err
		}
	}
	return t.end(cmd, con)
}

// count returns how much of the limit is used.
func (t *tapping) count() int {
	if t.save.file != "" {
		return t.save.ended
	}
	return t.shown
}

// check refuses a pipeline that is not there. It warns if no component has the name, which may come with a reload.
func (t *tapping) check(cmd *cobra.Command) error {
	if t.query.Pipeline != "" {
		st, err := t.client.State(cmd.Context())
		if err != nil {
			return shownError{err}
		}
		var pipelines []string
		for _, p := range st.Pipelines {
			pipelines = append(pipelines, p.Name)
		}
		if !slices.Contains(pipelines, t.query.Pipeline) {
			return usage(fmt.Sprintf("no pipeline is called %q (choose one with --pipeline: %s)", printable(t.query.Pipeline),
				printable(strings.Join(pipelines, ", "))))
		}
	}
	if t.query.Component == "" {
		return nil
	}
	var names []string
	for _, name := range t.components(cmd, nil) {
		name, kind, _ := strings.Cut(name, "\t")
		names = append(names, name, kind+" "+name)
	}
	if len(names) == 0 || slices.Contains(names, t.query.Component) {
		return nil
	}
	remedy := "flowd ctl state lists all"
	if near := schema.Nearest(t.query.Component, names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "no component is called %q at present (%s)\n", t.query.Component, remedy)
	return nil
}

// end says how many messages were not shown, and saves those that were.
func (t *tapping) end(cmd *cobra.Command, con *console) error {
	t.notShown(con)
	if t.save.file == "" {
		return nil
	}
	return t.save.write(cmd, con)
}

func (t *tapping) notShown(con *console) {
	if t.missed > 0 {
		fmt.Fprintf(con, "not shown: %s beyond the rate of %d/s\n", plural(int(t.missed), "message"), t.query.Rate)
	}
}

// line shows one line of the stream.
func (t *tapping) line(text []byte) error {
	var l tap.Line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("what answers is not a flowd of this version: %w", err)
	}
	t.missed += l.NotShown
	if l.Record == nil {
		if t.json && l.NotShown > 0 {
			return writeLine(t.show.out, l)
		}
		return nil
	}
	t.shown++
	if t.save.file != "" {
		t.save.add(*l.Record)
	}
	if t.json {
		return writeLine(t.show.out, l)
	}
	return t.record(*l.Record)
}

// record shows a message at a component, under the message's name unless that was shown last.
func (t *tapping) record(r observe.Record) error {
	var b strings.Builder
	if name := r.Message; name != t.last {
		t.last = name
		if r.Pipeline != "" {
			name = r.Pipeline + ": " + name
		}
		at := r.At.Local().Format("15:04:05.000")
		fmt.Fprintf(&b, "%s %s\n", paint(t.show.color, dim, at), paint(t.show.color, bold, t.show.line(name)))
	}
	if r.Kind == engine.EndSpot {
		t.show.end(&b, r.Name, r.Error)
		_, err := io.WriteString(t.show.out, b.String())
		return err
	}
	t.show.record(&b, r)
	alone := t.query.Component != "" || t.query.Failed || r.Kind == engine.InputSpot
	if alone && len(r.Changes) == 0 && r.Passage != engine.WrittenThere {
		t.show.row(&b, " ", string(r.Payload))
	}
	_, err := io.WriteString(t.show.out, b.String())
	return err
}
