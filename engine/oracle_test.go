package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

var (
	seeds = flag.Int("seeds", 300, "whole pipelines that TestEveryMessageIsAnObligation makes up")
	seed  = flag.Uint64("seed", 0, "the one pipeline to run, 0: all")
)

// Whole pipelines made up from a seed, in virtual time: whatever inputs, steps,
// batchers and outputs do, and whenever it is stopped, every message that was
// read ends once, with a fate that its own script allows, its source and its
// stakes are told once, equal keys keep their order, and nothing waits for ever.
func TestEveryMessageIsAnObligation(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if *seed > 0 {
		first, last = *seed, *seed
	}
	for s := first; s <= last; s++ {
		ok := t.Run(fmt.Sprint(s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, s).obligations() })
		})
		if !ok {
			t.Fatalf("again: go test ./engine -run TestEveryMessageIsAnObligation -seed %d", s)
		}
	}
}

// A message is {"in":0,"id":1,"k":2,"do":"split3"}; do says what the scripted
// step, or the output, does to it.
var deeds = []string{"pass", "pass", "pass", "pass", "drop", "fail", "split0", "split3", "split400", "cut2", "slow", "park", "parkfail", "refuse", "panic"}

// world is one pipeline and what is true of it.
type world struct {
	t *testing.T
	r *rand.Rand
	p *engine.Pipeline

	sources         []*origin
	outs            []*judge
	dlqs            []*Sink
	then            engine.Fate // of what a step fails
	onError         string
	repaired        bool
	ordered, parted bool // parted: order is not promised
	merges, panics  bool // a message may share the fate of its neighbours
	refused         []engine.Fate
	stakes          *ledgerOfStakes
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), stakes: &ledgerOfStakes{put: map[uint64]int{}, ends: map[uint64][]bool{}}}
	w.ordered = w.r.IntN(2) == 0
	w.p = &engine.Pipeline{Name: "seed", Engine: engine.EngineSpec{
		Workers:     1 + w.r.IntN(4),
		MaxInFlight: engine.MaxInFlight{Messages: 1 + w.r.IntN(600), Bytes: schema.Size(w.one(64<<20, 1, 5000))},
	}}
	if w.ordered {
		w.p.Engine.OrderBy = expr.MustCompile("k")
	}
	w.inputs()
	w.steps()
	w.outputs()
	w.batchers()
	return w
}

// one picks.
func (w *world) one(of ...int) int { return of[w.r.IntN(len(of))] }

func (w *world) maybe(in int) bool { return w.r.IntN(in) == 0 }

func (w *world) inputs() {
	var all []schema.Entry[engine.InputSpec]
	for in := range 1 + w.r.IntN(3) {
		var payloads []string
		for id := range 1 + w.r.IntN(250) {
			do := deeds[w.r.IntN(len(deeds))]
			if (do == "split400" || do == "panic") && w.r.IntN(20) > 0 {
				do = "pass"
			}
			w.panics = w.panics || do == "panic"
			w.parted = w.parted || strings.HasPrefix(do, "park") // goes on later
			payloads = append(payloads, fmt.Sprintf(`{"in":%d,"id":%d,"k":%d,"do":%q}`, in, id, w.r.IntN(5), do))
		}
		src := &origin{Source: Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: w.r.IntN(60)}, flaky: w.maybe(3), tried: map[uint64]int{}}
		src.Prepare = func(i int, m *engine.Message) { m.Meta = m.Meta.With("root", in<<20|i) }
		if w.maybe(3) {
			src.Every = time.Duration(w.r.IntN(30)) * time.Millisecond
		}
		w.sources = append(w.sources, src)
		spec := engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}
		if w.maybe(3) {
			spec.Processors = engine.Steps{proc("two", twice)}
		}
		all = append(all, entry(fmt.Sprint("in", in), spec))
	}
	w.p.Inputs = schema.MapOf(all...)
}

func (w *world) steps() {
	step := engine.StepSpec{Name: "script", Use: Processing(script{w.stakes})}
	switch w.onError = []string{"", "continue", "drop", "repair", "repair in vain"}[w.r.IntN(5)]; w.onError {
	case "repair":
		step.OnError.Steps = engine.Steps{Step("repair", func(context.Context, *engine.Message) error { return nil })}
	case "repair in vain":
		step.OnError.Steps = engine.Steps{Step("repair", func(context.Context, *engine.Message) error { return errors.New("in vain") })}
	default:
		step.OnError.Then = w.onError
	}
	w.p.Processors = engine.Steps{step}
	if w.maybe(2) { // what a repair may not skip
		w.p.Processors = append(w.p.Processors, Step("mark", func(_ context.Context, m *engine.Message) error {
			m.Meta = m.Meta.With("marked", true)
			return nil
		}))
		w.repaired = true
	}
}

