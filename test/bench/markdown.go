package main

import (
	"bytes"
	"fmt"
	"strings"
)

// These comments mark the generated block in docs/performance.md.
const (
	figuresBegin = "<!-- figures: go run ./test/bench --curves --markdown -->"
	figuresEnd   = "<!-- end of figures -->"
)

// markdown formats the report as that block.
func markdown(rep report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n%s; medians of up to %d rounds.\n\n", figuresBegin, rep.Machine, rep.Rounds)
	b.WriteString("| row | flowd | limit | flowd vs limit | flowd vs peers | CPU s/M | MiB | allocs | goals | A/A " +
		"|\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rep.Rows {
		if r.Skipped != "" || len(r.Scores[0].Rounds) == 0 {
			fmt.Fprintf(&b, "| %s | skipped: %s | | | | | | | | |\n", r.Name, strings.ReplaceAll(r.Skipped, "\n", " "))
			continue
		}
		flowd, limit, ratio := r.Scores[0], "–", "–"
		var peers, goals []string
		for _, s := range r.Scores[1:] {
			switch {
			case s.Limit:
				limit, ratio = s.Name+": "+formatNumber(r.metric.median(s.Rounds)), formatRatio(s.Flowd)
			case s.Skipped == "":
				peers = append(peers, s.Name+" "+formatRatio(s.Flowd))
			}
		}
		for _, g := range r.Goals {
			goals = append(goals, g.Text+" "+g.mark())
		}
		value := formatNumber(r.metric.median(flowd.Rounds)) + " " + r.metric.unit
		if r.metric.name == p99.name {
			value = fmt.Sprintf("p50 %s, p99 %s, p99.9 %s ms at %s msg/s", formatNumber(p50.median(flowd.Rounds)),
				formatNumber(p99.median(flowd.Rounds)), formatNumber(p999.median(flowd.Rounds)), formatNumber(flowd.Rounds[0].Load))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Name, value, limit, ratio,
			strings.Join(peers, ", "),
			formatNumber(cpu.median(flowd.Rounds)), formatNumber(peak.median(flowd.Rounds)), formatNumber(flowd.Allocs),
			strings.Join(goals, "; "), r.noise())
	}
	if len(rep.Curves) > 0 {
		b.WriteString("\n| curve | CPU µs per message | should be | is |\n|---|---|---|---|\n")
	}
	for _, c := range rep.Curves {
		var points []string
		for _, p := range c.Points {
			points = append(points, fmt.Sprintf("%d: %s", p.X, formatNumber(p.Cost)))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.Name, strings.Join(points, ", "), c.Want, c.Is)
	}
	fmt.Fprintf(&b, "\n%s\n", figuresEnd)
	return b.Bytes()
}

func (t target) mark() string {
	switch {
	case !t.Judged:
		return "(not judged)"
	case t.Met:
		return "✓"
	}
	return "✗ " + formatNumber(t.Got)
}
