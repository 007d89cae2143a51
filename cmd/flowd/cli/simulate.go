package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// mostSteps bounds the steps that a simulation prints.
const mostSteps = 100_000

// simulation holds the arguments of `flowd simulate`.
type simulation struct {
	files, set   []string
	plugins      []string
	steps        int
	every        time.Duration
	found, empty []string
	json         bool

	finds map[string]int // messages that a read of a source finds; 1 if it has no entry
}

func newSimulate() *cobra.Command {
	s := simulation{finds: map[string]int{}}
	cmd := &cobra.Command{
		Use:   "simulate [-c] FILE...",
		Short: "Print the order in which poll inputs choose their sources",
		Long: `Simulate prints which source the strategy of each poll input chooses, read by read,
with one free slot at a time. Nothing is read: by default every read finds one
message; the clock is virtual. When all sources pause, it skips to the end of the
first pause.`,
		Example: `  flowd simulate orders.yaml --steps 12
  flowd simulate orders.yaml --empty critical              this source never has messages
  flowd simulate orders.yaml --found critical=10,bulk=0    messages per read`,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.files = append(s.files, args...); len(s.files) == 0 {
				return usage("no pipeline file is given")
			}
			return s.run(cmd)
		},
	}
	f := cmd.Flags()
	addFiles(cmd, &s.files)
	addSet(cmd, &s.set)
	addPlugins(cmd, &s.plugins)
	f.IntVar(&s.steps, "steps", 20, "reads to print")
	f.DurationVar(&s.every, "every", time.Second, "virtual time from one read to the next")
	f.StringSliceVar(&s.found, "found", nil, "`NAME=N`: a read of this source finds this many messages; may be repeated")
	f.StringSliceVar(&s.empty, "empty", nil, "`NAME` of a source that never has messages; may be repeated")
	addJSON(cmd, &s.json)
	return cmd
}

// polled is a poll input of a pipeline.
type polled struct {
	pipeline, input string
	polling.Plan
}

// choice is one step of a simulation.
type choice struct {
	Pipeline string  `json:"pipeline"`
	Input    string  `json:"input"`
	Step     int     `json:"step"`
	At       float64 `json:"at"` // seconds since the start
	Source   string  `json:"source"`
	Found    int     `json:"found"`
}

func (s *simulation) run(cmd *cobra.Command) error {
	switch {
	case s.steps < 1 || s.steps > mostSteps:
		return usage(fmt.Sprintf("--steps must be from 1 to %d", mostSteps))
	case s.every < 0:
		return usage("--every must not be negative")
	}
	secrets := &schema.Secrets{}
	loaded, err := load(cmd.ErrOrStderr(), s.files, config.Options{Set: s.set, Plugins: s.plugins, Secrets: secrets})
	if err != nil {
		return err
	}
	polls := pollsOf(loaded)
	if len(polls) == 0 {
		return usage("these pipelines have no poll input, so there is nothing to choose from")
	}
	if err := s.parseFound(polls); err != nil {
		return err
	}
	all := []choice{} // [] instead of null
	for i, p := range polls {
		choices, err := s.choices(p)
		if err != nil {
			return err
		}
		if all = append(all, choices...); !s.json {
			if err := writeChoices(cmd.OutOrStdout(), p, choices, i > 0, secrets); err != nil {
				return err
			}
		}
	}
	if s.json {
		for i := range all {
			all[i].Source = secrets.Mask(all[i].Source) // a queue's name may be a URL
		}
		return writeJSON(cmd.OutOrStdout(), all)
	}
	return nil
}

// pollsOf returns the poll inputs of the pipelines, in order.
func pollsOf(set *config.Set) (all []polled) {
	for _, p := range set.Pipelines {
		for name, in := range p.Spec.Inputs.All() {
			if c, ok := in.Use.Config.(interface{ Polling() polling.Plan }); ok {
				all = append(all, polled{p.Spec.Name, name, c.Polling()})
			}
		}
	}
	return all
}

// read parses --found and --empty, and checks that their sources exist.
func (s *simulation) parseFound(polls []polled) error {
	for _, pair := range s.found {
		name, text, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return usage(fmt.Sprintf("--found %s: write NAME=N, such as critical=10", pair))
		}
		s.finds[name] = n
	}
	for _, name := range s.empty {
		s.finds[name] = 0
	}
	var names []string
	for _, p := range polls {
		for _, src := range p.Sources {
			names = append(names, src.Name)
		}
	}
	for name := range s.finds {
		if !slices.Contains(names, name) {
			return usage(fmt.Sprintf("there is no source %q (there are %s)", name, strings.Join(names, ", ")))
		}
	}
	return nil
}

// choices plays the strategy. A source that is found empty pauses.
func (s *simulation) choices(p polled) ([]choice, error) {
	strategy, err := p.Strategy.New(engine.Env{})
	if err != nil {
		return nil, err
	}
	var all []choice
	begin := time.Unix(0, 0)
	now := begin
	due := map[*polling.Source]time.Time{}
	for len(all) < s.steps {
		var open []*polling.Source
		first := time.Time{} // when the first pause ends
		for _, src := range p.Sources {
			if at := due[src]; !now.Before(at) {
				open = append(open, src)
			} else if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if len(open) == 0 {
			now = first
			continue
		}
		src := strategy.Next(now, open)
		if src == nil {
			return nil, fmt.Errorf("%s: input %s: the strategy %s chooses no source", p.pipeline, p.input, p.Strategy)
		}
		n, ok := s.finds[src.Name]
		if !ok {
			n = 1
		}
		all = append(all, choice{p.pipeline, p.input, len(all) + 1, now.Sub(begin).Seconds(), src.Name, n})
		if n > 0 {
			strategy.Found(src, n)
			strategy.Done(src, n)
		} else {
			strategy.Empty(src)
			due[src] = now.Add(p.EmptyPause)
		}
		now = now.Add(s.every)
	}
	return all, nil
}

// writeChoices writes one input's choices as a table, and how often each source was chosen.
func writeChoices(w io.Writer, p polled, choices []choice, more bool, secrets *schema.Secrets) error {
	var b strings.Builder
	if more {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s: input %s: %s", p.pipeline, p.input, p.Strategy)
	if p.EmptyPause > 0 {
		fmt.Fprintf(&b, ", empty_pause %v", p.EmptyPause)
	}
	b.WriteByte('\n')
	width, times := 0, map[string]int{}
	for _, src := range p.Sources {
		width = max(width, len(src.Name))
	}
	for _, c := range choices {
		times[c.Source]++
		found := "empty"
		if c.Found > 0 {
			found = "found " + amount(int64(c.Found))
		}
		fmt.Fprintf(&b, "%4d  %6s  %-*s  %s\n", c.Step,
			time.Duration(c.At*float64(time.Second)).Round(time.Millisecond), width, c.Source, found)
	}
	for _, src := range p.Sources {
		fmt.Fprintf(&b, "%-*s  weight %d: %d of %d\n", width, src.Name, src.Weight, times[src.Name], len(choices))
	}
	_, err := io.WriteString(w, printable(secrets.Mask(b.String())))
	return err
}