func (w *world) outputs() {
	w.then = engine.Returned
	if w.maybe(2) {
		w.then, w.p.Engine.OnFailure.DeadLetter = engine.DeadLettered, "dlq"
		w.dlqs = append(w.dlqs, &Sink{Delay: time.Duration(w.r.IntN(3)) * time.Millisecond})
	}
	var all []schema.Entry[engine.OutputSpec]
	for i := range 1 + w.r.IntN(3) {
		out := &judge{w: w, sequential: w.maybe(2), delay: w.r.IntN(4), last: map[string]place{}, under: map[string]int{}, keys: map[string]int{}}
		w.outs = append(w.outs, out)
		spec := engine.OutputSpec{Concurrency: engine.Concurrency(1 + w.r.IntN(4)), Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })}
		fate := w.then
		switch w.r.IntN(4) {
		case 0:
			spec.OnFailure, fate = &engine.OnFailure{Then: "drop"}, engine.Dropped
		case 1:
			if w.then == engine.DeadLettered {
				name := fmt.Sprint("dlq", i)
				spec.OnFailure = &engine.OnFailure{DeadLetter: name}
				dlq := &Sink{}
				w.dlqs = append(w.dlqs, dlq)
				all = append(all, entry(name, dlq.Output()))
			}
		}
		w.refused = append(w.refused, fate)
		all = append(all, entry(fmt.Sprint("out", i), spec))
	}
	if w.then == engine.DeadLettered {
		spec := w.dlqs[0].Output()
		spec.Concurrency = engine.Concurrency(1 + w.r.IntN(3))
		all = append(all, entry("dlq", spec))
	}
	w.p.Outputs = schema.MapOf(all...)
}

// batchers sends everything to all outputs: as one list, or each but the last
// as a copy.
func (w *world) batchers() {
	names := make(engine.Names, len(w.outs))
	for i := range names {
		names[i] = fmt.Sprint("out", i)
	}
	if w.maybe(2) {
		w.p.Batchers = Named("all", w.batcher(names))
		return
	}
	var all []schema.Entry[engine.BatcherSpec]
	for i, name := range names {
		b := w.batcher(engine.Names{name})
		if b.Continue = i < len(names)-1; b.Continue {
			b.Match = expr.MustCond("true")
		}
		all = append(all, entry("to "+name, b))
	}
	w.p.Batchers = schema.MapOf(all...)
}

func (w *world) batcher(to engine.Names) (b engine.BatcherSpec) {
	if b = (engine.BatcherSpec{Output: to}); !w.maybe(3) {
		b = batched(w.t, fmt.Sprintf(`{"size": %d, "timeout": "%s", "max_keys": %d}`, w.r.IntN(50), []string{"1h", "10ms"}[w.r.IntN(2)], w.r.IntN(4)), to...)
		if w.maybe(2) {
			b.Key = expr.MustCompile([]string{"k", "k % 2", "id % 7"}[w.r.IntN(3)])
			w.parted = w.parted || b.Key.String() == "id % 7"
		}
	}
	switch w.r.IntN(4) {
	case 0:
		b.Processors = engine.Steps{proc("pairs", pairs)}
	case 1:
		b.Processors = engine.Steps{proc("pairs", pairs), proc("unpair", splitAt("+"))}
	default:
		return b
	}
	w.merges = true
	return b
}

func (w *world) obligations() {
	t, stopped := w.t, w.maybe(3)
	stop, cancel := context.WithCancel(t.Context())
	kill, hard := context.WithCancel(t.Context())
	defer hard()
	defer cancel()
	if stopped { // at any time, and perhaps with too little time to finish
		for _, s := range w.sources {
			s.Endless = true
		}
		w.p.Engine.Drain.Timeout = time.Duration(1+w.r.IntN(200)) * time.Millisecond
		at := time.Duration(w.r.IntN(100)) * time.Millisecond
		time.AfterFunc(at, cancel)
		if w.maybe(3) {
			time.AfterFunc(at+time.Duration(w.r.IntN(20))*time.Millisecond, hard)
		}
	}
	began := time.Now()
	rep := Build(t, w.p).Run(stop, kill)
	if took := time.Since(began); took > 10*time.Minute {
		t.Errorf("took %v: something waited for a batch's timeout", took)
	}
	time.Sleep(time.Minute) // what comes back too late must change nothing
	for _, c := range []engine.Counts{rep.Stats.Roots, rep.Stats.Pieces} {
		if !c.Balanced() || c.InFlight != 0 {
			t.Errorf("not accounted for: %+v", c)
		}
	}
	taken := 0
	for in, s := range w.sources {
		taken += s.Taken()
		if !stopped && s.Taken() != len(s.Payloads) {
			t.Errorf("input %d: read %d of %d", in, s.Taken(), len(s.Payloads))
		}
		w.told(in, s, stopped)
	}
	if got := int(rep.Stats.Roots.Received); got != taken {
		t.Errorf("received %d, want %d", got, taken)
	}
	if !stopped {
		w.confirmed(rep.Stats.Pieces.Ended)
	}
}

