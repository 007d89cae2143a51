package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

func init() {
	engine.Register(engine.Middlewares, "around", "For tests: calls what it wraps.", struct{}{},
		func(struct{}, engine.Env) (engine.Middleware, error) {
			return func(next engine.Processor) engine.Processor { return procFunc(next.Process) }, nil
		})
}

// A message is {"in":0,"id":1,"k":2,"do":"split3"}. do says what the scripted step or the output does with it.
var deeds = []string{
	"pass", "pass", "pass", "pass", "drop", "fail", "split0", "split3", "split400", "cut2", "slow", "park", "parkfail",
	"delay", "panic",
	"flaky1", "flaky2", "flaky4", "refuse", "reject", "shaky1", "shaky3", "outpark0", "outpark1",
}

// world is one pipeline and its properties.
type world struct {
	t *testing.T
	r *rand.Rand
	p *engine.Pipeline

	seed uint64

	began     time.Time
	sources   []*origin
	outs      []*judge
	dlqs      []*Sink
	limits    []*passages
	then      engine.Fate // fate of messages that a step fails
	onError   string
	stepTries int // 0: no limit
	tries     int // attempts at an output without a policy of its own
	repaired  bool
	ordered   bool
	edits     bool     // steps only edit messages, so that slabs leave the lanes in order
	keeping   *keeping // nil: no step keeps anything
	crowded   bool     // many messages go through groups at once, and none fails
	merges    bool     // a message may share the fate of its neighbours
	panics    bool     // likewise
	swells    bool     // steps make messages longer for a while
	twins     bool     // an input makes two pieces of some roots
	refused   [][]engine.Fate
	stakes    *ledgerOfStakes
	reloads   bool  // in mid-stream
	replays   int64 // roots that were read again in the new plan
	successor *runtime.Plan
	observed  *observed
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 7)), began: time.Now(),
		stakes: &ledgerOfStakes{put: map[uint64]int{}, ends: map[uint64][]bool{}}}
	w.ordered = w.r.IntN(2) == 0
	w.edits = w.ordered && seed%3 == 0
	w.p = &engine.Pipeline{Name: "seed", Engine: engine.EngineSpec{
		Workers: 1 + w.r.IntN(4),
	}}
	w.p.Engine.MaxInFlight.Messages = 1 + w.r.IntN(600)
	w.p.Engine.MaxInFlight.Bytes = schema.Size(w.one(64<<20, 1, 5000))
	w.p.Engine.Restart = engine.Restart{Backoff: w.ms(1, 20), MaxBackoff: w.ms(20, 50), MaxAttempts: restarts}
	if w.ordered {
		w.p.Engine.OrderBy = expr.MustCompile("k")
	}
	w.then, w.tries = engine.Returned, 5
	if w.crowded = w.ordered && w.maybe(4); w.crowded {
		w.crowd()
		return w
	}
	if w.maybe(4) {
		w.p.Engine.Middleware = []string{"around"}
	}
	if w.maybe(6) {
		w.p.Engine.RateLimit = w.limit()
	}
	if w.maybe(2) {
		w.then, w.p.Engine.OnFailure.DeadLetter = engine.DeadLettered, "dlq"
	}
	if w.maybe(2) {
		w.p.Engine.OnFailure.Retry, w.tries = w.retry(1, 2, 3, 5, 6)
	}
	if !w.edits && w.maybe(3) {
		w.keeping = w.newKeeping()
	}
	w.inputs()
	if w.keeping != nil {
		w.remember()
	} else {
		w.steps()
	}
	w.outputs()
	w.batchers()
	if w.maybe(4) {
		w.reloads = !slices.ContainsFunc(w.outs, func(j *judge) bool { return j.faults.hang > 0 || j.faults.reopen })
	}
	return w
}

