// Command bench measures the built flowd and prints one table of ratios: against small
// hand-written Go programs that do the same work, which are part of this program, and
// against benthos and jq where they are on PATH. Run it from anywhere in the repository:
//
//	go run ./test/bench
//
// In each round all contestants of a row have their turn, one after the other, so what
// drifts, drifts for all; figures are medians. Every answer is checked, as a wrong one
// has no speed. Start reading at rows.go, which is the table; docs/performance.md
// explains the method.
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

// options are the flags.
type options struct {
	rows, flowd, before, json, svg string
	rounds, messages               int
	curves, quick, markdown        bool
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.rows, "rows", "", "measure only rows and curves whose names match this `REGEX`")
	f.IntVar(&o.rounds, "rounds", 0, "`N` turns of each contestant (default 5; 3 with --quick)")
	f.IntVar(&o.messages, "messages", 0, "at most `N` messages in a turn (default 1000000; 100000 with --quick)")
	f.StringVar(&o.flowd, "flowd", "", "measure the binary `PATH` instead of building one")
	f.StringVar(&o.before, "before", "", "also measure the older binary `PATH`, in turn with all others")
	f.StringVar(&o.json, "json", "", "write all figures to `FILE`, or - for stdout")
	f.StringVar(&o.svg, "svg", "", "draw the ratios to `FILE`; with --curves those beside it, to FILE-curves.svg")
	f.BoolVar(&o.curves, "curves", false, "measure how cost grows, too")
	f.BoolVar(&o.quick, "quick", false, "less of everything, in a minute")
	f.BoolVar(&o.markdown, "markdown", false, "print the block of figures of docs/performance.md")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: no argument is expected (see --help)", f.Arg(0))
	}
	if o.rounds < 0 || o.messages < 0 {
		return o, errors.New("--rounds and --messages must be above 0")
	}
	return o, nil
}

// run is the whole program except its baselines.
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
	w.log = stderr
	if o.quick {
		w.rounds, w.messages, w.turn, w.budget, w.checked = 3, 100_000, quickTurn, quickBudget, 500
	}
	w.rounds, w.messages = cmp.Or(o.rounds, w.rounds), cmp.Or(o.messages, w.messages)
	table := stdout
	if o.json == "-" || o.markdown {
		table = stderr // stdout is for what was asked for
	}
	rep := w.all(only, o.curves, table)
	if len(rep.Rows)+len(rep.Curves) == 0 && ctx.Err() == nil {
		return fmt.Errorf("--rows %s: nothing has such a name (see test/bench/rows*.go and, with --curves, curves.go)",
			o.rows)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(w.write(rep, o, stdout), rep.verdict())
}

// report is all that was measured.
type report struct {
	Machine machine       `json:"machine"`
	Rounds  int           `json:"rounds"`
	Took    time.Duration `json:"took_ns"`
	Rows    []result      `json:"rows"`
	Curves  []curve       `json:"curves,omitempty"`
	Wrong   []string      `json:"wrong,omitempty"` // answers, and programs that failed
}

// all measures rows and curves whose names match, and prints each when it is done.
func (w *world) all(only *regexp.Regexp, curved bool, table io.Writer) report {
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
		c = w.trace(c)
		c.print(table)
		rep.Curves = append(rep.Curves, c)
		fmt.Fprintf(w.log, "bench: curve %s took %.1f s\n", c.Name, c.Took.Seconds())
	}
	rep.Took, rep.Wrong = time.Since(began), w.wrong
	rep.foot(table)
	return rep
}

// verdict is an error where anything was wrong: such figures are not to be believed.
func (rep report) verdict() error {
	if len(rep.Wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d answers were wrong or failed (they are listed above, and have no figures)", len(rep.Wrong))
}
