package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// style has colours for light and for dark pages.
const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600 } .soft { fill: #656d76 }
.flowd { fill: #1a7f5a } .limit { fill: #8c959f } .peer { fill: #c4762b }
.line { fill: none; stroke: #1a7f5a; stroke-width: 2 } .axis { stroke: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9198a1 }
.flowd { fill: #3fb98a } .limit { fill: #7d8590 } .peer { fill: #d98e4a }
.line { stroke: #3fb98a } .axis { stroke: #7d8590 } }
</style>
`

func openSVG(b *bytes.Buffer, width, height int, title string) {
	fmt.Fprintf(b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"><title>%s</title>`+"\n%s",
		width, height, width, height, html.EscapeString(title), style)
}

func writeText(b *bytes.Buffer, x, y int, class, anchor, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor,
		html.EscapeString(text))
}

// bars draws one bar per contestant, relative to the largest figure of its row.
func bars(rep report) []byte {
	const (
		width, left, right = 860, 190, 190
		step, head         = 20, 26
	)
	height := head
	for _, r := range rep.Rows {
		height += head + step*len(r.Scores)
	}
	var b bytes.Buffer
	openSVG(&b, width, height, "flowd and its contestants")
	writeText(&b, 10, 18, "soft", "start", rep.Machine.String())
	y := head
	for _, r := range rep.Rows {
		y += head
		better := "more is better"
		if r.metric.lower {
			better = "less is better"
		}
		writeText(&b, 10, y-8, "head", "start", r.Name)
		writeText(&b, left, y-8, "soft", "start", fmt.Sprintf("%s (%s, %s)", r.Does, r.metric.unit, better))
		largest := 0.0
		for _, s := range r.Scores {
			largest = max(largest, r.metric.median(s.Rounds))
		}
		for i, s := range r.Scores {
			class := "peer"
			switch {
			case i == 0:
				class = "flowd"
			case s.Limit:
				class = "limit"
			}
			value := r.metric.median(s.Rounds)
			long := 0.0
			if largest > 0 {
				long = value / largest * (width - left - right)
			}
			writeText(&b, left-8, y+13, "", "end", s.Name)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" class="%s"/>`+"\n", left, y+2,
				max(long, 1), step-5, class)
			label := formatNumber(value)
			if s.Flowd > 0 && i > 0 {
				label += "   flowd is " + formatRatio(s.Flowd)
			}
			if s.Skipped != "" {
				label = "skipped"
			}
			writeText(&b, left+int(long)+6, y+13, "soft", "start", label)
			y += step
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawCurves draws the curves, three in a line.
func drawCurves(all []curve) []byte {
	const (
		across       = 3
		wide, high   = 300, 230
		left, top    = 50, 50
		plotW, plotH = 220, 130
		decades      = 50 // an axis is logarithmic if its ends differ by more than this factor
	)
	var b bytes.Buffer
	openSVG(&b, across*wide, (len(all)+across-1)/across*high, "how the cost of a message grows")
	for i, c := range all {
		x0, y0 := i%across*wide+left, i/across*high+top
		writeText(&b, x0-40, y0-30, "head", "start", c.Name)
		writeText(&b, x0+50, y0-30, "soft", "start", "CPU µs per message, by "+c.Of)
		writeText(&b, x0-40, y0-14, "soft", "start", c.Is)
		if len(c.Points) == 0 {
			continue
		}
		first, last := c.Points[0], c.Points[len(c.Points)-1]
		highest := slices.MaxFunc(c.Points, byCost).Cost
		logX := last.X > decades*first.X
		logY := logX && highest > decades*first.Cost
		at := func(p point) (x, y float64) {
			x, y = float64(p.X)/float64(last.X), p.Cost/highest
			if logX {
				x = math.Log(float64(p.X)/float64(first.X)) / math.Log(float64(last.X)/float64(first.X))
			}
			if logY { // begins at a tenth of the first point
				y = math.Log(10*p.Cost/first.Cost) / math.Log(10*highest/first.Cost)
			}
			return float64(x0) + x*plotW, float64(y0) + (1-max(y, 0))*plotH
		}
		fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" class="axis"/>`+"\n", x0, y0, y0+plotH, x0+plotW)
		var path, dots bytes.Buffer
		for _, p := range c.Points {
			x, y := at(p)
			fmt.Fprintf(&path, "%.1f,%.1f ", x, y)
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="3" class="flowd"><title>%d: %s µs</title></circle>`+"\n",
				x, y, p.X, formatNumber(p.Cost))
		}
		fmt.Fprintf(&b, `<polyline points="%s" class="line"/>`+"\n%s", bytes.TrimSpace(path.Bytes()), dots.Bytes())
		writeText(&b, x0-6, y0+4, "soft", "end", formatNumber(highest))
		x, _ := at(first)
		writeText(&b, int(x), y0+plotH+16, "soft", "middle", fmt.Sprint(first.X))
		writeText(&b, x0+plotW, y0+plotH+16, "soft", "middle", fmt.Sprint(last.X))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
