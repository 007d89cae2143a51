package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is a benchmark: all of its contestants do the same work, in turns.
type row struct {
	name, does  string
	metric      metric // contestants are compared by it; rate by default
	data        data   // input, if the contestants read a file
	times       int    // upper limit of messages in a run, as a multiple of --messages
	cap         int    // upper limit of messages in a run, whatever --messages says
	fixed       int    // messages in every run, unless --messages is less
	run         runner // runFiles by default
	check       check
	contestants []contestant
	goals       []goal
	open        bool                 // open loop: messages are sent by schedule, at 20 % of the slowest contestant's rate
	needs       func(w *world) error // says why the row can't run here
}

// runner runs a contestant once, with n messages, and checks the answer: every message if
// all is set, otherwise a sample.
type runner func(w *world, r *row, c *contestant, n int, all bool) (sample, error)

// contestant is a program with its arguments, as [world.command] reads them. The first
// contestant of a row is flowd.
type contestant struct {
	name    string
	command string
	vars    map[string]string
	check   check   // the row's by default
	limit   bool    // flowd is compared with this contestant in the column "× limit"
	divisor int     // it gets flowd's messages divided by this; 0 is all of them
	ownLoad bool    // in an open row: its load is 20 % of its own peak rate
	load    float64 // messages per second, sent by schedule; 0 sends as fast as it reads
}

// goal is a figure that flowd should reach, or a ratio to another contestant.
type goal struct {
	than    string // the other contestant; "" if the goal is not a ratio
	metric  metric // the row's by default
	atLeast float64
	atMost  float64
}

// score has the results of one contestant in a row.
type score struct {
	Name    string   `json:"name"`
	Limit   bool     `json:"limit,omitempty"`
	Skipped string   `json:"skipped,omitempty"` // the reason
	Rounds  []sample `json:"rounds,omitempty"`
	OfLimit float64  `json:"times_limit,omitempty"`     // how many times better it is than the limit
	Flowd   float64  `json:"flowd_is_times,omitempty"`  // how many times better flowd is than it
	CPU     float64  `json:"flowd_cpu_times,omitempty"` // its CPU time, as a multiple of flowd's
	Allocs  float64  `json:"allocs_per_message,omitempty"`
}

// result has the results of a row.
type result struct {
	Name    string        `json:"name"`
	Does    string        `json:"does"`
	Metric  string        `json:"metric"`
	Unit    string        `json:"unit"`
	Skipped string        `json:"skipped,omitempty"` // the reason
	Scores  []score       `json:"contestants,omitempty"`
	Noise   float64       `json:"noise,omitempty"` // difference between two runs of flowd: 0.05 is 5 %
	Goals   []target      `json:"goals,omitempty"`
	Took    time.Duration `json:"took_ns"`
	metric  metric
}

// target is a goal and whether it was met.
type target struct {
	Text   string  `json:"goal"`
	Got    float64 `json:"got"`
	Met    bool    `json:"met"`
	Judged bool    `json:"judged"` // false where the other contestant is missing
}

// secondFlowd names the contestant that runs flowd a second time in each round, to measure noise.
const secondFlowd = "flowd again"

// measure runs a row. It first checks each contestant and determines its number of
// messages. Then, in each round, every contestant runs once.
func (w *world) measure(r *row) (res result) {
	began := time.Now()
	defer func() { res.Took = time.Since(began) }()
	res = result{Name: r.name, Does: r.does, Metric: r.metric.name, Unit: r.metric.unit, metric: r.metric}
	if r.needs != nil {
		if err := r.needs(w); err != nil {
			res.Skipped = err.Error()
			return res
		}
	}
	turns := slices.Clone(r.contestants)
	if twin := turns[0]; r.fixed == 0 { // noise matters where speed is measured
		twin.name = secondFlowd
		turns = append(turns, twin)
	}
	if w.vars["before"] != "" {
		old := turns[0]
		old.name, old.command = "before", strings.Replace(old.command, "$flowd", "$before", 1)
		turns = append(turns, old)
	}
	scores, sizes := make([]score, len(turns)), make([]int, len(turns))
	peaks := make([]float64, len(turns)) // messages a second
	fail := func(i int, err error) {
		scores[i].Skipped = err.Error()
		w.failures = append(w.failures, fmt.Sprintf("%s: %s: %v", r.name, turns[i].name, err))
	}
	for i := range turns {
		c := &turns[i]
		scores[i] = score{Name: c.name, Limit: c.limit}
		if _, _, _, ok := w.command(c.command, nil); !ok {
			scores[i].Skipped = "not on PATH"
			continue
		}
		if c.name == secondFlowd {
			sizes[i], peaks[i], scores[i].Skipped = sizes[0], peaks[0], scores[0].Skipped
			continue
		}
		n, each, err := w.size(r, c)
		if c.divisor > 0 {
			n = max(sizes[0]/c.divisor, 1)
		}
		if err != nil {
			fail(i, err)
			continue
		}
		sizes[i], peaks[i] = n, 1/each.Seconds()
		scores[i].Allocs = w.allocs(r, c)
	}
	if r.open {
		w.schedule(turns, peaks, sizes)
	}
	for round := range w.rounds {
		if round > 0 && time.Now().After(w.due) {
			break // slow rows get fewer rounds
		}
		for i := range turns {
			if scores[i].Skipped != "" || w.ctx.Err() != nil {
				continue
			}
			s, err := r.run(w, r, &turns[i], sizes[i], false)
			if err != nil {
				fail(i, err)
				continue
			}
			s.Allocs = scores[i].Allocs
			scores[i].Rounds = append(scores[i].Rounds, s)
		}
	}
	res.evaluate(r, scores)
	return res
}

