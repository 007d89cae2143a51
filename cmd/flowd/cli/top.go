//go:build !no_top && (!slim || top)

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
	draw "github.com/flowd-io/flowd/internal/operations/terminal"
	"github.com/flowd-io/flowd/internal/operations/top"
	"github.com/spf13/cobra"
)

func newTop() *cobra.Command {
	t := topping{sort: oneOf{value: top.Sorts[0], allowed: top.Sorts}}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch running flowds: rates, latency, queues, and what holds them up",
		Long: `Top shows the pipelines of running flowds with their components, and marks what holds
up each pipeline, with the reason. Like flowd ctl, it needs service.listen and the token.

Keys: up and down select; enter shows a component with its last errors; s sorts;
/ filters; p pauses, r resumes and d drains the selected pipeline; l changes the
selected limit; q quits.

Without a terminal, or with --once, it prints one frame as text. The first interval
passes before that, since rates need two states.

Exit codes: 0 it ended; 1 no process answered; 2 usage.`,
		Example: `  flowd top
  flowd top --addr 127.0.0.1:9600 --addr https://b.example:9600 --token-file token
  flowd top --once --filter lake
  flowd top --json | jq '.processes[].pipelines[] | [.name, .bottleneck.component]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&t.addrs, "addr", []string{"127.0.0.1:9600"}, "`ADDRESS` of service.listen; may be repeated")
	addAccess(f, &t.to)
	f.DurationVar(&t.interval, "interval", time.Second, "time between frames")
	f.Var(&t.sort, "sort", "order of components: "+strings.Join(top.Sorts, ", "))
	f.StringVar(&t.view.Filter, "filter", "", "only components whose pipeline, kind, name or type contains `TEXT`")
	f.BoolVar(&t.once, "once", false, "print one frame as text")
	f.BoolVar(&t.json, "json", false, "write one JSON object per interval, for programs; with --once a single one")
	return cmd
}

// topping is one run of flowd top.
type topping struct {
	addrs      []string
	to         service.Target // of all addresses
	interval   time.Duration
	view       top.View
	sort       oneOf
	once, json bool

	clients []*service.Client // by address
}

func (t *topping) run(cmd *cobra.Command) error {
	if t.interval < 100*time.Millisecond || t.interval > time.Hour {
		return usage("--interval must be from 100ms to 1h")
	}
	for _, addr := range t.addrs {
		to := t.to
		to.Addr = addr
		c, err := service.NewClient(to)
		if err != nil {
			return usage(err.Error())
		}
		t.clients = append(t.clients, c)
	}
	t.view.Sort = t.sort.value
	out := cmd.OutOrStdout()
	if t.json || t.once || !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return t.print(cmd.Context(), out)
	}
	return draw.Run(cmd.Context(), draw.Options{Interval: t.interval, Poll: t.poll, Do: t.do, View: t.view,
		In: os.Stdin, Out: fileOf(out), Color: colored(out)})
}

// print prints frames as JSON until ctx ends, or one frame.
func (t *topping) print(ctx context.Context, out io.Writer) error {
	before := t.poll(ctx)
	for {
		select {
		case <-time.After(t.interval):
		case <-ctx.Done():
			return nil
		}
		now := t.poll(ctx)
		f := top.Of(before, now)
		before = now
		if err := t.show(out, f); err != nil {
			return err
		}
		if t.once || !t.json {
			return answered(now)
		}
	}
}

// answered returns an error unless a process has answered.
func answered(all []top.Seen) error {
	var errs []error
	for _, s := range all {
		if s.Err == nil {
			return nil
		}
		errs = append(errs, s.Err)
	}
	return shownError{errors.Join(errs...)}
}

func (t *topping) show(out io.Writer, f top.Frame) error {
	if t.json {
		return writeLine(out, f)
	}
	columns := width(out)
	if columns == 0 {
		columns = 120
	}
	color := colored(out)
	paints := map[top.Style]string{top.Bold: bold, top.Dim: dim, top.Warning: yellow, top.Failure: red}
	for _, l := range f.Lines(t.view, columns) {
		if _, err := fmt.Fprintln(out, paint(color && paints[l.Style] != "", paints[l.Style], l.Text)); err != nil {
			return err
		}
	}
	return nil
}

// poll asks all processes at once.
func (t *topping) poll(ctx context.Context) []top.Seen {
	ctx, cancel := context.WithTimeout(ctx, max(t.interval, 5*time.Second))
	defer cancel()
	all := make([]top.Seen, len(t.addrs))
	var asked sync.WaitGroup
	for i, c := range t.clients {
		asked.Go(func() {
			st, err := c.State(ctx)
			all[i] = top.Seen{Addr: t.addrs[i], At: time.Now(), State: st, Err: err}
		})
	}
	asked.Wait()
	return all
}

// do carries out a request of a key.
func (t *topping) do(ctx context.Context, r draw.Request) (string, error) {
	var c *service.Client
	for i, addr := range t.addrs {
		if addr == r.Key.Addr {
			c = t.clients[i]
		}
	}
	if c == nil {
		return "", errors.New("this process is not asked any more")
	}
	pipeline := r.Key.Pipeline
	switch r.What {
	case "pause":
		return didTo("paused", c.Pause, ctx, pipeline)
	case "resume":
		return didTo("resumed", c.Resume, ctx, pipeline)
	case "drain":
		return didTo("draining", c.Drain, ctx, pipeline)
	}
	messages, per, err := parseRate(r.Rate)
	if err != nil {
		return "", err
	}
	on, err := c.SetLimit(ctx, pipeline, r.Key.Name, service.Limit{Messages: messages, Per: per, AtOnce: true})
	return fmt.Sprintf("%d/%s for %s", messages, per, strings.Join(on, ", ")), err
}

func didTo(what string, do func(context.Context, string) ([]string, error), ctx context.Context, pipeline string) (string, error) {
	on, err := do(ctx, pipeline)
	return what + " " + strings.Join(on, ", "), err
}