// crowd makes a pipeline whose order only the engine's own loops can break: messages that leave groups meet messages that arrive, in
// lanes that are always busy.
func (w *world) crowd() {
	w.p.Engine.Workers = 2 + w.r.IntN(3)
	w.p.Engine.MaxInFlight.Messages, w.p.Engine.MaxInFlight.Bytes = 0, 0
	keys := w.one(3, 20)
	src := &origin{w: w, Source: Source{Takes: engine.TakesOne}, tried: map[uint64]int{}}
	for id := range 3000 {
		src.Payloads = append(src.Payloads, fmt.Sprintf(`{"in":0,"id":%d,"k":%d,"do":"pass"}`, id, w.r.IntN(keys)))
	}
	src.acker, w.sources = src, []*origin{src}
	w.p.Inputs = Named("in0",
		engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })})
	if w.edits {
		w.p.Processors = engine.Steps{w.step("uneven", func(_ context.Context, m *engine.Message) error {
			if h := fnv.New32a(); len(m.Bytes())%2 == 0 {
				_, _ = h.Write(m.Bytes())
				time.Sleep(time.Duration(h.Sum32()%50) * time.Microsecond)
			}
			return nil
		})}
	}
	for range 1 + w.r.IntN(2) {
		if w.edits {
			break
		}
		g := group(engine.GroupConfig{Size: w.one(1, 9, 256), Timeout: time.Hour, AtOnce: w.maybe(3),
			Do: engine.Steps{Step("nothing", func(context.Context, *engine.Message) error { return nil })}})
		if w.maybe(3) {
			g.When = expr.MustCond("id % 3 != 0")
		}
		w.p.Processors = append(w.p.Processors, g)
	}
	out := w.judge("out0")
	out.sequential, out.delay = true, 0
	w.p.Outputs = Named("out0",
		engine.OutputSpec{Use: engine.Use(func(engine.Env) (engine.Output, error) { return out.instance(), nil })})
	w.refused = [][]engine.Fate{{engine.Returned}}
}

// restarts is more than the consecutive faults of an input, and less than its cut connections.
const restarts = 12

// one picks one of the values.
func (w *world) one(of ...int) int { return of[w.r.IntN(len(of))] }

func (w *world) maybe(in int) bool { return w.r.IntN(in) == 0 }

// ms picks a duration from least to most milliseconds.
func (w *world) ms(least, most int) time.Duration {
	return time.Duration(least+w.r.IntN(most-least+1)) * time.Millisecond
}

func (w *world) limit() *engine.RateLimit {
	l := &engine.RateLimit{Messages: w.one(1, 7, 50, 300), Per: w.ms(1, 50),
		Kind: []string{"window", "bucket"}[w.r.IntN(2)]}
	if w.maybe(2) {
		l.Key = expr.MustCompile([]string{`meta("k")`, `meta("id") % 3`}[w.r.IntN(2)])
	}
	return l
}

// retry makes a policy with one of these numbers of attempts; 0 is no limit.
func (w *world) retry(tries ...int) (*engine.Retry, int) {
	r := &engine.Retry{MaxAttempts: w.one(tries...), Backoff: w.ms(1, 100)}
	if r.MaxBackoff = w.ms(1, 2000); w.maybe(3) {
		r.Intervals = []time.Duration{w.ms(0, 3), w.ms(0, 50)}
	}
	if w.maybe(4) {
		r.MaxAge = 10_000 * time.Hour
	}
	return r, r.MaxAttempts
}

func (w *world) inputs() {
	var all []schema.Entry[engine.InputSpec]
	overall := w.watched("the engine", w.p.Engine.RateLimit)
	if w.maybe(4) {
		w.p.Engine.MaxReplay = 1 + w.r.IntN(100)
	}
	for in := range 1 + w.r.IntN(3) {
		var payloads []string
		var keys []int
		most := 250
		if w.keeping != nil {
			most = 60
		}
		for id := range 1 + w.r.IntN(most) {
			do := deeds[w.r.IntN(len(deeds))]
			if (do == "split400" || do == "panic") && w.r.IntN(20) > 0 {
				do = "pass"
			}
			if w.edits && (strings.HasPrefix(do, "split") || strings.HasPrefix(do, "cut")) {
				do = "slow"
			}
			keys = append(keys, w.r.IntN(5))
			if w.keeping != nil {
				payloads = append(payloads, w.keeping.payload(w, in, id, keys[id]))
				continue
			}
			w.panics = w.panics || do == "panic"
			payloads = append(payloads, fmt.Sprintf(`{"in":%d,"id":%d,"k":%d,"do":%q}`, in, id, keys[id], do))
		}
		src := &origin{w: w, Source: Source{Payloads: payloads, Takes: engine.TakesOne, PerRead: w.r.IntN(60)},
			flaky: w.maybe(3), tried: map[uint64]int{}, faults: map[int]int{}}
		src.Prepare = func(i int, m *engine.Message) { // a merged message has that of its first part
			m.Meta = m.Meta.With("root", in<<20|i).With("id", i).With("k", keys[i])
		}
		if w.maybe(3) {
			src.Every = time.Duration(w.r.IntN(30)) * time.Millisecond
		}
		if w.then == engine.DeadLettered && w.keeping == nil && w.maybe(2) { // the others return failed messages
			src.Takes = engine.TakesBack(w.one(int(engine.TakesNothing), int(engine.TakesPosition)))
		}
		if src.acker = src; src.Takes == engine.TakesOne && w.keeping == nil && w.maybe(5) {
			src.acker, src.lost = lends{src}, map[uint64]bool{}
		}
		for range w.one(0, 0, 3) {
			src.faults[w.r.IntN(len(payloads))] = w.r.IntN(4)
		}
		if src.standing = time.Second + w.ms(0, w.one(0, 5000)); w.maybe(4) {
			src.quiet = map[int]int{w.r.IntN(len(payloads)): restarts + 3}
		}
		w.sources = append(w.sources, src)
		spec := engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return src, nil })}
		if w.maybe(6) {
			spec.RateLimit = w.limit()
		}
		l := w.watched(fmt.Sprint("input ", in), spec.RateLimit)
		if keyed := spec.RateLimit != nil && l == nil; !keyed && (l != nil || overall != nil) { // this limit is a step before the batcher
			spec.Processors = append(spec.Processors, enters(l, overall))
		}
		if w.maybe(4) {
			spec.Processors = append(spec.Processors, w.stumble("own"))
		}
		if w.keeping == nil && w.maybe(3) {
			w.twins = true
			spec.Processors = append(spec.Processors, proc("two", twice))
		}
		all = append(all, entry(fmt.Sprint("in", in), spec))
	}
	w.p.Inputs = schema.MapOf(all...)
}

