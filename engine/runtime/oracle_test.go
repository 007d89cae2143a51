package runtime_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
)

var (
	seeds  = flag.Int("seeds", 20, "whole pipelines that TestEveryMessageIsAnObligation makes up")
	from   = flag.Uint64("from", 1, "the first of them")
	within = flag.Duration("within", time.Hour, "none is begun after this time")
	seed   = flag.Uint64("seed", 0, "the one pipeline to run, 0: all")
)

// TestEveryMessageIsAnObligation generates whole pipelines from seeds, and runs them in virtual time. Whatever inputs, steps, batchers
// and outputs do, and whenever the pipeline is stopped: every message that was read ends once, with a fate that its script allows. Its
// source and its stakes are told once. Messages with equal keys keep their order, no message is tried too often, and none waits
// forever.
func TestEveryMessageIsAnObligation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // a pipeline has little live memory, so collections may be rare
	began := time.Now()
	first, last, shards := *from, uint64(*seeds), uint64(goruntime.GOMAXPROCS(0))
	if *seed > 0 {
		first, last, shards = *seed, *seed, 1
	}
	t.Run("seed", func(t *testing.T) { // returns when all shards have ended
		for n := range shards {
			t.Run(fmt.Sprint("shard ", n), func(t *testing.T) {
				t.Parallel()
				for s := first + n; s <= last && time.Since(began) < *within; s += shards {
					ok := t.Run(fmt.Sprint(s), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { newWorld(t, s).obligations() })
					})
					if !ok {
						t.Fatalf("again: go test ./engine/runtime -run TestEveryMessageIsAnObligation -seed %d", s)
					}
				}
			})
		}
	})
}

func (w *world) obligations() {
	t, stopped := w.t, w.maybe(3)
	stop, cancel := context.WithCancel(t.Context())
	kill, hard := context.WithCancel(t.Context())
	defer hard()
	defer cancel()
	if stopped { // at any time, possibly with too little time to finish
		for _, s := range w.sources {
			s.Endless = true
		}
		w.p.Engine.Drain.Timeout = time.Duration(1+w.r.IntN(w.one(200, 2000))) * time.Millisecond
		at := time.Duration(w.r.IntN(w.one(20, 100, 1000))) * time.Millisecond
		time.AfterFunc(at, cancel)
		if w.maybe(3) {
			time.AfterFunc(at+time.Duration(w.r.IntN(20))*time.Millisecond, hard)
		}
	}
	began := time.Now()
	if *seed > 0 {
		w.describe()
	}
	plan := w.build(runtime.Options{})
	stuck := time.AfterFunc(4*time.Hour, func() { panic(fmt.Sprintf("seed %d is stuck: %+v", w.seed, plan.Snapshot())) })
	reload := func() {}
	if w.reloads {
		at := time.AfterFunc(time.Duration(w.r.IntN(w.one(20, 100, 1000)))*time.Millisecond,
			func() { plan.Replace(w.next(plan)) })
		reload = func() { at.Stop() }
	}
	rep := plan.Run(stop, kill)
	reload()
	unsaved := false // a cache is unreachable when a plan ends, so that its results may not be reported
	if plan.Replaced() {
		unsaved = w.keeping != nil && w.keeping.away()
		w.replayed(rep.Stats.Roots.InFlight)
		plan = w.successor
		rep = plan.Run(stop, kill)
	}
	stuck.Stop()
	unsaved = unsaved || stopped && w.keeping != nil && (w.keeping.away() || w.keeping.slow)
	if took := time.Since(began); took > 3*time.Hour {
		t.Errorf("took %v: something waited for a batch's timeout", took)
	}
	time.Sleep(time.Minute) // calls that return too late must change nothing
	for _, c := range []engine.Counts{rep.Stats.Roots, rep.Stats.Pieces} {
		if !c.Balanced() || c.InFlight != 0 {
			t.Errorf("not accounted for: %+v", c)
		}
	}
	if used := plan.Snapshot().Bytes; used != 0 && !stopped {
		t.Errorf("%d bytes are charged for nothing", used)
	}
	w.observed.check(rep.Stats.Roots)
	if rep.Err != nil && !unsaved {
		t.Errorf("the run failed: %v", rep.Err)
	}
	taken, returnable := 0, 0
	for in, s := range w.sources {
		taken += s.Taken()
		if s.Takes != engine.TakesNothing {
			returnable += s.Taken()
		}
		if !stopped && s.Taken() != len(s.Payloads) {
			t.Errorf("input %d: read %d of %d", in, s.Taken(), len(s.Payloads))
		}
		w.told(in, s, stopped, unsaved)
	}
	if got := int(rep.Stats.Roots.Ended[engine.Returned]); got > returnable {
		t.Errorf("%d returned, but sources take only %d back", got, returnable)
	}
	if got := int(rep.Stats.Roots.Received); got != taken {
		t.Errorf("received %d, want %d", got, taken)
	}
	if !stopped && w.replays == 0 {
		w.confirmed(rep.Stats.Pieces.Ended)
	}
	if w.keeping != nil {
		w.keeping.kept(w, stopped || unsaved)
	}
	w.lives(stopped)
	if !plan.Replaced() && w.successor == nil { // a new plan has its own limits
		for _, l := range w.limits {
			l.held(t)
		}
	}
}

