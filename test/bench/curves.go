package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// curve measures how the cost of a message grows with x. Cost is CPU time without startup.
// It is the minimum of all rounds, since other processes can only add to it.
type curve struct {
	Name   string        `json:"name"`
	Does   string        `json:"does"`
	Of     string        `json:"of"`   // unit of x
	Want   string        `json:"want"` // flat or linear
	Points []point       `json:"points"`
	Is     string        `json:"is"`
	Met    bool          `json:"met"`
	Took   time.Duration `json:"took_ns"`

	xs       []int
	data     func(x int) data
	files    func(x int) int // pipelines that share the messages; 1 by default
	pipeline func(x int) string
}

// point is a point of a curve.
type point struct {
	X    int     `json:"x"`
	Cost float64 `json:"us_per_message"`
	Peak float64 `json:"peak_mib"`
}

const (
	flat   = "flat"
	linear = "linear"
)

func always(d data) func(int) data { return func(int) data { return d } }

var curves = []curve{
	{
		Name: "steps", Does: "file → x steps set → drop", Of: "steps", Want: linear, xs: []int{1, 2, 5, 10, 20},
		data: always(events),
		pipeline: func(x int) string {
			var steps strings.Builder
			for i := range x {
				fmt.Fprintf(&steps, "  - set: {f%d: total * %d}\n", i, i+2)
			}
			return "processors:\n" + steps.String() + drops
		},
	},
	{
		Name: "keys", Does: "file → set → drop, in order for each of x keys", Of: "keys", Want: flat,
		xs: []int{1, 100, 10_000, 1_000_000}, data: keyed,
		pipeline: func(int) string { return oneSet + drops + "engine: {order_by: key}\n" },
	},
	{
		Name: "batch-keys", Does: "file → batches of 100 for each of x keys → drop", Of: "keys", Want: flat,
		xs: []int{100, 1000, 10_000, 100_000, 1_000_000}, data: keyed,
		pipeline: func(int) string {
			return "batchers: {b: {key: key, batch: {size: 100, timeout: 1m}, output: out}}\n" + drops
		},
	},
	{
		Name: "pipelines", Does: "x pipelines in one process, each file → set → drop", Of: "pipelines", Want: flat,
		xs: []int{1, 10, 30, 100}, data: always(events),
		files: func(x int) int { return x }, pipeline: func(int) string { return oneSet + drops },
	},
	{
		Name: "size", Does: "file → set → drop, messages of x bytes", Of: "bytes", Want: linear,
		xs: []int{330, 1000, 10_000, 100_000, 1_000_000}, data: sized,
		pipeline: func(int) string { return oneSet + drops },
	},
	{
		Name: "workers", Does: "file → set → drop, x lanes", Of: "workers", Want: flat, xs: []int{1, 2, 4, 8},
		data:     always(events),
		pipeline: func(x int) string { return oneSet + drops + fmt.Sprintf("engine: {workers: %d}\n", x) },
	},
	{
		Name: "outputs", Does: "file → set → a copy to each of x outputs", Of: "outputs", Want: linear,
		xs: []int{1, 2, 4, 8, 16}, data: always(events),
		pipeline: func(x int) string {
			var names, outputs []string
			for i := range x {
				names, outputs = append(names, fmt.Sprintf("o%d", i)),
					append(outputs, fmt.Sprintf("o%d: {drop: {}}", i))
			}
			return fmt.Sprintf("%sbatchers: {all: {batch: {size: 500, timeout: 1m}, output: [%s]}}\noutputs: {%s}\n",
				oneSet, strings.Join(names, ", "), strings.Join(outputs, ", "))
		},
	},
}

const (
	oneSet = "processors: [{set: {severity: '\"critical\"'}}]\n"
	drops  = "outputs: {out: {drop: {}}}\n"
)

// measureCurve measures each point of a curve once per round.
func (w *world) measureCurve(c curve) curve {
	began := time.Now()
	c.Points = make([]point, len(c.xs))
	for round := range w.rounds {
		if round > 0 && time.Now().After(w.due) {
			break
		}
		for i, x := range c.xs {
			s, err := w.measurePoint(c, x)
			if err != nil {
				w.failures = append(w.failures, fmt.Sprintf("curve %s at %d: %v", c.Name, x, err))
				c.Is = "failed"
				return c
			}
			p := &c.Points[i]
			if cost := cpu.value(s); p.Cost == 0 || cost < p.Cost {
				p.Cost = cost
			}
			p.X, p.Peak = x, max(p.Peak, peak.value(s))
		}
	}
	c.Is, c.Met = shape(c.Want, c.Points)
	c.Took = time.Since(began)
	return c
}

