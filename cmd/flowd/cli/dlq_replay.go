package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/internal/operations/service"
	managers "github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// dlqReplay has the flags of `flowd dlq replay`.
type dlqReplay struct {
	pick      dlqPick
	files     []string
	set       []string
	plugins   []string
	pipeline  string
	input     string
	fromStart bool
	to        string // PIPELINE[/INPUT] of a running flowd
	target    service.Target
	rate      string
	dry       bool
	live      bool
	worker    bool // this is the process of a dry run
	json      bool
	logs      logFlags
}

func newDlqReplay() *cobra.Command {
	var r dlqReplay
	cmd := &cobra.Command{
		Use:   "replay SOURCE {-c FILE | --to PIPELINE}",
		Short: "Send dead letters through a pipeline again",
		Long: `Replay runs the pipeline of FILE with the dead letters as its only input. Each letter
goes through all steps again, since it has the payload as it was read. A letter that
an output failed goes to that output only; --from-start sends it to all.

With --to, the letters go into a pipeline of a running flowd instead, as those of
flowd ctl push do. It sends them to all its outputs, so a letter that an output
failed stays unless --from-start says that this is right.

A letter leaves SOURCE once the pipeline has delivered or filtered it, or has written
a new dead letter of it. Otherwise it stays. If a replay is killed, what was in
flight is replayed again by the next one.

With --dry-run nothing is sent and nothing is removed: outputs accept everything,
steps that call other systems do nothing, and replay says how many letters would
pass now.`,
		Example: `  flowd dlq replay dead.ndjson -c orders.yaml --dry-run
  flowd dlq replay dead.ndjson -c orders.yaml --group 7f3a9c --rate 50/s
  flowd dlq replay amqp://localhost/ orders-dead -c orders.yaml -n 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case r.to != "" && (len(r.files) > 0 || r.dry):
				return usage("--to replays to a running pipeline, so -c and --dry-run exclude it")
			case len(r.files) == 0 && r.to == "":
				return usage("no pipeline file is given (write -c FILE, or --to PIPELINE for a running flowd)")
			case (r.json || r.live) && !r.dry:
				return usage("--json and --live are for --dry-run")
			case r.worker:
				return r.rehearse(cmd)
			}
			return onLetters(&r.pick, func() bool { return !r.dry }, r.run)(cmd, args)
		},
	}
	f := cmd.Flags()
	r.pick.add(cmd, 0, "replay at most this many letters")
	addFiles(cmd, &r.files)
	addSet(cmd, &r.set)
	addPlugins(cmd, &r.plugins)
	addTarget(f, &r.target)
	f.StringVar(&r.to, "to", "", "`PIPELINE[/INPUT]` of a running flowd, in place of -c")
	_ = cmd.RegisterFlagCompletionFunc("to", func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		return completePipelines(&r.target)(cmd, nil, word)
	})
	f.StringVar(&r.pipeline, "pipeline", "", "`NAME` of the pipeline, if the files have several")
	f.StringVar(&r.input, "input", "", "`NAME` of the input whose steps the letters go through, if there are several")
	f.BoolVar(&r.fromStart, "from-start", false, "send letters that an output failed to all outputs")
	f.StringVar(&r.rate, "rate", "", "at most this many `LETTERS/TIME`, such as 50/s")
	f.BoolVar(&r.dry, "dry-run", false, "only say how many would pass now")
	f.BoolVar(&r.live, "live", false, "in a dry run, make the calls of steps to other systems")
	f.BoolVar(&r.worker, "worker", false, "")
	_ = f.MarkHidden("worker")
	addJSON(cmd, &r.json)
	r.logs.add(cmd)
	return cmd
}

// load reads pipeline files, and shows errors but not warnings, which concern whoever runs the files.
func (c *dlqCall) load(files []string, o config.Options) (*config.Set, error) {
	set, problems := config.Load(files, o)
	problems = slices.DeleteFunc(problems, func(p schema.Problem) bool { return p.Warning })
	return set, showProblems(c.con, problems)
}

func (r *dlqReplay) run(c *dlqCall) error {
	if r.dry {
		return r.dryRun(c)
	}
	var limit *engine.RateLimit
	if r.rate != "" {
		n, per, err := parseRate(r.rate)
		if err != nil {
			return err
		}
		limit = &engine.RateLimit{Messages: n, Per: per, Kind: "bucket", Burst: max(1, n/10)}
	}
	if r.to != "" {
		return r.push(c, limit)
	}
	logs := newLogging(c.con, c.secrets, r.logs)
	if r.logs.level.value == "" {
		logs.levels.set("warn", nil)
	}
	logs.libraries(c.secrets)
	defer logs.sums.Flush()
	began := time.Now()
	feed := &deadletters.Feed{Source: c.source, Limit: r.pick.n, Before: began, Replay: rand.Text(),
		Pick: c.pick.matches}
	o := config.Options{Set: r.set, Plugins: r.plugins, Log: logs.log, Secrets: c.secrets, Managers: managers.NewStore(c.stop)}
	chosen, err := r.loaded(c)
	if err != nil {
		return err
	}
	o.Rewrite = func(p *engine.Pipeline) error {
		if p.Name != chosen.Spec.Name {
			return nil
		}
		if !r.fromStart {
			feed.Target = targetIn(p)
		}
		return deadletters.Enter(p, r.input, feed, limit)
	}
	set, err := c.load(r.files, o)
	if err != nil {
		return err
	}
	p, err := choosePipeline(set, r.pipeline)
	if err != nil {
		return err
	}
	set.RenewSecrets()
	total := c.source.Total(c.stop)
	shown, hide := context.WithCancel(c.kill)
	defer hide()
	go r.progress(shown, c, feed, total, began)
	report := p.Plan.Run(c.stop, c.kill)
	hide()
	return r.report(c, feed, report, time.Since(began))
}

// targetIn returns the output of a pipeline to which a letter goes: the one that failed it.
func targetIn(p *engine.Pipeline) func(*deadletters.Letter) (string, error) {
	outputs := map[string]bool{}
	for name := range p.Outputs.All() {
		outputs[name] = true
	}
	name := p.Name
	return func(l *deadletters.Letter) (string, error) {
		if l.Cause.Output == "" || outputs[l.Cause.Output] {
			return l.Cause.Output, nil
		}
		return "", fmt.Errorf("pipeline %s has no output %q, which failed it (--from-start sends it to all outputs)", name,
			l.Cause.Output)
	}
}

// progress draws the progress line until ctx ends.
func (r *dlqReplay) progress(ctx context.Context, c *dlqCall, feed *deadletters.Feed, total int64, began time.Time) {
	if !c.con.terminal {
		return
	}
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	defer c.con.status("")
	if r.pick.n > 0 && (total < 0 || r.pick.n < total) {
		total = r.pick.n
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		t, _ := feed.Tally()
		c.con.status(fit(bar(t.Replayed+t.Left, total, time.Since(began)), c.con.width()))
	}
}

// report says how a replay has ended.
func (r *dlqReplay) report(c *dlqCall, feed *deadletters.Feed, report runtime.Report, took time.Duration) error {
	t, failure := feed.Tally()
	var b strings.Builder
	for _, s := range []*deadletters.Summary{&t.Failed, &t.Why} {
		groups := s.Groups()
		for _, g := range groups[:min(len(groups), shownGroups)] {
			fmt.Fprintf(&b, "%s", agreeing(g.Letters, "letter", "letters"))
			for _, part := range []string{g.Class, g.Place(), g.Reason} {
				if part != "" {
					fmt.Fprintf(&b, ": %s", oneLine(part))
				}
			}
			b.WriteByte('\n')
		}
	}
	dead, stay := t.Fates[engine.DeadLettered], t.Fates[engine.Returned]+t.Fates[engine.Dropped]+t.Left
	fmt.Fprintf(&b, "%s: %s replayed", c.name, amount(t.Replayed-dead))
	if dead > 0 {
		fmt.Fprintf(&b, ", %s again", agreeing(dead, "is a dead letter", "are dead letters"))
	}
	if stay > 0 {
		fmt.Fprintf(&b, ", %s", agreeing(stay, "stays", "stay"))
	}
	if t.Unsure > 0 {
		fmt.Fprintf(&b, ", %s, but may still be there", agreeing(t.Unsure, "was replayed", "were replayed"))
	}
	fmt.Fprintf(&b, " in %s\n", seconds(took))
	fmt.Fprint(c.con, c.hide(b.String()))
	err := errors.Join(failure, report.Err)
	switch {
	case c.stop.Err() != nil:
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(c.con, "flowd: %s\n", c.hide(err.Error()))
		}
		fmt.Fprintln(c.con, "interrupted: the other letters stay")
		return exit(handedBack)
	case err != nil:
		return err
	case dead+stay+t.Unsure > 0:
		return exit(failed)
	}
	return nil
}
