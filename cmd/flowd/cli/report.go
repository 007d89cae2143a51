package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
)

// shownGroups bounds the reasons of failures that a report lists.
const shownGroups = 10

// report writes the outcome of a run: failures first, the summary last. As a record, it is one.
func (c *console) report(r runtime.Report, took time.Duration) {
	groups := slices.Clone(r.Failures)
	slices.SortStableFunc(groups, func(a, b runtime.FailureGroup) int { return int(b.Count - a.Count) })
	left, rest := max(0, len(groups)-shownGroups), int64(0)
	for _, g := range groups[len(groups)-left:] {
		rest += g.Count
	}
	groups = groups[:len(groups)-left]
	if c.handler() != nil {
		c.recordReport(r, took, groups, left)
		return
	}
	var b strings.Builder
	for _, g := range groups {
		b.WriteString(paint(c.color, red, r.Pipeline+": ") + failure(g))
	}
	if left > 0 {
		fmt.Fprintf(&b, "%s: and %s for other reasons\n", r.Pipeline, agreeing(rest, "failed message", "failed messages"))
	}
	for _, note := range notes(r) {
		fmt.Fprintf(&b, "%s: %s\n", r.Pipeline, note)
	}
	if r.Err != nil {
		b.WriteString(paint(c.color, red, r.Pipeline+": ") + printable(r.Err.Error()) + "\n")
	}
	b.WriteString(summary(r, took))
	_, _ = c.Write([]byte(b.String()))
}

// notes returns what there is to say about a run besides its failures and counts.
func notes(r runtime.Report) (all []string) {
	lost, late, remedy := false, false, "name an output in engine.on_failure.dead_letter to keep them"
	for _, g := range r.Failures {
		lost = lost || g.Fate == engine.Dropped && !g.First.Unfinished
		late = late || g.Fate == engine.Dropped && g.First.Unfinished
		if g.Fate == engine.DeadLettered {
			remedy = "the dead-letter output could not take them, or `then: drop` applies where they failed"
		}
	}
	if lost {
		all = append(all, "failed messages were dropped ("+remedy+")")
	}
	if late {
		all = append(all, "unfinished messages were lost (a longer engine.drain.timeout finishes more)")
	}
	for _, e := range r.Early {
		all = append(all, fmt.Sprintf("%s: %s of %s batches left before they were complete (%s)", e.Place,
			amount(e.Cut), amount(e.Sent), runtime.EarlyRemedy))
	}
	if r.Untold > 0 {
		all = append(all, agreeing(r.Untold, "message was", "messages were")+
			" not acknowledged: their sources will redeliver them")
	}
	return all
}

// failureRecord describes the messages that failed for one reason, in a record.
type failureRecord struct {
	Count   int64  `json:"count"`
	Fate    string `json:"fate"`
	Class   string `json:"class"`
	Place   string `json:"place,omitempty"`
	Message string `json:"message"`
	From    string `json:"first_from,omitempty"`
	Payload string `json:"payload,omitempty"`
}

// recordReport writes the outcome as one record. left counts reasons of failures beyond groups.
func (c *console) recordReport(r runtime.Report, took time.Duration, groups []runtime.FailureGroup, left int) {
	roots := r.Stats.Roots
	attrs := []slog.Attr{slog.String("pipeline", r.Pipeline), slog.Int64("received", roots.Received)}
	for _, f := range []engine.Fate{engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped,
		engine.Returned} {
		attrs = append(attrs, slog.Int64(f.String(), roots.Ended[f]))
	}
	attrs = append(attrs, slog.Int64("in_flight", roots.InFlight), slog.Float64("seconds", took.Seconds()),
		slog.Int("exit_code", r.Code()))
	var failures []failureRecord
	for _, g := range groups {
		failures = append(failures, failureRecord{g.Count, g.Fate.String(), string(g.First.Class), g.First.Place,
			g.First.Message, g.First.From, g.First.Sample})
	}
	if failures != nil {
		attrs = append(attrs, slog.Any("failures", failures))
	}
	if left > 0 {
		attrs = append(attrs, slog.Int("more_failures", left))
	}
	if all := notes(r); all != nil {
		attrs = append(attrs, slog.Any("notes", all))
	}
	level := slog.LevelInfo
	if r.Code() != clean {
		level = slog.LevelError
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", r.Err.Error()))
	}
	c.record(level, "pipeline has ended", attrs...)
}

// failure describes the messages that failed for one reason: how many, why, and the origin of the first.
func failure(g runtime.FailureGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", amount(g.Count), fateName(g.Fate), g.First.Class)
	if g.First.Place != "" {
		b.WriteString(" in " + g.First.Place)
	}
	if g.Others {
		b.WriteString(": for other reasons, such as")
	}
	b.WriteString(": " + strings.ReplaceAll(printable(g.First.Message), "\n", "\n    ") + "\n")
	if g.First.From != "" {
		b.WriteString("    first from " + printable(g.First.From) + "\n")
	}
	if g.First.Sample != "" {
		b.WriteString("    payload " + strings.ReplaceAll(printable(g.First.Sample), "\n", `\n`) + "\n")
	}
	return b.String()
}

// summary returns the last line of a run:
//
//	orders: 20,000 received: 19,990 delivered, 10 dead-lettered in 1.2s (16.6 k/s)
func summary(r runtime.Report, took time.Duration) string {
	roots := r.Stats.Roots
	s := fmt.Sprintf("%s: %s received", r.Pipeline, amount(roots.Received))
	if ends := fates(roots); ends != "" {
		s += ": " + ends
	}
	s += " in " + seconds(took)
	if roots.Received > 0 {
		s += " (" + rate(float64(roots.Received)/max(took.Seconds(), 1e-3)) + ")"
	}
	return s + "\n"
}

// fates lists the counts that are not zero, successes first.
func fates(c engine.Counts) string {
	var ends []string
	for _, f := range []engine.Fate{engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped,
		engine.Returned} {
		if n := c.Ended[f]; n > 0 {
			ends = append(ends, amount(n)+" "+fateName(f))
		}
	}
	if c.InFlight > 0 {
		ends = append(ends, amount(c.InFlight)+" in flight")
	}
	return strings.Join(ends, ", ")
}

func fateName(f engine.Fate) string { return strings.ReplaceAll(f.String(), "_", "-") }

// agreeing joins a number with words in the singular or plural.
func agreeing(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return amount(n) + " " + many
}

// amount formats n with a comma between thousands.
func amount(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate formats a number per second with three digits, such as 16.6 k/s.
func rate(perSecond float64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{" M/s", 1e6}, {" k/s", 1e3}} {
		if perSecond >= 0.9995*u.size { // 999.5 rounds to 1000, so it is 1 of the next unit
			return strconv.FormatFloat(perSecond/u.size, 'g', 3, 64) + u.unit
		}
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64) + "/s"
}

func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return max(d.Round(time.Millisecond), time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// printable shows control characters as escapes: text of a message must not control the terminal.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !shown(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if shown(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

func shown(r rune) bool { return r == '\n' || unicode.IsPrint(r) }