// next builds the plan that replaces another one: the same pipeline, with its inputs and some of its outputs still connected.
func (w *world) next(old *runtime.Plan) *runtime.Plan {
	w.successor = w.build(runtime.Options{Instead: old,
		Same: func(kind, name string) bool {
			return kind == "input" || len(name)%2 == 0
		}})
	return w.successor
}

func (w *world) build(o runtime.Options) *runtime.Plan {
	o.Log = slog.New(slog.DiscardHandler)
	if w.observed == nil {
		w.observed = &observed{world: w, open: map[engine.Origin]bool{}}
	}
	o.Observers = []engine.Observer{w.observed}
	if w.keeping != nil {
		o.Caches, o.Shared = w.keeping.plugins(), &w.keeping.shared
	}
	plan, problems := runtime.Build(w.p, o)
	if plan == nil {
		panic(fmt.Sprint(problems))
	}
	return plan
}

// replayed notes that n roots are read again, so that outputs may see them once more.
func (w *world) replayed(roots int64) {
	for _, s := range w.sources {
		s.mu.Lock()
		s.before = len(s.told)
		s.mu.Unlock()
	}
	for _, j := range w.outs { // a new plan has to find out again
		j.mu.Lock()
		j.heldAt = time.Time{}
		j.mu.Unlock()
	}
	if w.replays = roots; roots == 0 {
		return
	}
	if w.keeping != nil {
		w.keeping.again(w)
	}
	for _, j := range w.outs {
		j.mu.Lock()
		clear(j.last)
		clear(j.failed)
		clear(j.dead)
		j.mu.Unlock()
	}
}

// describe prints the pipeline of a seed.
func (w *world) describe() {
	for _, s := range w.sources {
		w.t.Logf("input: takes %v, %d messages, %d a read, every %v, flaky acks %v, faults %v", s.Takes,
			len(s.Payloads), s.PerRead, s.Every, s.flaky, s.faults)
	}
	for n, o := range w.p.Outputs.All() {
		w.t.Logf("output %s: concurrency %d, timeout %v, on_failure %+v, retry %+v, breaker %+v, limit %+v, %d steps",
			n, o.Concurrency, o.Timeout, o.OnFailure, o.Retry, o.Breaker, o.RateLimit, len(o.Processors))
	}
	for n, b := range w.p.Batchers.All() {
		w.t.Logf("batcher %s: to %v, key %v, concurrency %d, %d steps", n, b.Output, b.Key, b.Concurrency,
			len(b.Processors))
	}
	for _, x := range w.p.Processors {
		w.t.Logf("step %s", x.Name)
	}
	if k := w.keeping; k != nil {
		w.t.Logf("%s", strings.Join(k.text, "\n"))
		for name, c := range k.caches {
			w.t.Logf("cache %s: away after %v for %v, reads fail %v", name, c.From.Sub(w.began), c.Until.Sub(c.From), c.Reads)
		}
	}
	w.t.Logf("engine: %+v, on_error %q", w.p.Engine, w.onError)
	for _, j := range w.outs {
		w.t.Logf("judge %s: sequential %v, delay %d ms, %d attempts, faults %+v", j.name, j.sequential, j.delay, j.most,
			j.faults)
	}
}

