package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// only returns the state of one pipeline.
func only(st service.State, pipeline string) (service.State, error) {
	var names []string
	for i, p := range st.Pipelines {
		if p.Name == pipeline {
			st.Pipelines = st.Pipelines[i : i+1]
			others := func(c service.Check) bool { return c.Pipeline != pipeline }
			st.Live = service.NewHealth(slices.DeleteFunc(st.Live.Checks, others))
			st.Ready = service.NewHealth(slices.DeleteFunc(st.Ready.Checks, others))
			return st, nil
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return st, fmt.Errorf("there is no pipeline %q (none runs)", pipeline)
	}
	return st, shownError{fmt.Errorf("there is no pipeline %q (there are %s)", pipeline, strings.Join(names, ", "))}
}

// writeState shows each pipeline with a line per component, and then the findings of the health check.
func writeState(w io.Writer, st service.State, now time.Time) error {
	color := colored(w)
	var b strings.Builder
	for _, p := range st.Pipelines {
		b.WriteString(paint(color, bold, oneLine(p.Name)) + "  " + oneLine(p.State))
		if !p.Since.IsZero() {
			b.WriteString(" for " + seconds(now.Sub(p.Since)))
		}
		b.WriteString("\n" + pipelineLines(p) + waitLines(p.Waits))
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		componentRows(p, now, func(cells ...string) {
			for i, c := range cells {
				cells[i] = oneLine(c)
			}
			fmt.Fprintln(t, "  "+strings.Join(cells, "\t"))
		})
		_ = t.Flush() // writing to b can't fail
		b.WriteByte('\n')
	}
	if len(st.Pipelines) == 0 {
		b.WriteString("no pipeline runs\n\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return writeHealth(w, st.Ready) // includes the findings of live
}

// oneLine makes text printable and replaces line breaks.
func oneLine(s string) string { return strings.ReplaceAll(printable(s), "\n", " ") }

// pipelineLines shows the numbers of the pipeline as a whole.
func pipelineLines(p service.Pipeline) string {
	m := p.Messages
	roots := engine.Counts{InFlight: m.InFlight}
	roots.Ended[engine.Delivered], roots.Ended[engine.Filtered] = m.Delivered, m.Filtered
	roots.Ended[engine.DeadLettered], roots.Ended[engine.Dropped], roots.Ended[engine.Returned] = m.DeadLettered,
		m.Dropped, m.Returned
	var b strings.Builder
	fmt.Fprintf(&b, "  %s received", amount(m.Received))
	if ends := fates(roots); ends != "" {
		b.WriteString(": " + ends)
	}
	fmt.Fprintf(&b, "\n  %s of %s messages and %s of %s in flight, %d of %d lanes busy",
		amount(int64(p.CreditMessages.Used)), amount(int64(p.CreditMessages.Max)),
		volume(int64(p.CreditBytes.Used)), volume(int64(p.CreditBytes.Max)), p.Lanes.Used, p.Lanes.Max)
	if p.Waiting > 0 {
		fmt.Fprintf(&b, ", %s waiting (%s for a retry)", amount(int64(p.Waiting)), amount(int64(p.Retrying)))
	}
	if p.OldestUnsettled > 0 {
		b.WriteString(", the oldest " + span(p.OldestUnsettled))
		if p.OldestPosition != "" {
			b.WriteString(" (" + oneLine(p.OldestPosition) + ")")
		}
	}
	b.WriteByte('\n')
	if h := p.Held; h != nil {
		fmt.Fprintf(&b, "  waits longest: %s, %s, for %s, continues in %s\n", oneLine(h.Position), span(h.Age),
			oneLine(h.For), span(h.Due))
	}
	if p.Latency.Count > 0 {
		b.WriteString("  from read to settled: " + quantiles(p.Latency) + "\n")
	}
	if n := counted(p.Failures); n != "" {
		b.WriteString("  failures: " + oneLine(n) + "\n")
	}
	return b.String()
}

// waitLines says what holds up what, a line for each.
func waitLines(all []service.Wait) string {
	var b strings.Builder
	for _, w := range all {
		text := w.Who
		if w.For != "" {
			text += " waits for " + w.For
		}
		b.WriteString("  " + oneLine(text+": "+facts(strings.ReplaceAll(w.Why, "_", "-"), w.Detail)) + "\n")
	}
	return b.String()
}

// quantiles formats the quantiles of a latency.
func quantiles(l service.Latency) string {
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s", span(l.P50), span(l.P90), span(l.P99))
}

// componentRows calls row for each component, with the cells kind, name, type and facts.
func componentRows(p service.Pipeline, now time.Time, row func(...string)) {
	for _, in := range p.Inputs {
		row("input", in.Name, in.Type, facts(in.State, dueIn(in.Due, now), amount(in.Received)+" received", volume(in.Bytes),
			some(in.Unacked, "unacked"), some(in.Restarts, "restarts"), instances(in.Instances)))
		if in.Progress != nil {
			progressRows(in.Progress, row)
		}
		sourceRows(in.Sources, now, row)
	}
	for _, s := range p.Steps {
		name := s.Name
		if s.Place != "processors" {
			name += " of " + s.Place
		}
		row("step", name, s.Type, facts(amount(s.Received)+" received", some(s.Failed, "failed"),
			some(s.Retries, "retried"), took(s.Mean, s.Latency, "a call")))
		workerRows(s.Pool, row)
	}
	for _, x := range p.Batchers {
		mean := ""
		if x.Mean > 0 {
			mean = fmt.Sprintf("%.3g messages in one", x.Mean)
		}
		row("batcher", x.Name, "", facts(amount(int64(x.Open))+" in open batches", counted(x.Batches), mean, leadsTo(p.Edges, "batcher "+x.Name)))
	}
	for _, x := range p.Outputs {
		state := ""
		if x.Breaker != "" && x.Breaker != "closed" {
			state = "breaker " + x.Breaker
		}
		row("output", x.Name, x.Type, facts(state, amount(x.Written)+" written", queued(x),
			fmt.Sprintf("%d of %d writes", x.Writes.Used, x.Writes.Max), some(x.Failed, "failed"),
			some(x.Retries, "retried"),
			some(x.Abandoned, "abandoned"), took(x.Mean, x.Latency, "a write")))
	}
	for _, x := range p.Limits {
		row("limit", x.Name, fmt.Sprintf("%d/%s", x.Messages, time.Duration(x.Per*float64(time.Second))),
			facts(amount(x.Waited)+" waits", some(int64(x.Keys), "keys")))
	}
	for _, x := range p.Tables {
		row("table", x.Name, x.Format, facts(some(int64(x.Rows), "rows"), volume(x.Bytes), some(x.Reloads, "reloads"),
			some(x.Failures, "unusable versions"), x.Error))
	}
}

// mostPositions bounds the parts of a source that are shown. Those with the largest lag come first.
const mostPositions = 10

// progressRows adds a row for each part of a source that has a lag.
func progressRows(p *service.Progress, row func(...string)) {
	lag := func(n int64) string {
		if p.Unit == "bytes" {
			return "lag " + volume(n)
		}
		return "lag " + amount(n)
	}
	row("", "positions", "", facts(amount(int64(p.Count)), lag(p.Lag), some(p.Revoked, "revoked"),
		some(p.TakenAway, "messages moved to other readers")))
	behind := slices.DeleteFunc(slices.Clone(p.Positions), func(at service.Position) bool { return at.Lag == 0 })
	slices.SortStableFunc(behind, func(a, b service.Position) int { return cmp.Compare(b.Lag, a.Lag) })
	for _, at := range behind[:min(len(behind), mostPositions)] {
		row("", at.Name, "", facts(lag(at.Lag), fmt.Sprintf("settled %d, read %d, end %d", at.Settled, at.Read,
			at.End)))
	}
	if more := len(behind) - mostPositions; more > 0 {
		row("", "…", "", amount(int64(more))+" more")
	}
}

// mostSources bounds the sources of an input that are shown. Those that fail come first.
const mostSources = 10

// sourceRows adds a row for each source of an input that reads several.
func sourceRows(all []service.Source, now time.Time, row func(...string)) {
	for _, s := range all[:min(len(all), mostSources)] {
		row("", s.Name, "source", facts(s.State, dueIn(s.Due, now), amount(s.Received)+" received",
			some(int64(s.InFlight), "in flight"), some(int64(s.Weight), "weight"), s.Error))
	}
	if more := len(all) - mostSources; more > 0 {
		row("", "…", "", amount(int64(more))+" more")
	}
}

// workerRows adds a row for the pool of a step, and one for each worker.
func workerRows(p *service.Pool, row func(...string)) {
	if p == nil {
		return
	}
	row("", "jobs", "", facts(fmt.Sprintf("%d of %d slots busy", p.InFlight, p.Slots), some(int64(p.Waiting), "waiting")))
	for _, w := range p.Workers {
		row("", w.Name, "worker", facts(fmt.Sprintf("%d of %d slots busy", w.Busy, w.Slots), "heard "+span(w.Heard)+" ago", w.Version,
			w.Refused))
	}
}

// dueIn says when something is due, or returns "" if it is due now.
func dueIn(due, now time.Time) string {
	if !due.After(now) {
		return ""
	}
	return fmt.Sprintf("due in %s (%s)", seconds(due.Sub(now)), due.UTC().Format(time.RFC3339))
}

// instances counts the instances of an input by state, or returns "" for a single one.
func instances(all []service.Instance) string {
	if len(all) < 2 {
		return ""
	}
	states := map[string]int64{}
	for _, i := range all {
		states[i.State]++
	}
	return fmt.Sprintf("%d instances (%s)", len(all), counted(states))
}

// leadsTo names the components to which messages go from one.
func leadsTo(edges []service.Edge, from string) string {
	var all []string
	for _, e := range edges {
		if e.From == from && !e.Failed {
			all = append(all, e.To)
		}
	}
	if all == nil {
		return ""
	}
	return "to " + strings.Join(all, " and ")
}

// queued describes the queue of an output.
func queued(x service.Output) string {
	if x.Queued == 0 {
		return ""
	}
	return fmt.Sprintf("%s queued (%s)", amount(int64(x.Queued)), volume(int64(x.QueuedBytes)))
}

// writeHealth writes ok, or each finding with its remedy.
func writeHealth(w io.Writer, h service.Health) error {
	color := colored(w)
	var b strings.Builder
	if len(h.Checks) == 0 {
		b.WriteString(oneLine(h.Status) + "\n")
	}
	for _, c := range h.Checks {
		b.WriteString(paint(color, red, oneLine(c.Indicator)))
		if at := strings.TrimSpace(c.Pipeline + " " + c.Component); at != "" {
			b.WriteString(" in " + oneLine(at))
		}
		if !c.Since.IsZero() {
			b.WriteString(" since " + c.Since.Local().Format(time.DateTime))
		}
		b.WriteByte('\n')
		for _, line := range [][2]string{{"impact", c.Impact}, {"cause", c.Cause}, {"error", c.Error},
			{"where", c.Position}, {"action", c.Action}} {
			if line[1] != "" {
				fmt.Fprintf(&b, "  %-7s %s\n", line[0]+":",
					strings.ReplaceAll(printable(line[1]), "\n", "\n          "))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// facts joins the texts that are not empty.
func facts(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ", ")
}

// some returns a number with its noun, or "" for zero.
func some(n int64, noun string) string {
	if n == 0 {
		return ""
	}
	return amount(n) + " " + noun
}

// counted lists numbers by name, such as: 12 size, 3 timeout.
func counted(n map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		all = append(all, some(n[name], name))
	}
	return facts(all...)
}

// volume formats a number of bytes with three digits, such as 1.21MiB.
func volume(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if size < 999.5 { // 999.5 and more would round to 1000
			break
		}
		size, unit = size/1024, next
	}
	return strconv.FormatFloat(size, 'g', 3, 64) + unit
}

// took formats a mean time with the 99th percentile, if it is known, or returns "" for zero.
func took(mean float64, l service.Latency, per string) string {
	if mean <= 0 {
		return ""
	}
	text := span(mean) + " " + per
	if l.P99 > 0 {
		text += " (p99 " + span(l.P99) + ")"
	}
	return text
}

// span formats seconds with few digits.
func span(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < 10*time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return seconds(d)
}
