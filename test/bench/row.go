package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one line of the table of work: contestants do the same, in turns.
type row struct {
	name, does  string
	metric      metric // that contestants are compared by; rate by default
	data        data   // events by default
	times       int    // messages of a run at most, in multiples of --messages
	cap         int    // messages of a run at most, whatever --messages says
	fixed       int    // messages of every run, as far as --messages allows
	run         runner // files by default
	check       check
	contestants []contestant
	goals       []goal
	open        bool                 // messages are sent by schedule, at 20 % of what the slowest can
	needs       func(w *world) error // why the row can't run here, if so
}

// runner makes a contestant do its row's work once, with n messages, and checks the answer;
// all says that every message must be checked.
type runner func(w *world, r *row, c *contestant, n int, all bool) (sample, error)

// contestant is a program with its arguments, as [world.command] reads them. The first
// of a row is flowd; the one that is called limit in the table is what ratios are taken to.
type contestant struct {
	name    string
	command string
	vars    map[string]string
	check   check // the row's by default
	limit   bool
	part    int     // it has this part of flowd's messages: 8 is an eighth
	own     bool    // in an open row: its load is 20 % of its own peak
	load    float64 // messages a second that it is sent by schedule; 0 is all it takes
}

// goal is what flowd should reach: a figure, or a multiple of what another contestant does.
type goal struct {
	than    string // contestant, or "" for the figure itself
	metric  metric // the row's by default
	atLeast float64
	atMost  float64
}

// score is what became of a contestant of a row.
type score struct {
	Name    string   `json:"name"`
	Limit   bool     `json:"limit,omitempty"`
	Skipped string   `json:"skipped,omitempty"` // why
	Rounds  []sample `json:"rounds,omitempty"`
	OfLimit float64  `json:"times_limit,omitempty"`     // how many times better than the limit
	Flowd   float64  `json:"flowd_is_times,omitempty"`  // how many times better flowd is
	CPU     float64  `json:"flowd_cpu_times,omitempty"` // how many times less CPU flowd takes
	Allocs  float64  `json:"allocs_per_message,omitempty"`
}

