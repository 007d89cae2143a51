package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/schema"
)

// recordPrinter writes what became of messages at components, for `flowd try` and `flowd tap`.
type recordPrinter struct {
	out     io.Writer
	color   bool
	secrets *schema.Secrets
	began   bool
}

// The marks in front of components.
var passageMarks = map[engine.Passage]string{
	engine.PassedOn: " ", engine.SkippedStep: "-", engine.FilteredOut: "×", engine.SplitUp: "<", engine.MergedInto: ">",
	engine.IsWaiting: "…", engine.FailedThere: "!", engine.BatchedThere: "#", engine.WrittenThere: "→",
}

// mostChanges bounds the changes that are shown of a step.
const mostChanges = 20

// record writes what became of a message at one component.
func (p *recordPrinter) record(b *strings.Builder, r observe.Record) {
	mark := passageMarks[r.Passage]
	name := string(r.Kind) + " " + r.Name
	if r.Kind == engine.CaseSpot {
		name = r.Name
	}
	if r.Of != "" {
		name += " (" + r.Of + ")"
	}
	switch {
	case r.Passage == engine.FailedThere:
		name = paint(p.color, red, p.line(name))
	case r.Passage == engine.FilteredOut:
		name = paint(p.color, yellow, p.line(name))
	default:
		name = p.line(name)
	}
	fmt.Fprintf(b, "  %s %s%s\n", mark, name, paint(p.color, dim, p.facts(r)))
	if c := r.Condition; c != nil && (r.Passage != engine.PassedOn || r.Kind == engine.CaseSpot) {
		p.row(b, " ", c.Text+values(c.Values, r.Error != nil))
	}
	for i, c := range r.Changes {
		if i == mostChanges {
			p.row(b, " ", fmt.Sprintf("and %s", plural(len(r.Changes)-i, "more change")))
			break
		}
		p.change(b, c)
	}
	for _, to := range r.To {
		if to.Error == "" || r.Error == nil {
			p.row(b, " ", to.Name+": "+to.Value+to.Error)
		}
	}
	if r.Kind == engine.OutputSpot && r.Passage == engine.WrittenThere && len(r.Payload) > 0 {
		p.row(b, " ", string(r.Payload))
	}
	if r.Error != nil {
		for i, line := range strings.Split(strings.TrimRight(p.mask(r.Error.Message), "\n"), "\n") {
			if i == 0 {
				line = string(r.Error.Class) + ": " + line
			}
			b.WriteString("      " + paint(p.color, red, printable(line)) + "\n")
		}
	}
}

// facts are what else is known of a passage.
func (p *recordPrinter) facts(r observe.Record) string {
	var all []string
	if _, line, ok := strings.Cut(r.Place, ":"); ok && r.Kind == engine.StepSpot {
		all = append(all, "line "+line[strings.LastIndexByte(line, ':')+1:])
	}
	switch r.Passage {
	case engine.PassedOn, engine.WrittenThere:
	case engine.BatchedThere:
		all = append(all, fmt.Sprintf("in a batch of %d (%s)", r.Batch.Size, r.Batch.Trigger))
		if r.Batch.Key != "" {
			all = append(all, "key "+p.text(r.Batch.Key, 40))
		}
	default:
		all = append(all, string(r.Passage))
	}
	if r.Part > 0 {
		all = append(all, fmt.Sprintf("part %d", r.Part))
	}
	if r.NotCalled {
		all = append(all, "not called")
	}
	if r.Took >= time.Microsecond && r.Kind == engine.StepSpot {
		all = append(all, r.Took.Round(time.Microsecond).String())
	}
	if len(all) == 0 {
		return ""
	}
	return "  " + strings.Join(all, ", ")
}

// change writes a changed field: - what it was, + what it is.
func (p *recordPrinter) change(b *strings.Builder, c observe.Change) {
	path := c.Path
	if path != "" {
		path += ": "
	}
	if c.From != "" {
		p.row(b, paint(p.color, red, "-"), path+c.From)
	}
	if c.To != "" {
		p.row(b, paint(p.color, green, "+"), path+c.To)
	}
}

// values lists the values that a condition has read. If the message has failed, its error says why values are missing.
func values(all []observe.Setting, failed bool) string {
	var texts []string
	for _, v := range all {
		if v.Error == "" || !failed {
			texts = append(texts, v.Name+" = "+v.Value+v.Error)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "   (" + strings.Join(texts, ", ") + ")"
}

// row writes a line below a component.
func (p *recordPrinter) row(b *strings.Builder, mark, text string) {
	b.WriteString("    " + mark + " " + p.text(text, 80-len("      ")) + "\n")
}

// mask hides secrets.
func (p *recordPrinter) mask(text string) string {
	if p.secrets == nil {
		return text
	}
	return p.secrets.Mask(text)
}

// line returns text on one line.
func (p *recordPrinter) line(text string) string { return oneLine(p.mask(text)) }

// text returns text on one line, cut to a number of characters.
func (p *recordPrinter) text(text string, most int) string {
	runes := []rune(p.line(text))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}

// end writes how a message has ended, and the first line of the reason.
func (p *recordPrinter) end(b *strings.Builder, fate string, why *observe.Failure) {
	color := red
	if fate == engine.Delivered.String() || fate == engine.Filtered.String() {
		color = green
	}
	b.WriteString("  = " + paint(p.color, color, strings.ReplaceAll(fate, "_", "-")))
	if why != nil {
		first, _, _ := strings.Cut(why.Message, "\n")
		b.WriteString(": " + p.line(first))
	}
	b.WriteByte('\n')
}
