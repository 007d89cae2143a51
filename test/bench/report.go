package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// machine is where it was measured.
type machine struct {
	OS       string            `json:"os"`
	CPUs     int               `json:"cpus"`
	CPU      string            `json:"cpu"`
	Go       string            `json:"go"`
	Revision string            `json:"revision"`
	Peers    map[string]string `json:"peers"` // "" where one is missing
}

func (w *world) machine() machine {
	m := machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), CPU: processor(),
		Go: runtime.Version(), Peers: map[string]string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				m.Revision = s.Value
			}
		}
	}
	for _, name := range peers {
		out, _ := exec.CommandContext(w.ctx, w.vars[name], "--version").Output()
		m.Peers[name], _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	}
	return m
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // Linux has it
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d × %s, %s", m.OS, m.CPUs, m.CPU, m.Go)
}

// figure is a number with about three digits.
func figure(x float64) string {
	switch {
	case x == 0:
		return "–"
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x >= 0.1:
		return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 2, 64), ".00")
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

func times(x float64) string {
	if x == 0 {
		return "–"
	}
	return figure(x) + "×"
}

// column is one of the table.
type column struct {
	head string
	of   func(score) string
}

func mid(m metric) func(score) string {
	return func(s score) string { return figure(m.mid(s.Rounds)) }
}

// columns of the table; those in which a row has nothing show a dash.
var columns = []column{
	{"k msg/s", mid(rate)},
	{"MB/s", mid(speed)},
	{"CPU s/M", mid(cpu)},
	{"MiB", mid(peak)},
	{"allocs", mid(alloc)},
	{"p50 ms", mid(p50)},
	{"p99 ms", mid(p99)},
	{"p99.9", mid(p999)},
	{"× limit", func(s score) string { return times(s.OfLimit) }},
	{"flowd is", func(s score) string { return times(s.Flowd) }},
	{"less CPU", func(s score) string { return times(s.CPU) }},
}

const nameWidth = 24

func (rep report) head(to io.Writer) {
	fmt.Fprintf(to, "%s; medians of up to %d rounds\n\n%-*s %11s", rep.Machine, rep.Rounds, nameWidth, "",
		"compared by")
	for _, c := range columns {
		fmt.Fprintf(to, " %8s", c.head)
	}
	fmt.Fprintln(to)
}

// print writes a row of the table: what it does, the contestants, the goals.
func (res result) print(to io.Writer) {
	fmt.Fprintf(to, "%s: %s", res.Name, res.Does)
	if res.Skipped != "" {
		fmt.Fprintf(to, "\n  SKIPPED: %s\n", res.Skipped)
		return
	}
	fmt.Fprintf(to, " (%s; A/A %s)\n", res.Metric, res.noise())
	for _, s := range res.Scores {
		name := s.Name
		if s.Limit {
			name += " (limit)"
		}
		fmt.Fprintf(to, "  %-*s", nameWidth-2, name)
		if s.Skipped != "" {
			fmt.Fprintf(to, " %s\n", s.skipped())
			continue
		}
		fmt.Fprintf(to, " %11s", figure(res.metric.mid(s.Rounds))+" "+res.metric.unit)
		for _, c := range columns {
			fmt.Fprintf(to, " %8s", c.of(s))
		}
		fmt.Fprintln(to)
	}
	for _, g := range res.Goals {
		fmt.Fprintf(to, "    %s\n", g)
	}
}

func (s score) skipped() string {
	first, _, _ := strings.Cut(s.Skipped, "\n")
	return "SKIPPED: " + first
}

func (res result) noise() string {
	if res.Noise == 0 {
		return "–"
	}
	return fmt.Sprintf("±%.0f %%", 100*res.Noise)
}

func (t target) String() string {
	switch {
	case !t.Judged:
		return "goal " + t.Text + ": not judged, the other is missing"
	case t.Met:
		return "goal " + t.Text + ": met, " + figure(t.Got)
	}
	return "goal " + t.Text + ": MISSED, " + figure(t.Got)
}

// foot says how far flowd was from itself, and what was wrong.
func (rep report) foot(to io.Writer) {
	var noise []float64
	met, judged := 0, 0
	for _, r := range rep.Rows {
		if r.Skipped == "" && len(r.Scores) > 0 && len(r.Scores[0].Rounds) > 0 && r.Noise > 0 {
			noise = append(noise, 100*r.Noise)
		}
		for _, g := range r.Goals {
			if g.Judged {
				judged++
			}
			if g.Met {
				met++
			}
		}
	}
	fmt.Fprintf(to,
		"\nA/A: flowd against itself, in turn with all others: median ±%.1f %% of a row, what is less is noise\n",
		median(noise))
	fmt.Fprintf(to, "%d of %d goals met; %.0f s\n", met, judged, rep.Took.Seconds())
	for _, text := range rep.Wrong {
		fmt.Fprintf(to, "WRONG: %s\n", text)
	}
}

// write writes what the flags ask for in addition to the table.
func (w *world) write(rep report, o options, stdout io.Writer) error {
	var errs []error
	if o.json != "" {
		text, err := json.MarshalIndent(rep, "", "  ")
		errs = append(errs, err, to(o.json, stdout, append(text, '\n')))
	}
	if o.svg != "" {
		errs = append(errs, to(o.svg, stdout, bars(rep)))
		if len(rep.Curves) > 0 {
			errs = append(errs, to(strings.TrimSuffix(o.svg, ".svg")+"-curves.svg", stdout, drawCurves(rep.Curves)))
		}
	}
	if o.markdown {
		_, err := stdout.Write(markdown(rep))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func to(path string, stdout io.Writer, text []byte) error {
	if path == "-" {
		_, err := stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // it is for all to read
}