const (
	curveMessages = 200_000
	curveBytes    = 100 << 20 // limits the number of large messages
)

// measurePoint returns the cost at x: the cost of many messages minus that of few, which is
// the cost of startup.
func (w *world) measurePoint(c curve, x int) (sample, error) {
	d, pipelines := c.data(x), 1
	if c.files != nil {
		pipelines = c.files(x)
	}
	n := min(w.messages, curveMessages, max(curveBytes/len(d.line(nil, 0)), 20))
	n = max(n/pipelines, 2)
	dir, err := w.pipelines(pipelines, "inputs: {in: {file: \"${IN}\"}}\n"+c.pipeline(x))
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	run := func(n int) (usage, error) {
		path, _, err := w.file(d, n)
		if err != nil {
			return usage{}, err
		}
		used, err := w.runCommand("$flowd -c $dir", map[string]string{"dir": dir, "in": path})
		if err == nil {
			err = reported(used.stderr, pipelines, n)
		}
		return used, err
	}
	few := max(n/100, 1)
	start, err := run(few)
	if err != nil {
		return sample{}, err
	}
	whole, err := run(n)
	// On a busy machine, few messages may cost more than many.
	spent := max(whole.cpu-start.cpu, time.Microsecond)
	return sample{Messages: (n - few) * pipelines, CPU: spent, Peak: whole.peak}, err
}

// reported checks that each pipeline has delivered n messages. Of many pipelines, only the
// last reports are kept and checked.
func reported(stderr string, pipelines, n int) error {
	all := delivered.FindAllStringSubmatch(stderr, -1)
	if len(all) == 0 || pipelines == 1 && len(all) != 1 {
		return fmt.Errorf("flowd does not report that it delivered all messages: %s", stderr)
	}
	for _, m := range all {
		if strings.ReplaceAll(m[1], ",", "") != strconv.Itoa(n) {
			return fmt.Errorf("%s: not all of %d messages were delivered", m[0], n)
		}
	}
	return nil
}

// shape reports whether points have the wanted shape. A flat curve has no point that costs
// more than twice another. A linear one has no point more than half above a fitted line.
func shape(want string, points []point) (is string, met bool) {
	least, most := slices.MinFunc(points, byCost), slices.MaxFunc(points, byCost)
	if grows := most.Cost / least.Cost; grows <= 2 {
		return flat, true
	} else if want == flat {
		return fmt.Sprintf("not flat: costs %s as much at %d as at %d", formatRatio(grows), most.X, least.X), false
	}
	a, b := line(points)
	for _, p := range points {
		if off := p.Cost / (a + b*float64(p.X)); off > 1.5 {
			return fmt.Sprintf("not linear: at %d it costs %s as much as on the line", p.X, formatRatio(off)), false
		}
	}
	return fmt.Sprintf("linear: %s + %s × x", formatNumber(math.Max(a, 0)), formatNumber(b)), true
}

func byCost(a, b point) int { return cmp.Compare(a.Cost, b.Cost) }

// line fits a + b·x with the least squares of relative distances.
func line(points []point) (a, b float64) {
	var s, sx, sy, sxx, sxy float64
	for _, p := range points {
		x, y := float64(p.X), p.Cost
		weight := 1 / (y * y)
		s += weight
		sx += weight * x
		sy += weight * y
		sxx += weight * x * x
		sxy += weight * x * y
	}
	b = (s*sxy - sx*sy) / (s*sxx - sx*sx)
	return (sy - b*sx) / s, b
}

func (c curve) print(to io.Writer) {
	fmt.Fprintf(to, "curve %s: %s (should be %s)\n", c.Name, c.Does, c.Want)
	for _, p := range c.Points {
		fmt.Fprintf(to, "  %9d %-10s %9s µs/message %8s MiB\n", p.X, c.Of, formatNumber(p.Cost), formatNumber(p.Peak))
	}
	verdict := "met"
	if !c.Met {
		verdict = "MISSED"
	}
	fmt.Fprintf(to, "    %s: %s\n", verdict, c.Is)
}
