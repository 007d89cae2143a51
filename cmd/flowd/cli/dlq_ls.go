package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newDlqLs() *cobra.Command {
	var pick dlqPick
	var files []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls SOURCE",
		Short: "Group dead letters by cause, with counts over time",
		Long: `Ls groups dead letters by their cause: class, place, and reason without the parts
that differ. It shows when messages of a group first failed, and the first letter.
With -c, it shows the place in the pipeline file, too. Nothing is removed; letters
of a queue are hidden from others until ls ends.`,
		Example: `  flowd dlq ls dead.ndjson -c orders.yaml
  flowd dlq ls 'dead*.ndjson' --json | jq '.groups[] | {id, reason, letters}'
  flowd dlq ls amqp://localhost/ orders-dead -n 1000`,
		RunE: onLetters(&pick, never, func(c *dlqCall) error {
			places, err := c.places(files)
			if err != nil {
				return err
			}
			var s deadletters.Summary
			more, err := c.each(c.stop, pick.n, func(l deadletters.Letter) error { s.Add(l); return nil })
			if err != nil {
				return c.interrupted(err)
			}
			if asJSON {
				return writeJSON(c.cmd.OutOrStdout(), c.summaryJSON(&s, places, more))
			}
			return c.writeSummary(&s, places, more)
		}),
	}
	pick.add(cmd, 0, "read at most this many letters")
	addFiles(cmd, &files)
	addJSON(cmd, &asJSON)
	return cmd
}

// interrupted turns the error of a signal into its exit code.
func (c *dlqCall) interrupted(err error) error {
	if err != nil && c.stop.Err() != nil {
		return exit(handedBack)
	}
	return err
}

// dlqPlaces has the places of steps and outputs in pipeline files.
type dlqPlaces map[string][]schema.Pos

// places reads pipeline files, if there are any.
func (c *dlqCall) places(files []string) (dlqPlaces, error) {
	if len(files) == 0 {
		return nil, nil
	}
	loaded, err := c.load(files, config.Options{Secrets: c.secrets, Testing: true})
	if err != nil {
		return nil, err
	}
	all := dlqPlaces{}
	for _, p := range loaded.Pipelines {
		config.EachStep(p.Spec, func(s *engine.StepSpec) {
			key := "step " + config.StepName(s)
			all[key] = append(all[key], s.Place.Pos)
		})
		for name, o := range p.Spec.Outputs.All() {
			all["output "+name] = append(all["output "+name], o.Place.Pos)
		}
	}
	return all, nil
}

// of returns the place of a cause as FILE:LINE:COLUMN, or "" if it is unknown. If several steps have the name, it is the first.
func (p dlqPlaces) of(cause string) string {
	switch all := p[cause]; len(all) {
	case 0:
		return ""
	case 1:
		return all[0].String()
	default:
		return fmt.Sprintf("%s and %s", all[0], agreeing(int64(len(all)-1), "more place", "more places"))
	}
}

// dlqBars are the most columns of a histogram.
const dlqBars = 24

func (c *dlqCall) writeSummary(s *deadletters.Summary, places dlqPlaces, more bool) error {
	out := c.cmd.OutOrStdout()
	color, columns := colored(out), columnsOf(out)
	groups := s.Groups()
	var b strings.Builder
	line := func(indent, text string) {
		b.WriteString(indent + cut(c.hide(oneLine(text)), columns-len(indent)) + "\n")
	}
	first := ""
	if more {
		first = "the first "
	}
	fmt.Fprintf(&b, "%s: %s%s", c.hide(oneLine(c.name)), first, agreeing(s.Letters, "dead letter", "dead letters"))
	if len(groups) > 0 {
		fmt.Fprintf(&b, " in %s", plural(len(groups), "group"))
	}
	b.WriteByte('\n')
	for _, g := range groups {
		b.WriteByte('\n')
		head := fmt.Sprintf("  %s", agreeing(g.Letters, "letter", "letters"))
		for _, part := range []string{g.Class, g.Place(), places.of(g.Place())} {
			if part != "" {
				head += "  " + part
			}
		}
		b.WriteString(paint(color, bold, g.ID))
		line("", head)
		reason := g.Reason
		if reason == "" {
			reason = "no reason is recorded"
		}
		line("  ", reason)
		if begin, width, counts := g.Times.Bars(dlqBars); counts != nil {
			line("  ", spark(counts)+"  "+overTime(begin, width, g))
		}
		line("  ", c.example(&g.Example))
	}
	if s.Other > 0 {
		fmt.Fprintf(&b, "\n%s of more groups\n", agreeing(s.Other, "letter", "letters"))
	}
	if s.Broken > 0 {
		line("\n", fmt.Sprintf("%s not in the form that framing messages writes, the first in %s",
			agreeing(s.Broken, "line is", "lines are"), strings.TrimPrefix(s.Missing, c.name+", ")))
	}
	_, err := out.Write([]byte(b.String()))
	return err
}

