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

// machine describes where the figures were measured.
type machine struct {
	OS       string            `json:"os"`
	CPUs     int               `json:"cpus"`
	CPU      string            `json:"cpu"`
	Go       string            `json:"go"`
	Revision string            `json:"revision"`
	Peers    map[string]string `json:"peers"` // versions; "" if a peer is missing
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
	text, _ := os.ReadFile("/proc/cpuinfo") // Linux only
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

// formatNumber formats x with about three digits.
func formatNumber(x float64) string {
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

func formatRatio(x float64) string {
	if x == 0 {
		return "–"
	}
	return formatNumber(x) + "×"
}

// column is a column of the table.
type column struct {
	head string
	text func(score) string
}

func medianOf(m metric) func(score) string {
	return func(s score) string { return formatNumber(m.median(s.Rounds)) }
}

// columns of the table. A row without a figure for a column has a dash there.
var columns = []column{
	{"k msg/s", medianOf(rate)},
	{"MB/s", medianOf(speed)},
	{"CPU s/M", medianOf(cpu)},
	{"MiB", medianOf(peak)},
	{"allocs", medianOf(alloc)},
	{"p50 ms", medianOf(p50)},
	{"p99 ms", medianOf(p99)},
	{"p99.9", medianOf(p999)},
	{"× limit", func(s score) string { return formatRatio(s.OfLimit) }},
	{"flowd is", func(s score) string { return formatRatio(s.Flowd) }},
	{"less CPU", func(s score) string { return formatRatio(s.CPU) }},
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

// print writes a row: a heading, a line per contestant, a line per goal.
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
		fmt.Fprintf(to, " %11s", formatNumber(res.metric.median(s.Rounds))+" "+res.metric.unit)
		for _, c := range columns {
			fmt.Fprintf(to, " %8s", c.text(s))
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
		return "goal " + t.Text + ": not judged, the other contestant has no figures"
	case t.Met:
		return "goal " + t.Text + ": met, " + formatNumber(t.Got)
	}
	return "goal " + t.Text + ": MISSED, " + formatNumber(t.Got)
}

// foot writes the noise, the number of goals met, and all failures.
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
		"\nA/A: two runs of flowd differ by ±%.1f %% in the median row; smaller differences are noise\n",
		median(noise))
	fmt.Fprintf(to, "%d of %d goals met; %.0f s\n", met, judged, rep.Took.Seconds())
	for _, text := range rep.Wrong {
		fmt.Fprintf(to, "WRONG: %s\n", text)
	}
}

// write writes the files and formats that the flags ask for.
func (w *world) write(rep report, o options, stdout io.Writer) error {
	var errs []error
	if o.json != "" {
		text, err := json.MarshalIndent(rep, "", "  ")
		errs = append(errs, err, writeTo(o.json, stdout, append(text, '\n')))
	}
	if o.svg != "" {
		errs = append(errs, writeTo(o.svg, stdout, bars(rep)))
		if len(rep.Curves) > 0 {
			errs = append(errs, writeTo(strings.TrimSuffix(o.svg, ".svg")+"-curves.svg", stdout, drawCurves(rep.Curves)))
		}
	}
	if o.markdown {
		_, err := stdout.Write(markdown(rep))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func writeTo(path string, stdout io.Writer, text []byte) error {
	if path == "-" {
		_, err := stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // others may read it
}