// stumble returns a step that some messages pass only at the second attempt.
func (w *world) stumble(name string) engine.StepSpec {
	var mu sync.Mutex
	seen := map[string]bool{}
	s := w.step(name, func(_ context.Context, m *engine.Message) error {
		mu.Lock()
		defer mu.Unlock()
		body := string(m.Bytes())
		h := fnv.New32a()
		_, _ = h.Write(m.Bytes())
		if h.Sum32()%9 > 0 || seen[body] {
			return nil
		}
		seen[body] = true
		m.Meta = m.Meta.With("half", "done")
		m.SetBytes([]byte("half"))
		return engine.Errorf(engine.Transient, "stumbled")
	})
	s.Retry, _ = w.retry(0, 2, 3)
	return s
}

func (w *world) steps() {
	all := &script{stakes: w.stakes, tries: map[string]int{}}
	step := engine.StepSpec{Name: "script", Use: Processing(all)}
	if w.edits {
		step = w.step("script", func(_ context.Context, m *engine.Message) error { all.one(nil, m); return nil })
	}
	if w.stepTries = w.tries; w.maybe(2) {
		step.Retry, w.stepTries = w.retry(0, 1, 2, 3, 5)
	}
	switch w.onError = []string{"", "continue", "drop", "repair", "repair in vain"}[w.r.IntN(5)]; w.onError {
	case "repair":
		step.OnError.Steps = engine.Steps{w.step("repair", func(context.Context, *engine.Message) error { return nil })}
	case "repair in vain":
		step.OnError.Steps = engine.Steps{w.step("repair",
			func(context.Context, *engine.Message) error { return errors.New("in vain") })}
	default:
		step.OnError.Then = w.onError
	}
	w.p.Processors = engine.Steps{step}
	if w.maybe(4) {
		w.p.Processors = append(w.p.Processors, w.stumble("second"))
	}
	if w.maybe(2) { // a step that a repair must not skip
		w.p.Processors = append(w.p.Processors, w.step("mark", func(_ context.Context, m *engine.Message) error {
			m.Meta = m.Meta.With("marked", true)
			return nil
		}))
		w.repaired = true
	}
	w.p.Processors = w.swell(w.p.Processors)
	if !w.edits && w.maybe(3) {
		w.groups()
	}
}

// step makes a step from a function that edits one message.
func (w *world) step(name string, f engine.ProcessorFunc) engine.StepSpec {
	if w.edits {
		return engine.StepSpec{Name: name, Use: Processing(engine.Edit{ProcessorFunc: f})}
	}
	return Step(name, f)
}