// columnsOf returns the columns of a terminal, or 80.
func columnsOf(out any) int {
	if n := width(out); n >= 20 {
		return n
	}
	return 80
}

// example describes a letter on one line.
func (c *dlqCall) example(l *deadletters.Letter) string {
	text := string(l.Payload[:min(len(l.Payload), 1000)])
	if where := strings.TrimPrefix(l.Where, c.name+", "); where != "" {
		return where + ": " + text
	}
	return text
}

// overTime says which time the bars of a group cover.
func overTime(begin time.Time, width time.Duration, g *deadletters.Group) string {
	const form = "2006-01-02 15:04"
	if g.First.Equal(g.Last) {
		return g.First.UTC().Format(form + ":05 UTC")
	}
	each := map[time.Duration]string{time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day",
		7 * 24 * time.Hour: "week"}[width]
	if each == "" {
		each = strings.TrimSuffix(strings.TrimSuffix(width.String(), "0s"), "0m")
	}
	last := g.Last.UTC().Format(form)
	if g.First.UTC().Format(time.DateOnly) == g.Last.UTC().Format(time.DateOnly) {
		last = g.Last.UTC().Format("15:04")
	}
	return fmt.Sprintf("per %s, %s to %s UTC", each, g.First.UTC().Format(form), last)
}

// spark draws counts as bars.
func spark(counts []int64) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := int64(1)
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		i := int(n * 7 / most)
		b.WriteString(string([]rune(bars)[i]))
	}
	return b.String()
}

// cut shortens text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n++; n == most {
			return text[:i] + "…"
		}
	}
	return text
}

// dlqGroupJSON is the JSON form of a group.
type dlqGroupJSON struct {
	ID      string         `json:"id"`
	Class   string         `json:"class,omitempty"`
	Step    string         `json:"step,omitempty"`
	Output  string         `json:"output,omitempty"`
	Reason  string         `json:"reason"`
	Letters int64          `json:"letters"`
	First   *time.Time     `json:"first,omitempty"`
	Last    *time.Time     `json:"last,omitempty"`
	At      []string       `json:"at,omitempty"` // in the pipeline file
	Counts  []dlqCountJSON `json:"counts,omitempty"`
	Example map[string]any `json:"example"`
}

type dlqCountJSON struct {
	From    time.Time `json:"from"`
	Seconds int64     `json:"seconds"`
	Letters int64     `json:"letters"`
}

func (c *dlqCall) summaryJSON(s *deadletters.Summary, places dlqPlaces, more bool) any {
	groups := []dlqGroupJSON{} // [] instead of null
	for _, g := range s.Groups() {
		j := dlqGroupJSON{ID: g.ID, Class: g.Class, Step: g.Step, Output: g.Output, Reason: c.secrets.Mask(g.Reason),
			Letters: g.Letters, Example: c.letterJSON(&g.Example)}
		for _, pos := range places[g.Place()] {
			j.At = append(j.At, pos.String())
		}
		if !g.First.IsZero() {
			j.First, j.Last = &g.First, &g.Last
		}
		begin, width, counts := g.Times.Bars(dlqBars)
		for i, n := range counts {
			if n > 0 {
				j.Counts = append(j.Counts, dlqCountJSON{begin.Add(time.Duration(i) * width), int64(width.Seconds()), n})
			}
		}
		groups = append(groups, j)
	}
	return struct {
		Source  string         `json:"source"`
		Letters int64          `json:"letters"`
		More    bool           `json:"more"` // there are more letters than were read
		Broken  int64          `json:"broken"`
		Other   int64          `json:"other"` // letters of more groups than are listed
		Groups  []dlqGroupJSON `json:"groups"`
	}{c.secrets.Mask(c.name), s.Letters, more, s.Broken, s.Other, groups}
}