// told compares what a source and the stakes were told with the scripts.
func (w *world) told(in int, s *origin, stopped bool) {
	s.mu.Lock()
	w.stakes.mu.Lock()
	defer s.mu.Unlock()
	defer w.stakes.mu.Unlock()
	times := map[uint64]int{}
	for _, r := range s.told {
		times[r.Ref]++
		body := s.Payloads[r.Ref]
		if allowed := w.fates(body); !slices.Contains(allowed, r.Fate) && !(stopped && r.Fate == engine.Returned) {
			w.t.Errorf("%s ended %v (%v), want one of %v", body, r.Fate, r.Err, allowed)
		}
		for _, committed := range w.stakes.ends[uint64(in)<<20|r.Ref] {
			if committed != (r.Fate <= engine.DeadLettered) {
				w.t.Errorf("%s ended %v, its stake was told committed=%v", body, r.Fate, committed)
			}
		}
	}
	for ref := range s.Taken() {
		if n := times[uint64(ref)]; n != 1 {
			w.t.Errorf("%s: its source was told %d times", s.Payloads[ref], n)
		}
		id := uint64(in)<<20 | uint64(ref)
		if put, got := w.stakes.put[id], len(w.stakes.ends[id]); put != got && !(stopped && got < put) { // too late for a root that was handed back
			w.t.Errorf("%s: %d stakes, %d told", s.Payloads[ref], put, got)
		}
	}
}

// fates are those that a root may come to.
func (w *world) fates(body string) (all []engine.Fate) {
	_, do, _ := strings.Cut(body, `"do":"`)
	failed := map[string]engine.Fate{"": w.then, "continue": engine.Delivered, "drop": engine.Dropped, "repair": engine.Delivered, "repair in vain": w.then}[w.onError]
	switch do = strings.TrimSuffix(do, `"}`); do {
	case "drop", "split0":
		all = append(all, engine.Filtered)
	case "fail", "panic", "parkfail":
		all = append(all, failed)
	case "cut2": // two parts and then an error, which what goes on as a whole can't mend
		if all = append(all, w.then); w.onError == "drop" {
			all[0] = engine.Dropped
		}
	case "refuse":
		all = append(all, slices.Max(w.refused))
	default:
		all = append(all, engine.Delivered)
	}
	if w.panics {
		all = append(all, failed, max(all[0], failed))
	}
	for _, f := range slices.Clone(all) {
		for _, refused := range w.refused {
			if w.merges && f != engine.Filtered { // refused with what it was merged with
				all = append(all, max(f, refused))
			}
		}
	}
	return all
}

// confirmed compares the counts of pieces with what outputs have taken.
func (w *world) confirmed(ended [5]int64) {
	var took, dead int64
	for _, o := range w.outs {
		o.mu.Lock()
		took += o.took
		o.mu.Unlock()
	}
	for _, d := range w.dlqs {
		dead += int64(len(d.Bodies()))
	}
	if ended[engine.Delivered] != took || ended[engine.DeadLettered] != dead {
		w.t.Errorf("pieces delivered %d, written %d; dead-lettered %d, written %d", ended[engine.Delivered], took, ended[engine.DeadLettered], dead)
	}
}

// origin is a source whose acks fail once each, where it is flaky.
type origin struct {
	Source
	flaky bool

	mu    sync.Mutex // guards the fields below
	tried map[uint64]int
	told  []engine.Result
}

func (o *origin) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	_, err := o.Source.Read(ctx, b)
	return o, err
}

func (o *origin) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rs {
		if o.tried[r.Ref]++; o.flaky && ctx.Err() == nil && o.tried[r.Ref] == 1 && r.Ref%3 == 0 {
			again = append(again, r)
		} else {
			o.told = append(o.told, r)
		}
	}
	return again, nil
}

// ledgerOfStakes notes what stakes were put and told.
type ledgerOfStakes struct {
	mu   sync.Mutex
	put  map[uint64]int    // by root
	ends map[uint64][]bool // by root: whether it was committed
}

func (l *ledgerOfStakes) Settle(_ context.Context, committed, rolledBack []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range committed {
		l.ends[id] = append(l.ends[id], true)
	}
	for _, id := range rolledBack {
		l.ends[id] = append(l.ends[id], false)
	}
}

