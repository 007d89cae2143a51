package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// Style is how a line looks on a terminal with colours.
type Style int

// The styles.
const (
	Plain Style = iota
	Bold
	Dim
	Warning // a bottleneck, or something that does not work fully
	Failure
)

// Line is a line of text: printable, and not wider than was asked for.
type Line struct {
	Text  string
	Style Style
	Key   Key // what it is about; zero: nothing that can be selected
}

// View is how a frame is shown.
type View struct {
	Sort   string // one of Sorts; "": [Sorts][0]
	Filter string // only components whose pipeline, kind, name or type contains it
}

// Sorts are the orders of components: as messages meet them, or largest first.
var Sorts = []string{"flow", "rate", "latency", "queue", "failures"}

// The columns of components.
const (
	kindWidth = 8
	nameLeast = 14
	nameMost  = 48
	rateWidth = 8
	timeWidth = 7
	noteLeast = 20
)

// Lines returns the frame as lines of at most width columns.
func (f *Frame) Lines(v View, width int) (all []Line) {
	width = max(width, 40)
	for i := range f.Processes {
		p := &f.Processes[i]
		all = append(all, p.head(width))
		if p.Error != "" {
			all = append(all, Line{Text: safe("  "+p.Error, width), Style: Failure})
		}
		for j := range p.Pipelines {
			all = append(all, p.Pipelines[j].lines(p.Addr, v, width, f.At)...)
		}
		if p.Error == "" && len(p.Pipelines) == 0 {
			all = append(all, Line{Text: "  no pipeline runs", Style: Dim})
		}
	}
	return all
}

func (p *Process) head(width int) Line {
	text := p.Addr
	if p.Error == "" {
		text += fmt.Sprintf("  %d pipelines, memory %s, ready: %s", len(p.Pipelines), volume(p.Memory), p.Ready)
		if len(p.Pipelines) == 1 {
			text = strings.Replace(text, "pipelines", "pipeline", 1)
		}
	}
	return Line{Text: safe(text, width), Style: Bold}
}

// lines shows a pipeline: two lines of its own, its bottleneck, and a line for each component.
func (p *Pipeline) lines(addr string, v View, width int, now time.Time) (all []Line) {
	rows := p.rows(v)
	if len(rows) == 0 && v.Filter != "" && !contains(p.Name, v.Filter) {
		return nil
	}
	key := Key{Addr: addr, Pipeline: p.Name}
	state := p.State
	if !p.Since.IsZero() {
		state += " " + span(now.Sub(p.Since).Seconds())
	}
	in, out, failed := "-", "-", ""
	if p.ratesAreKnown {
		in, out = short(p.In)+"/s", short(p.Out)+"/s"
		if p.Failed > 0 {
			failed = ", " + short(p.Failed) + "/s failed"
		}
	}
	numbers := fmt.Sprintf("  %s  in %s, out %s%s", state, in, out, failed)
	if p.Latency > 0 {
		numbers += fmt.Sprintf(", takes %s (p99 %s)", span(p.Latency), span(p.P99))
	}
	head := safe(p.Name, max(10, width-len(numbers)))
	all = append(all, Line{safe(head+numbers, width), Bold, key})
	text := fmt.Sprintf("  in flight %s of %s, %s of %s, lanes %d of %d", short(float64(p.InFlight.Used)), short(float64(p.InFlight.Max)),
		volume(int64(p.Bytes.Used)), volume(int64(p.Bytes.Max)), p.Lanes.Used, p.Lanes.Max)
	if p.Waiting > 0 {
		text += fmt.Sprintf(", %s held (%s for a retry)", short(float64(p.Waiting)), short(float64(p.Retrying)))
	}
	if p.DeadLetters > 0 {
		text += ", " + short(float64(p.DeadLetters)) + " dead letters"
	}
	if p.Oldest >= 1 {
		text += ", oldest " + span(p.Oldest)
	}
	all = append(all, Line{Text: safe(text, width)})
	if b := p.Bottleneck; b != nil {
		all = append(all, Line{Text: safe(fmt.Sprintf("  bottleneck: %s, %s: %s", b.Component, strings.ReplaceAll(b.Why, "_", "-"), b.Detail),
			width), Style: Warning})
	}
	names := nameWidth(rows, width)
	if len(rows) > 0 {
		all = append(all, Line{Text: heads(names, width), Style: Dim})
	}
	for _, x := range rows {
		key.Kind, key.Place, key.Name = x.Kind, x.Place, x.Name
		all = append(all, x.line(key, names, width, p.ratesAreKnown))
	}
	return all
}

