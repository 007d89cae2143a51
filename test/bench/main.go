// Command bench builds flowd, measures it, and prints a table of ratios. flowd is compared
// with small Go programs for the same work, which are part of this command, and with
// benthos and jq if they are on PATH. Run it from anywhere in the repository:
//
//	go run ./test/bench
//
// In each round, the contestants of a row run one after the other, so that drift of the
// machine affects all of them. Figures are medians. Every answer is checked, and a wrong
// answer gets no figures. Start reading at rows.go, which has the table of rows;
// docs/performance.md explains the method.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "baseline" {
		exitOn(baseline(os.Args[2:]))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exitOn(err error) {
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the command-line flags.
type options struct {
	rows, flowd, before, json, svg string
	rounds, messages               int
	curves, quick, markdown        bool
	cold                           bool
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.rows, "rows", "", "measure only rows and curves whose names match `REGEX`")
	f.IntVar(&o.rounds, "rounds", 0, "run each contestant `N` times (default 5; 3 with --quick)")
	f.IntVar(&o.messages, "messages", 0, "send at most `N` messages per turn (default 1000000; 100000 with --quick)")
	f.StringVar(&o.flowd, "flowd", "", "measure the binary `PATH` instead of building one")
	f.StringVar(&o.before, "before", "", "also measure the older binary `PATH`, in the same rounds")
	f.StringVar(&o.json, "json", "", "write all figures to `FILE`, or - for stdout")
	f.StringVar(&o.svg, "svg", "", "draw a chart of the table to `FILE`, and with --curves also FILE-curves.svg")
	f.BoolVar(&o.curves, "curves", false, "also measure how cost grows")
	f.BoolVar(&o.quick, "quick", false, "fewer rounds and messages: takes a minute")
	f.BoolVar(&o.cold, "cold", false,
		"drop the page cache after a tenth of each run of an HTTP row, and measure the rest (Linux, as root)")
	f.BoolVar(&o.markdown, "markdown", false, "print the block of figures for docs/performance.md")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q (see --help)", f.Arg(0))
	}
	if o.rounds < 0 || o.messages < 0 {
		return o, errors.New("--rounds and --messages must be positive")
	}
	return o, nil
}

// run is the command without its baselines.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.rows)
	if err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	w, err := newWorld(ctx, o.flowd, o.before)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.log, w.cold = stderr, o.cold
	if o.quick {
		w.rounds, w.messages, w.turn, w.budget, w.checked = 3, 100_000, quickTurn, quickBudget, 500
	}
	w.rounds, w.messages = cmp.Or(o.rounds, w.rounds), cmp.Or(o.messages, w.messages)
	table := stdout
	if o.json == "-" || o.markdown {
		table = stderr // stdout is for the JSON or Markdown
	}
	rep := w.measureAll(only, o.curves, table)
	if len(rep.Rows)+len(rep.Curves) == 0 && ctx.Err() == nil {
		return fmt.Errorf("--rows %s matches no row (they are in test/bench/rows*.go; with --curves, also in curves.go)",
			o.rows)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(w.write(rep, o, stdout), rep.verdict())
}

// report has the results of all rows and curves.
type report struct {
	Machine machine       `json:"machine"`
	Rounds  int           `json:"rounds"`
	Took    time.Duration `json:"took_ns"`
	Rows    []result      `json:"rows"`
	Curves  []curve       `json:"curves,omitempty"`
	Wrong   []string      `json:"wrong,omitempty"` // wrong answers, and failures of contestants
}

// measureAll measures the rows and curves whose names match, and prints each result at once.
func (w *world) measureAll(only *regexp.Regexp, curved bool, table io.Writer) report {
	began := time.Now()
	rep := report{Machine: w.machine(), Rounds: w.rounds}
	rep.head(table)
	chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !only.MatchString(r.name) })
	traced := slices.DeleteFunc(slices.Clone(curves), func(c curve) bool {
		return !curved || !only.MatchString(c.Name)
	})
	share := w.budget / time.Duration(max(len(chosen)+len(traced), 1))
	w.due = began
	for _, r := range chosen {
		if w.ctx.Err() != nil {
			return rep
		}
		w.due = w.due.Add(share)
		res := w.measure(&r)
		res.print(table)
		rep.Rows = append(rep.Rows, res)
		fmt.Fprintf(w.log, "bench: %s took %.1f s\n", r.name, res.Took.Seconds())
	}
	for _, c := range traced {
		if w.ctx.Err() != nil {
			return rep
		}
		w.due = w.due.Add(share)
		c = w.measureCurve(c)
		c.print(table)
		rep.Curves = append(rep.Curves, c)
		fmt.Fprintf(w.log, "bench: curve %s took %.1f s\n", c.Name, c.Took.Seconds())
	}
	rep.Took, rep.Wrong = time.Since(began), w.failures
	rep.foot(table)
	return rep
}

// verdict returns an error if any contestant failed or gave a wrong answer.
func (rep report) verdict() error {
	if len(rep.Wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d runs failed or gave a wrong answer: they are listed above and have no figures", len(rep.Wrong))
}