// swell adds steps between which messages are longer. Together, some of them need more bytes than there are.
func (w *world) swell(steps engine.Steps) engine.Steps {
	if w.p.Engine.MaxInFlight.Bytes < 5000 || !w.maybe(3) {
		return steps
	}
	pad, most := doc.MustParsePath("pad"), 1100+w.r.IntN(3000)
	grow := w.step("swell", func(_ context.Context, m *engine.Message) error {
		if m.Doc().Valid() != nil { // "half", or a merged message
			return nil
		}
		if most%2 == 0 {
			if err := m.Grow(most); err != nil {
				return err
			}
		}
		return m.Set(pad, strings.Repeat("x", most))
	})
	nap := w.step("nap", func(context.Context, *engine.Message) error { time.Sleep(time.Millisecond); return nil })
	shrink := w.step("shrink", func(_ context.Context, m *engine.Message) error {
		if m.Doc().Valid() != nil {
			return nil
		}
		return m.Unset(pad)
	})
	w.swells = true
	return append(engine.Steps{grow, nap, shrink}, steps...)
}

// groups adds groups before and after the scripted step.
func (w *world) groups() {
	for range 1 + w.r.IntN(2) {
		do := engine.Steps{w.stumble("in a group")}
		merges := true
		switch w.r.IntN(4) {
		case 0:
			do = append(do, proc("pairs", pairs))
		case 1:
			do = append(do, proc("pairs", pairs), proc("unpair", splitAt("+")))
		case 2:
			do = append(engine.Steps{proc("unpair", splitAt("+"))}, do...)
		default:
			merges = false
		}
		if w.maybe(2) {
			do = append(do,
				Step("nap", func(context.Context, *engine.Message) error { time.Sleep(time.Millisecond); return nil }))
		}
		do = w.swell(do)
		g := group(engine.GroupConfig{Size: 1 + w.r.IntN(30), AtOnce: w.maybe(3),
			Timeout: []time.Duration{1000 * time.Hour, 10 * time.Millisecond}[w.r.IntN(2)], Do: do})
		if w.maybe(2) {
			g.When = expr.MustCond(fmt.Sprintf(`meta("id") %% %d != 0`, 2+w.r.IntN(3)))
		}
		if merges {
			w.merges = true
			w.p.Processors = append(w.p.Processors, g)
		} else {
			w.p.Processors = append(engine.Steps{g}, w.p.Processors...)
		}
		if w.maybe(3) {
			w.p.Processors = append(w.p.Processors, w.stumble("behind a group"))
		}
	}
}

// outputs makes the routes "out0" and so on: outputs, or composite outputs.
func (w *world) outputs() {
	var all []schema.Entry[engine.OutputSpec]
	for i := range 1 + w.r.IntN(3) {
		name := fmt.Sprint("out", i)
		if !w.maybe(5) {
			o, fate := w.output(name, &all)
			w.refused = append(w.refused, []engine.Fate{fate})
			all = append(all, entry(name, o))
			continue
		}
		var fates []engine.Fate
		var members members
		for n := range 1 + w.r.IntN(3) {
			members = append(members, fmt.Sprint(name, ".", n))
			o, fate := w.output(members[n], &all)
			fates = append(fates, fate)
			all = append(all, entry(members[n], o))
		}
		kind := w.r.IntN(3)
		if kind == 0 { // if all members refuse a message, the last one decides
			fates = fates[len(fates)-1:]
		}
		use := engine.Use(func(engine.Env) (engine.Output, error) {
			return []engine.Output{engine.Route{Fallback: true}, engine.Route{RoundRobin: true},
				partition(`meta("k")`)}[kind], nil
		})
		use.Config = members
		w.refused = append(w.refused, fates)
		all = append(all, entry(name, engine.OutputSpec{Use: use}))
	}
	if w.then == engine.DeadLettered {
		dlq := w.deadLetters()
		spec := dlq.Output()
		spec.Concurrency = engine.Concurrency(1 + w.r.IntN(3))
		all = append(all, entry("dlq", spec))
	}
	w.p.Outputs = schema.MapOf(all...)
}

// members returns the configuration of a composite output.
type members engine.Names

func (m members) Traits() engine.Traits { return engine.Traits{Members: engine.Names(m)} }

// deadLetters returns an output for dead letters, which may need several attempts.
func (w *world) deadLetters() *Sink {
	dlq := &Sink{Delay: time.Duration(w.r.IntN(3)) * time.Millisecond}
	w.dlqs = append(w.dlqs, dlq)
	if w.maybe(2) {
		var mu sync.Mutex
		n := 0
		dlq.FailAll = func([]string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%3 > 0 {
				return errors.New("not yet")
			}
			return nil
		}
	}
	return dlq
}