// rows returns the components that a view shows, in its order.
func (p *Pipeline) rows(v View) (rows []Component) {
	for _, x := range p.Components {
		if contains(p.Name, v.Filter) || contains(x.Kind+" "+x.Name, v.Filter) || contains(x.Type, v.Filter) {
			rows = append(rows, x)
		}
	}
	by := map[string]func(Component) float64{
		"rate":     func(x Component) float64 { return x.Rate },
		"latency":  func(x Component) float64 { return x.Latency },
		"queue":    func(x Component) float64 { return float64(x.Queued) + float64(x.Lag) },
		"failures": func(x Component) float64 { return float64(x.Failed) },
	}[v.Sort]
	if by != nil {
		slices.SortStableFunc(rows, func(a, b Component) int { return cmp.Compare(by(b), by(a)) })
	}
	return rows
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// nameWidth is how wide the column of names is: as wide as they are, if there is room.
func nameWidth(rows []Component, width int) int {
	most := min(max(width-2-kindWidth-rateWidth-4*timeWidth-noteLeast, nameLeast), nameMost)
	longest := nameLeast
	for i := range rows {
		longest = max(longest, ansi.StringWidth(safe(rows[i].title(), most))+1)
	}
	return min(longest, most)
}

// title is the name of a component, with the place of a step that is not among the pipeline's own.
func (x *Component) title() string {
	if x.Place != "" {
		return x.Name + " of " + x.Place
	}
	return x.Name
}

func heads(names, width int) string {
	return safe("  "+cell("", kindWidth)+cell("name", names)+right("rate", rateWidth)+right("mean", timeWidth)+
		right("p99", timeWidth)+right("queue", timeWidth)+right("busy", timeWidth)+"  note", width)
}

func (x *Component) line(key Key, names, width int, ratesAreKnown bool) Line {
	mark, style := "  ", Plain
	switch {
	case x.Bottleneck:
		mark, style = "* ", Warning
	case x.Error != "":
		style = Failure
	}
	perSecond, queue, busy := "-", "-", "-"
	if ratesAreKnown && x.Kind != "batcher" {
		perSecond = short(x.Rate) + "/s"
	}
	if x.Queued > 0 {
		queue = short(float64(x.Queued))
	}
	if x.Busy.Max > 0 {
		busy = fmt.Sprintf("%d/%d", x.Busy.Used, x.Busy.Max)
	}
	var notes []string
	for _, n := range []string{x.State, x.note, x.Error} {
		if n != "" {
			notes = append(notes, n)
		}
	}
	text := mark + cell(x.Kind, kindWidth) + cell(x.title(), names-1) + " " + right(perSecond, rateWidth) +
		right(span(x.Latency), timeWidth) + right(span(x.P99), timeWidth) + right(queue, timeWidth) + right(busy, timeWidth) + "  "
	left := width - 2 - kindWidth - names - rateWidth - 4*timeWidth - 2
	return Line{safe(strings.TrimRight(text+safe(strings.Join(notes, ", "), left), " "), width), style, key}
}

// Detail returns what is known of a pipeline or a component, with its last errors, as lines of at most width columns.
func (f *Frame) Detail(key Key, width int) (all []Line) {
	width = max(width, 40)
	add := func(style Style, label, text string) {
		if text != "" {
			all = append(all, wrapped(style, label, text, width)...)
		}
	}
	title := key.Pipeline
	if key.Kind != "" {
		title += " / " + key.Kind + " " + key.Name
	}
	all = append(all, Line{Text: safe(title, width), Style: Bold})
	i := slices.IndexFunc(f.Processes, func(p Process) bool { return p.Addr == key.Addr })
	if i < 0 {
		return append(all, Line{Text: "  it is gone", Style: Dim})
	}
	state := f.Processes[i].state
	j := slices.IndexFunc(state.Pipelines, func(p service.Pipeline) bool { return p.Name == key.Pipeline })
	if j < 0 {
		return append(all, Line{Text: "  it is gone", Style: Dim})
	}
	p := state.Pipelines[j]
	d := detail{add, p, key}
	d.component()
	for _, w := range p.Waits {
		if key.Kind == "" || w.Who == key.Kind+" "+key.Name || w.For == key.Kind+" "+key.Name {
			add(Warning, "waits", strings.TrimSuffix(w.Who+" for "+w.For, " for ")+": "+strings.ReplaceAll(w.Why, "_", "-")+", "+w.Detail)
		}
	}
	for _, c := range state.Ready.Checks {
		if c.Pipeline == key.Pipeline && (key.Kind == "" || c.Component == key.Kind+" "+key.Name) {
			add(Failure, c.Indicator, c.Cause+" "+c.Action)
			add(Failure, "error", c.Error)
		}
	}
	return all
}

// wrapped returns a label and a text in as many lines as it needs, up to eight.
func wrapped(style Style, label, text string, width int) (all []Line) {
	const indent, most = 22, 8
	room := width - indent
	for part := range strings.SplitSeq(ansi.Wrap(safe(text, most*room), room, ""), "\n") {
		if len(all) < most {
			all = append(all, Line{Text: safe("  "+cell(label, indent-3)+" "+part, width), Style: style})
		}
		label = ""
	}
	return all
}