// twice splits every third message in two, in an input's own steps.
func twice(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		if body := m.Bytes(); m.Ref%3 == 0 {
			b.Split(m, func(yield func([]byte, error) bool) {
				if yield(body, nil) {
					yield(body, nil)
				}
			})
		}
	}
	return nil
}

// script does what a message says.
type script struct{ stakes *ledgerOfStakes }

func (s script) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		body := string(m.Bytes())
		if id, ok := m.Meta.Get("root"); ok && m.Ref%2 == 0 {
			s.stakes.mu.Lock()
			s.stakes.put[uint64(id.(int))]++
			s.stakes.mu.Unlock()
			m.Stake(s.stakes, uint64(id.(int)))
		}
		_, do, _ := strings.Cut(body, `"do":"`)
		do = strings.TrimSuffix(do, `"}`)
		switch do {
		case "drop":
			m.Drop()
		case "fail":
			m.Meta = m.Meta.With("half", "done")
			m.Fail(errors.New("scripted"))
		case "slow":
			time.Sleep(3 * time.Millisecond)
		case "park":
			resume := m.Park()
			time.AfterFunc(5*time.Millisecond, func() { resume(nil) })
		case "parkfail":
			resume := m.Park()
			go resume(func(*engine.Message) error { return errors.New("scripted") })
		case "panic":
			panic("scripted")
		}
		var parts, good int
		if _, err := fmt.Sscanf(do, "split%d", &parts); err == nil {
			good = parts
		} else if _, err := fmt.Sscanf(do, "cut%d", &good); err == nil {
			parts = good + 1
		} else {
			continue
		}
		b.Split(m, func(yield func([]byte, error) bool) {
			for i := range parts {
				if i == good {
					yield(nil, errors.New("cut off"))
					return
				}
				if !yield([]byte(strings.Replace(body, do, fmt.Sprintf("part %d", i), 1)), nil) {
					return
				}
			}
		})
	}
	return nil
}

// judge is an output that refuses what says so, and watches order.
type judge struct {
	w          *world
	sequential bool
	delay      int

	mu    sync.Mutex
	took  int64
	last  map[string]place // by input and key
	under map[string]int   // writes under way, by order key
	keys  map[string]int   // and by batch key
}

// place is where a message stood in its input.
type place struct{ id, part int }

func (j *judge) Sequential() bool { return j.sequential }

func (j *judge) Write(_ context.Context, b *engine.Batch) error {
	keys, batchKey := map[string]bool{}, ""
	j.mu.Lock()
	for m := range b.All() {
		if b.Trigger() != "" {
			batchKey = string(m.BatchKey())
		}
		if _, marked := m.Meta.Get("marked"); j.w.repaired != marked {
			j.w.t.Errorf("%s skipped a step", m.Bytes())
		}
		j.see(string(m.Bytes()), keys)
		if strings.Contains(string(m.Bytes()), `"refuse"`) {
			m.Fail(errors.New("refused"))
		} else {
			j.took++
		}
	}
	for k := range keys {
		if j.under[k]++; j.under[k] > 1 {
			j.w.t.Errorf("key %s is in two writes at once", k)
		}
	}
	if j.keys[batchKey]++; batchKey != "" && j.keys[batchKey] > 1 {
		j.w.t.Errorf("two batches of key %s overlap", batchKey)
	}
	j.mu.Unlock()
	time.Sleep(time.Duration(j.delay) * time.Millisecond)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keys[batchKey]--
	for k := range keys {
		j.under[k]--
	}
	return nil
}

// see notes the order of what one message of a write stands for.
func (j *judge) see(body string, keys map[string]bool) {
	if !j.w.ordered || j.w.parted {
		return
	}
	mine := map[string]bool{}
	for piece := range strings.SplitSeq(body, "+") {
		var in, k int
		var at place
		if _, err := fmt.Sscanf(piece, `{"in":%d,"id":%d,"k":%d`, &in, &at.id, &k); err != nil {
			j.w.t.Errorf("%q: %v", piece, err)
		}
		if _, part, ok := strings.Cut(piece, `"part `); ok {
			_, _ = fmt.Sscan(strings.TrimSuffix(part, `"}`), &at.part)
		}
		key := fmt.Sprint(k)
		if keys[key] && !j.sequential {
			j.w.t.Errorf("key %s is twice in one write", key)
		}
		mine[key] = true
		route := fmt.Sprint(in, " ", k)
		if last := j.last[route]; at.id < last.id {
			j.w.t.Errorf("input %d, key %s: %d came after %d", in, key, at.id, last.id)
		}
		j.last[route] = at
	}
	for k := range mine {
		keys[k] = true
	}
}