// told compares the results that a source and the stakes were told with the scripts.
func (w *world) told(in int, s *origin, stopped, unsaved bool) {
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
			if committed != (r.Fate <= engine.DeadLettered) && (committed || w.replays == 0) {
				w.t.Errorf("%s ended %v, its stake was told committed=%v", body, r.Fate, committed)
			}
		}
	}
	for ref := range s.Taken() {
		if n := times[uint64(ref)]; n != 1 && s.Takes != engine.TakesNothing && !(n == 0 && (unsaved || s.lost[uint64(ref)])) {
			w.t.Errorf("%s: its source was told %d times", s.Payloads[ref], n)
		}
		id := uint64(in)<<20 | uint64(ref)
		// a stake may come too late for a root that was handed back
		if put, got := w.stakes.put[id], len(w.stakes.ends[id]); put != got && !(stopped && got < put) {
			w.t.Errorf("%s: %d stakes, %d told", s.Payloads[ref], put, got)
		}
	}
}

// deed returns the verb of a message's script, and its number.
func deed(body string) (do string, n int) {
	_, do, _ = strings.Cut(body, `"do":"`)
	do, _, _ = strings.Cut(do, `"`)
	name := strings.TrimRight(do, "0123456789")
	_, _ = fmt.Sscan(do[len(name):], &n)
	return name, n
}

// fates returns the fates that a root may have.
func (w *world) fates(body string) []engine.Fate {
	if w.keeping != nil {
		return w.keeping.fates(w, body)
	}
	return w.scripted(body)
}

// scripted returns the fates that a message may have if no step keeps anything.
func (w *world) scripted(body string) (all []engine.Fate) {
	do, n := deed(body)
	failed := map[string]engine.Fate{"": w.then, "continue": engine.Delivered, "drop": engine.Dropped,
		"repair": engine.Delivered, "repair in vain": w.then}[w.onError]
	switch {
	case do == "drop", do == "split" && n == 0:
		all = append(all, engine.Filtered)
	case do == "fail", do == "panic", do == "parkfail", do == "flaky" && w.stepTries > 0 && n >= w.stepTries:
		all = append(all, failed)
	case do == "cut": // two parts and then an error, which neither `continue` nor a repair can undo
		if all = append(all, w.then); w.onError == "drop" {
			all[0] = engine.Dropped
		}
	case do == "refuse", do == "reject":
		all = w.refusals(false)
	default:
		all = append(all, engine.Delivered)
	}
	if w.panics {
		all = append(all, failed, max(all[0], failed))
	}
	if w.replays > 0 && do == "flaky" { // its attempts are counted again from 1
		all = append(all, engine.Delivered)
	}
	if !w.merges {
		return all
	}
	for _, f := range slices.Clone(all) {
		for _, refused := range w.refusals(true) {
			if f != engine.Filtered { // refused together with the messages that it was merged with
				all = append(all, max(f, refused))
			}
		}
	}
	return all
}

// refusals returns the fates of a message that all routes refuse or, if some is set, that some routes refuse. The worst fate counts.
func (w *world) refusals(some bool) []engine.Fate {
	worst := []engine.Fate{engine.Filtered}
	for _, route := range w.refused {
		var next []engine.Fate
		if some {
			next = slices.Clone(worst)
		}
		for _, f := range worst {
			for _, r := range route {
				next = append(next, max(f, r))
			}
		}
		slices.Sort(next)
		worst = slices.Compact(next)
	}
	return worst
}

// confirmed compares the counts of pieces with those of the outputs.
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
		w.t.Errorf("pieces delivered %d, written %d; dead-lettered %d, written %d", ended[engine.Delivered], took,
			ended[engine.DeadLettered], dead)
	}
}

// lives checks that everything that was opened was closed once.
func (w *world) lives(stopped bool) {
	for i, s := range w.sources {
		s.mu.Lock()
		if s.opened != s.closed && !stopped {
			w.t.Errorf("input %d was opened %d times and closed %d times", i, s.opened, s.closed)
		}
		s.mu.Unlock()
	}
	for _, j := range w.outs {
		j.mu.Lock()
		for n, i := range j.instances {
			if i.opened != i.closed && (i.opened < 2 || stopped) && i.closed > 1 || i.opened > 1 ||
				i.closed < i.opened {
				w.t.Errorf("output %s, instance %d: opened %d times, closed %d times", j.name, n, i.opened, i.closed)
			}
		}
		j.mu.Unlock()
	}
}