// output returns an output that is not composite, and the fate of messages that it refuses.
func (w *world) output(name string, all *[]schema.Entry[engine.OutputSpec]) (engine.OutputSpec, engine.Fate) {
	j := w.judge(name)
	spec := engine.OutputSpec{
		Concurrency: engine.Concurrency(w.one(1, 1, 2, 3, 4, int(engine.Auto))),
		Use:         engine.Use(func(engine.Env) (engine.Output, error) { return j.instance(), nil }),
		Timeout:     j.timeout,
		Breaker:     &engine.Breaker{Failures: w.one(0, 1, 3, 10), Backoff: w.ms(1, 50), MaxBackoff: w.ms(50, 500)},
	}
	if w.maybe(2) {
		spec.Retry, j.most = w.retry(0, 0, 1, 2, 5)
	}
	if w.maybe(6) {
		spec.RateLimit = w.limit()
		j.limited = w.watched("output "+name, spec.RateLimit)
	}
	if w.maybe(5) {
		spec.Processors = engine.Steps{w.stumble("own")}
	}
	spec.Processors = w.swell(spec.Processors)
	j.probes = w.maybe(2)
	w.break1(&j.faults, j.most == 0)
	fate := w.then
	switch w.r.IntN(4) {
	case 0:
		then := engine.Then{Word: "drop"}
		if w.maybe(2) {
			then = engine.Then{Choose: expr.MustCompile(`error() == nil ? "stop" : "drop"`)}
		}
		spec.OnFailure, fate = &engine.OnFailure{Then: then}, engine.Dropped
	case 1:
		if w.then == engine.DeadLettered {
			dlq := "dlq of " + name
			spec.OnFailure = &engine.OnFailure{DeadLetter: dlq}
			*all = append(*all, entry(dlq, w.deadLetters().Output()))
		}
	}
	return spec, fate
}

func (w *world) judge(name string) *judge {
	j := &judge{
		w: w, name: name, sequential: w.maybe(2), delay: w.r.IntN(4), most: w.tries, timeout: w.ms(20, 200),
		r:    rand.New(rand.NewPCG(w.r.Uint64(), 1)),
		last: map[string]place{}, under: map[string]int{}, keys: map[string]int{}, failed: map[string]int{},
		shaken: map[string]int{}, parked: map[string]int{}, dead: map[string]int{},
	}
	w.outs = append(w.outs, j)
	return j
}

// break1 decides how an output fails. An outage may only last if attempts are not limited; otherwise messages would be lost.
func (w *world) break1(f *outFaults, unlimited bool) {
	if w.maybe(3) {
		f.transient = w.one(0, 3, 10)
	}
	if w.maybe(3) {
		f.hang, f.slow = w.one(0, 20, 60), w.one(0, 20)
	}
	if w.maybe(4) {
		f.auth = window{w.ms(0, 50), w.ms(0, 2000)}
	}
	if unlimited && w.maybe(2) {
		f.down = window{w.ms(0, 50), w.ms(0, 2000)}
	}
	if w.maybe(3) { // an unreachable output uses up no attempts, so that may happen at any time
		f.away = window{w.ms(0, 50), w.ms(0, 2000)}
	}
	f.reopen = w.maybe(3)
}

// batchers sends all messages to all routes: as one list of outputs, or as copies to all but the last.
func (w *world) batchers() {
	names := make(engine.Names, len(w.refused))
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
		open := []string{"1000h", "10ms"}[w.r.IntN(2)]
		if w.keeping != nil { // a message that waits for a delivery waits for its batch
			open = "10ms"
		}
		b = batched(w.t, fmt.Sprintf(`{"size": %d, "timeout": "%s", "max_keys": %d}`, w.r.IntN(50),
			open, w.r.IntN(4)), to...)
		if w.maybe(2) {
			b.Key = expr.MustCompile([]string{`meta("k")`, `meta("k") % 2`, `meta("id") % 7`}[w.r.IntN(3)])
		}
		if w.maybe(4) {
			b.Concurrency = 1 + w.r.IntN(3)
		}
	}
	if w.maybe(5) {
		b.Processors = append(b.Processors, w.stumble("before"))
	}
	b.Processors = w.swell(b.Processors)
	switch w.r.IntN(4) {
	case 0:
		b.Processors = append(b.Processors, proc("pairs", pairs))
	case 1:
		b.Processors = append(b.Processors, proc("pairs", pairs), proc("unpair", splitAt("+")))
	default:
		return b
	}
	w.merges = true
	if w.maybe(5) {
		b.Processors = append(b.Processors, w.stumble("behind"))
	}
	return b
}

func partition(key string) engine.Output {
	by := expr.MustCompile(key)
	return engine.Route{Key: &by}
}