// schedule sets the same load for all contestants of an open row, so that latencies can be compared.
func (w *world) schedule(turns []contestant, peaks []float64, sizes []int) {
	slowest := float64(maxOpenRate)
	for _, p := range peaks {
		if p > 0 {
			slowest = min(slowest, p)
		}
	}
	for i := range turns {
		c := &turns[i]
		c.load = openShare * slowest
		if c.ownLoad {
			c.load = min(openShare*peaks[i], maxOpenRate)
		}
		sizes[i] = max(min(int(c.load*2*w.turn.Seconds()), w.messages), min(w.messages, 100))
	}
}

const (
	openShare   = 0.2     // load in an open row, as a fraction of the peak rate
	maxOpenRate = 100_000 // messages per second that this process can send by schedule
)

// size checks every message of a small run. It returns the number of messages with which
// a run takes as long as w.turn, and the time per message.
func (w *world) size(r *row, c *contestant) (n int, each time.Duration, err error) {
	most := w.messages * max(r.times, 1)
	if r.cap > 0 {
		most = min(most, r.cap)
	}
	if c.divisor > 0 {
		most = max(most/c.divisor, 1)
	}
	if r.fixed > 0 {
		n = min(r.fixed, most)
		_, err := r.run(w, r, c, min(n, w.checked), true)
		return n, 1, err
	}
	var start time.Duration
	for n = min(w.messages, w.checked, most); ; n = w.roundToFiles(min(4*n, most)) {
		s, err := r.run(w, r, c, n, n <= w.checked)
		if err != nil || n >= most {
			return n, max(s.Wall/time.Duration(n), 1), err
		}
		// The time of the smallest run is startup; only the rest is work.
		if work := s.Wall - start; start > 0 && work > w.turn/2 {
			each = max(work/time.Duration(n-w.checked), 1)
			n = int(math.Exp2(math.Round(math.Log2(float64(w.turn) / float64(each))))) // powers of two: each size needs a file
			return w.roundToFiles(min(max(n, w.checked), most)), each, nil
		}
		if start == 0 {
			start = s.Wall
		}
	}
}

// roundToFiles rounds n down to a number of messages that [world.file] can make.
func (w *world) roundToFiles(n int) int {
	if n > w.messages {
		n -= n % w.messages // see links
	}
	return n
}

// allocs counts the heap objects that flowd allocates per message of this row. It returns 0
// if the pipeline can't run inside this program.
func (w *world) allocs(r *row, c *contestant) float64 {
	if !strings.HasPrefix(c.command, flowdRuns) || r.check == nil {
		return 0
	}
	inside := *c
	inside.command = strings.Replace(c.command, flowdRuns, "$self baseline flowd-alloc", 1)
	few, many := min(w.messages/5, 4000), min(w.messages, 20_000)
	made := func(n int) float64 {
		used, err := w.runToEnd(r, &inside, n)
		objects, unread := strconv.ParseFloat(used.stderr, 64)
		if err != nil || unread != nil {
			return math.NaN()
		}
		return objects
	}
	if per := (made(many) - made(few)) / float64(many-few); per > 0 {
		return per
	}
	return 0
}

const flowdRuns = "$flowd -c"

// evaluate computes ratios, noise and goals.
func (res *result) evaluate(r *row, scores []score) {
	flowd, limit := scores[0].Rounds, []sample(nil)
	for _, s := range scores {
		if s.Limit {
			limit = s.Rounds
		}
	}
	for i := range scores {
		s := &scores[i]
		if s.Name == secondFlowd {
			if x := r.metric.ratio(flowd, s.Rounds); x > 0 {
				res.Noise = max(x, 1/x) - 1
			}
			continue
		}
		s.OfLimit, s.Flowd = r.metric.ratio(s.Rounds, limit), r.metric.ratio(flowd, s.Rounds)
		s.CPU = cpu.ratio(flowd, s.Rounds)
		res.Scores = append(res.Scores, *s)
	}
	for _, g := range r.goals {
		res.Goals = append(res.Goals, g.evaluate(r, scores))
	}
}

func (g goal) evaluate(r *row, scores []score) target {
	m := g.metric
	if m.value == nil {
		m = r.metric
	}
	flowd := scores[0].Rounds
	t, unit := target{Text: m.name + " ", Got: m.median(flowd), Judged: len(flowd) > 0}, m.unit
	if g.than != "" {
		other := scores[slices.IndexFunc(scores, func(s score) bool { return s.Name == g.than })].Rounds
		t = target{Got: m.ratio(flowd, other), Judged: len(flowd) > 0 && len(other) > 0}
		unit = "× " + g.than
	}
	if g.atLeast > 0 {
		t.Text += "≥ " + formatNumber(g.atLeast) + " " + unit
		t.Met = t.Judged && t.Got >= g.atLeast
	} else {
		t.Text += "< " + formatNumber(g.atMost) + " " + unit
		t.Met = t.Judged && t.Got < g.atMost
	}
	return t
}

// turn is how long one run of a contestant should take. budget is the time for all rows
// and curves together: one that has used up its share gets no further rounds.
const (
	turn        = 700 * time.Millisecond
	budget      = 8 * time.Minute
	quickTurn   = 200 * time.Millisecond
	quickBudget = 40 * time.Second
)