// result is what became of a row.
type result struct {
	Name    string        `json:"name"`
	Does    string        `json:"does"`
	Metric  string        `json:"metric"`
	Unit    string        `json:"unit"`
	Skipped string        `json:"skipped,omitempty"` // why
	Scores  []score       `json:"contestants,omitempty"`
	Noise   float64       `json:"noise,omitempty"` // how far flowd is from itself: 0.05 is 5 %
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

// again is flowd a second time in each round: how far it is from itself is noise.
const again = "flowd again"

// measure runs a row: a check of every contestant and how many messages it needs to be
// measured with, then rounds in which each has its turn.
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
	if twin := turns[0]; r.fixed == 0 { // where speed counts
		twin.name = again
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
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %s: %v", r.name, turns[i].name, err))
	}
	for i := range turns {
		c := &turns[i]
		scores[i] = score{Name: c.name, Limit: c.limit}
		if _, _, _, ok := w.command(c.command, nil); !ok {
			scores[i].Skipped = "not on PATH"
			continue
		}
		if c.name == again {
			sizes[i], peaks[i], scores[i].Skipped = sizes[0], peaks[0], scores[0].Skipped
			continue
		}
		n, each, err := w.size(r, c)
		if c.part > 0 {
			n = max(sizes[0]/c.part, 1)
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
			break // what is slow has no more rounds than fit
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
	res.judge(r, scores)
	return res
}

// schedule sets the load of an open row: the same for all, so that latencies compare.
func (w *world) schedule(turns []contestant, peaks []float64, sizes []int) {
	slowest := float64(most)
	for _, p := range peaks {
		if p > 0 {
			slowest = min(slowest, p)
		}
	}
	for i := range turns {
		c := &turns[i]
		c.load = share * slowest
		if c.own {
			c.load = min(share*peaks[i], most)
		}
		sizes[i] = max(min(int(c.load*2*w.turn.Seconds()), w.messages), min(w.messages, 100))
	}
}

const (
	share = 0.2     // of its peak rate that an open row sends a contestant
	most  = 100_000 // messages a second that can be sent from here by schedule
)

// size checks every message of a small run, and finds how many messages take a run
// long enough to be measured, so that the slow do not hold up the fast, and what each
// message takes.
func (w *world) size(r *row, c *contestant) (n int, each time.Duration, err error) {
	most := w.messages * max(r.times, 1)
	if r.cap > 0 {
		most = min(most, r.cap)
	}
	if c.part > 0 {
		most = max(most/c.part, 1)
	}
	if r.fixed > 0 {
		n = min(r.fixed, most)
		_, err := r.run(w, r, c, min(n, w.checked), true)
		return n, 1, err
	}
	var start time.Duration
	for n = min(w.messages, w.checked, most); ; n = w.whole(min(4*n, most)) {
		s, err := r.run(w, r, c, n, n <= w.checked)
		if err != nil || n >= most {
			return n, max(s.Wall/time.Duration(n), 1), err
		}
		// What is more than with hardly any messages is work, the rest is the start.
		if work := s.Wall - start; start > 0 && work > w.turn/2 {
			each = max(work/time.Duration(n-w.checked), 1)
			n = int(math.Exp2(math.Round(math.Log2(float64(w.turn) / float64(each))))) // a few sizes only: each is a file
			return w.whole(min(max(n, w.checked), most)), each, nil
		}
		if start == 0 {
			start = s.Wall
		}
	}
}

// whole is a number of messages that files can have.
func (w *world) whole(n int) int {
	if n > w.messages {
		n -= n % w.messages // see links
	}
	return n
}

// allocs is how many heap objects flowd makes for a message of this row, where its
// pipeline can run in a process that counts them; else 0.
func (w *world) allocs(r *row, c *contestant) float64 {
	if !strings.HasPrefix(c.command, flowdRuns) || r.check == nil {
		return 0
	}
	inside := *c
	inside.command = strings.Replace(c.command, flowdRuns, "$self baseline flowd-alloc", 1)
	few, many := min(w.messages/5, 4000), min(w.messages, 20_000)
	made := func(n int) float64 {
		used, err := w.once(r, &inside, n)
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

// judge fills in ratios, noise and goals.
func (res *result) judge(r *row, scores []score) {
	flowd, limit := scores[0].Rounds, []sample(nil)
	for _, s := range scores {
		if s.Limit {
			limit = s.Rounds
		}
	}
	for i := range scores {
		s := &scores[i]
		if s.Name == again {
			if x := r.metric.times(flowd, s.Rounds); x > 0 {
				res.Noise = max(x, 1/x) - 1
			}
			continue
		}
		s.OfLimit, s.Flowd = r.metric.times(s.Rounds, limit), r.metric.times(flowd, s.Rounds)
		s.CPU = cpu.times(flowd, s.Rounds)
		res.Scores = append(res.Scores, *s)
	}
	for _, g := range r.goals {
		res.Goals = append(res.Goals, g.judge(r, scores))
	}
}

func (g goal) judge(r *row, scores []score) target {
	m := g.metric
	if m.of == nil {
		m = r.metric
	}
	flowd := scores[0].Rounds
	t, unit := target{Text: m.name + " ", Got: m.mid(flowd), Judged: len(flowd) > 0}, m.unit
	if g.than != "" {
		other := scores[slices.IndexFunc(scores, func(s score) bool { return s.Name == g.than })].Rounds
		t = target{Got: m.times(flowd, other), Judged: len(flowd) > 0 && len(other) > 0}
		unit = "× " + g.than
	}
	if g.atLeast > 0 {
		t.Text += "≥ " + figure(g.atLeast) + " " + unit
		t.Met = t.Judged && t.Got >= g.atLeast
	} else {
		t.Text += "< " + figure(g.atMost) + " " + unit
		t.Met = t.Judged && t.Got < g.atMost
	}
	return t
}

// turn is how long one run of one contestant should take; budget is for a whole run,
// and shared out among rows and curves: one that has had its share has no further rounds.
const (
	turn        = 700 * time.Millisecond
	budget      = 8 * time.Minute
	quickTurn   = 200 * time.Millisecond
	quickBudget = 40 * time.Second
)
