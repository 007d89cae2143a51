package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/conform"
	"github.com/flowd-io/flowd/internal/program/frame"
)

func newProgram() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "program",
		Short:   "Check a program that is a step, an input or an output",
		Example: "  flowd program check -- python3 score.py",
		RunE:    needsCommand,
	}
	cmd.AddCommand(newProgramCheck())
	return cmd
}

// checking holds the arguments of `flowd program check`.
type checking struct {
	kind           string
	config, sample string
	cases          []string
	timeout, start time.Duration
	json           bool
}

func newProgramCheck() *cobra.Command {
	k := checking{kind: frame.Step}
	cmd := &cobra.Command{
		Use:   "check [flags] -- COMMAND [ARGUMENT...]",
		Short: "Check that a program keeps to the protocol",
		Long: `Check starts a program as the component program does, plays hard cases with it, and
says what it does wrong: large and split frames, many batches at once, errors, cancel,
drain, closed pipes, signals. docs/programs.md has the protocol; each complaint names
its section.

The program gets about 3,000 messages: an output writes them. They are JSON documents
with the fields text, n and list, or the lines of --sample. An input gets credits and
fates, and is killed and started again at a position.

What the program prints appears on standard error.

Exit codes: 0 nothing is wrong, but there may be warnings; 1 something is wrong;
2 invalid usage, or there is no such program.`,
		Example: `  flowd program check -- python3 score.py
  flowd program check --config '{"model": "small"}' --sample reviews.jsonl -- node score.mjs
  flowd program check --kind input --case 'it continues after a position' -- ruby orders.rb
  flowd program check --json -- ./score | jq -r 'select(.verdict == "wrong") | .text'`,
		Args: cobra.MinimumNArgs(1),
		RunE: k.run,
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&k.kind, "kind", k.kind, "check it as a step, input or output")
	f.StringVar(&k.config, "config", "", "config of the component, as `JSON`")
	f.StringVar(&k.sample, "sample", "", "`FILE` with payloads that the program accepts, one per line")
	f.StringArrayVar(&k.cases, "case", nil, "play only the case with this `NAME`, and those that it needs; may be repeated")
	f.DurationVar(&k.timeout, "timeout", 10*time.Second, "how long a program that has work may send nothing, and take to exit")
	f.DurationVar(&k.start, "start-timeout", time.Minute, "how long the program may take until it is ready")
	addJSON(cmd, &k.json)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{frame.Step, frame.Input, frame.Output},
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("case", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return conform.Names(k.kind), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (k *checking) run(cmd *cobra.Command, command []string) error {
	o, err := k.options(command)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards standard error
	o.Said = func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(cmd.ErrOrStderr(), "program: %s\n", line)
	}
	ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, color := cmd.OutOrStdout(), colored(cmd.OutOrStdout())
	count := map[conform.Verdict]int{}
	var broken error // of standard output
	err = conform.Check(ctx, o, func(c conform.Outcome) {
		count[c.Verdict]++
		if k.json {
			broken = writeLine(out, c)
		} else {
			_, broken = io.WriteString(out, outcomeText(c, color))
		}
		if broken != nil {
			cancel()
		}
	})
	switch {
	case broken != nil:
		return broken
	case err != nil:
		return err
	}
	if !k.json {
		fmt.Fprintln(out, countedCases(count))
	}
	if count[conform.Wrong] > 0 {
		return exit(failed)
	}
	return nil
}

// options checks the arguments.
func (k *checking) options(command []string) (o conform.Options, err error) {
	o = conform.Options{Kind: k.kind, Cases: k.cases, Timeout: k.timeout, Start: k.start, Program: programs.Program{Command: command}}
	switch names := conform.Names(k.kind); {
	case !slices.Contains([]string{frame.Step, frame.Input, frame.Output}, k.kind):
		return o, usage(fmt.Sprintf("--kind %s: expected step, input or output", k.kind))
	case k.timeout <= 0 || k.start <= 0:
		return o, usage("--timeout and --start-timeout must be positive")
	case k.config != "" && !json.Valid([]byte(k.config)):
		return o, usage("--config is not valid JSON")
	default:
		for _, name := range k.cases {
			if !slices.Contains(names, name) {
				return o, usage(fmt.Sprintf("there is no case %q (there are %s)", name, strings.Join(names, "; ")))
			}
		}
	}
	if k.config != "" {
		o.Config = []byte(k.config)
	}
	if k.sample != "" {
		text, err := os.ReadFile(k.sample)
		if err != nil {
			return o, usage(fmt.Sprintf("--sample: %v", err))
		}
		for line := range bytes.Lines(text) {
			o.Sample = append(o.Sample, bytes.TrimRight(line, "\r\n"))
		}
		if len(o.Sample) == 0 {
			return o, usage("--sample: " + k.sample + " is empty")
		}
	}
	if err := o.Program.Find(); err != nil {
		return o, usage(err.Error())
	}
	return o, nil
}

// outcomeText describes the outcome of a case for a person.
func outcomeText(c conform.Outcome, color bool) string {
	var b strings.Builder
	word := fmt.Sprintf("%-8s", c.Verdict)
	switch c.Verdict {
	case conform.Wrong:
		word = paint(color, red, word)
	case conform.Warning:
		word = paint(color, yellow, word)
	case conform.Skipped:
		word = paint(color, dim, word)
	}
	fmt.Fprintf(&b, "%s %s", word, c.Case)
	if c.Verdict == conform.Skipped {
		fmt.Fprintf(&b, ": %s\n", c.Text)
		return b.String()
	}
	b.WriteByte('\n')
	section := fmt.Sprintf("docs/programs.md, %q: ", c.Section)
	for _, line := range []struct{ name, text string }{{"", c.Text}, {section, c.Rule}, {"frame: ", c.Frame}} {
		if line.text != "" {
			fmt.Fprintf(&b, "         %s%s\n", line.name, line.text)
		}
	}
	return b.String()
}

// countedCases sums up the outcomes.
func countedCases(count map[conform.Verdict]int) string {
	total := 0
	var parts []string
	for _, v := range []conform.Verdict{conform.OK, conform.Wrong, conform.Warning, conform.Skipped} {
		if n := count[v]; n > 0 || v == conform.Wrong {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
			total += n
		}
	}
	return plural(total, "case") + ": " + strings.Join(parts, ", ")
}
