package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Options are what a process gives to all its pipelines.
type Options struct {
	Log    *slog.Logger
	Shared *Shared                  // nil: of this pipeline alone
	Steps  map[string]Steps         // resources.steps
	Caches map[string]Plugin[Cache] // resources.caches
	Prints map[string]string        // of caches: one with another text is another cache
	Limits map[string]RateLimit     // resources.rate_limits
	Hooks  []Hook                   // take the events of all pipelines
	Reads  *Reads                   // of the process

	Secrets *schema.Secrets // what no error shows

	Instead *Plan                        // the plan whose place this one is to take; see Plan.Replace
	Same    func(kind, name string) bool // whether an "input" or "output" is configured as in that
}

// The codes of what only building can find; config has those of whole files.
func init() {
	schema.AddCode("bad-config", "A plugin can't be built with this configuration.")
	schema.AddCode("batch-only", "A step that works on whole batches stands where there is none.")
	schema.AddCode("group-place", "A group stands where its messages can't wait for each other.")
	schema.AddCode("own-timeout", "A timeout stands beside a step that has one of its own.")
	schema.AddCode("steps-expand", "Named steps that use named steps come to more than a pipeline can have.")
	schema.AddCode("cannot-return", "Failed messages are to go back to a source that takes nothing back.")
}

// Build makes a plan and reports everything that is wrong; with an error among
// the problems the plan is nil. It does no I/O.
func Build(p *Pipeline, o Options) (*Plan, []schema.Problem) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Shared == nil {
		o.Shared = &Shared{}
	}
	b := &builder{spec: p, options: o}
	b.env = Env{Log: o.Log.With("pipeline", p.Name), Shared: o.Shared, Secrets: o.Secrets, Pipeline: p.Name, Reads: o.Reads}.In(key{}, host{b})
	plan := b.build()
	for _, p := range b.problems {
		if !p.Warning {
			return nil, b.problems
		}
	}
	return plan, b.problems
}

// builder turns a Pipeline into a Plan and collects what is wrong with it.
type builder struct {
	spec       *Pipeline
	options    Options
	env        Env
	plan       *Plan
	problems   []schema.Problem
	using      []string // the named step lists that are being inlined
	batch      bool     // the steps at hand get whole batches
	inner      bool     // the steps at hand are inside another
	lanes      bool     // the steps at hand are the pipeline's own
	built      []string // the types of all steps so far
	full       bool     // the uses of named lists come to too much
	conditions int      // under which the steps at hand run
	states     []stateful

	returning []*OnFailure // those that say `return`
	retries   []*Retry     // all that are configured
}

func (b *builder) report(at schema.Place, code, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: code, Message: message, Remedy: remedy})
}

func (b *builder) build() *Plan {
	e := &b.spec.Engine
	b.plan = newPlan(&layout{
		Name: b.spec.Name, log: b.env.Log, secrets: b.options.Secrets, pauses: newPauses(),
		plugins:     plugins{log: b.env.Log, secrets: b.options.Secrets},
		workers:     cmp.Or(e.Workers, runtime.GOMAXPROCS(0)),
		maxMessages: cmp.Or(e.MaxInFlight.Messages, 10_000),
		maxBytes:    int(cmp.Or(e.MaxInFlight.Bytes, 64<<20)),
		drain:       cmp.Or(e.Drain.Timeout, 25*time.Second),
	})
	if b.options.Instead != nil {
		b.plan.pauses = b.options.Instead.pauses // paused stays paused
	}
	if !e.OrderBy.IsZero() {
		b.plan.orderBy, b.plan.ordered = &e.OrderBy, true
	}
	b.plan.hooks, b.plan.timeout = registered(b.options.Hooks), b.timeout()
	b.plan.maxReplay = cmp.Or(e.MaxReplay, 10*b.plan.maxMessages)
	b.plan.restart = e.Restart
	b.plan.restart.Backoff = cmp.Or(e.Restart.Backoff, time.Second)
	b.plan.restart.MaxBackoff = max(b.plan.restart.Backoff, cmp.Or(e.Restart.MaxBackoff, 30*time.Second))
	b.plan.limit = b.limit(e.RateLimit, "engine")
	b.middleware()
	b.outputs()
	b.routes()
	b.plan.failure = b.policy(&e.OnFailure.OnFailure)
	for i, o := range b.spec.Outputs.Entries() {
		if f := o.Value.OnFailure; f != nil && i < len(b.plan.outputs) {
			own := b.policy(f)
			b.plan.outputs[i].failure = &own
		}
	}
	b.batchers()
	b.limited(b.plan.limit, "engine", b.own)
	b.inputs()
	b.feeds()
	b.returns()
	b.intervals()
	b.serial()
	return b.plan
}

// feeds marks the outputs that take more than dead letters.
func (b *builder) feeds() {
	for _, r := range b.plan.batchers {
		for _, o := range r.outputs {
			for _, leaf := range o.leaves() {
				leaf.feeds = true
			}
		}
	}
}

// middleware resolves engine.middleware.
func (b *builder) middleware() {
	for _, name := range b.spec.Engine.Middleware {
		at := b.spec.Engine.Place
		spec := Middlewares.Lookup(name)
		if spec == nil {
			b.report(at, "unknown-middleware", fmt.Sprintf("no middleware %q is compiled in", name), "compiled in are: "+cmp.Or(strings.Join(Middlewares.Names(), ", "), "none"))
			continue
		}
		m, err := spec.Build(nil, b.named(name))
		b.failed(at, err)
		if err == nil {
			b.plan.middleware = append(b.plan.middleware, m)
		}
	}
}

func (b *builder) outputs() {
	for _, e := range b.spec.Outputs.Entries() {
		s := e.Value
		o := &outputPlan{
			name: e.Key, concurrency: max(1, int(s.Concurrency)),
			timeout: cmp.Or(s.Timeout, b.timeout()),
			retry:   b.retry(s.Retry), typ: s.Use.Name,
			limit: b.limit(s.RateLimit, "output "+e.Key),
		}
		if s.Concurrency == Auto {
			o.concurrency, o.auto = mostAuto, true
		}
		o.breaker = *cmp.Or(s.Breaker, &Breaker{Failures: 10})
		o.breaker.Backoff = cmp.Or(o.breaker.Backoff, time.Second)
		o.breaker.MaxBackoff = max(o.breaker.Backoff, cmp.Or(o.breaker.MaxBackoff, 30*time.Second))
		o.rebuild = func() (Output, error) { return s.Use.Build(b.named(e.Key)) }
		out, same := adopt[Output](b, "output", e.Key, 0)
		var err error
		if !same {
			out, err = s.Use.Build(b.named(e.Key))
			b.failed(s.Use.Place, err)
		}
		if err == nil {
			o.out = out
			t := TraitsOf(out)
			b.orderly("output", e.Key, s.Place, t.OrderBy)
			o.sequential = t.Sequential
			if c, ok := out.(Route); ok {
				o.route = &routePlan{Route: c}
			} else {
				b.plan.plugins.add("output "+e.Key, out)
			}
		}
		b.limited(o.limit, "output "+e.Key, func(keyed Steps) { o.steps = b.assembleBatch(append(keyed, s.Processors...)) })
		b.plan.outputs = append(b.plan.outputs, o)
	}
}

func (b *builder) timeout() time.Duration { return cmp.Or(b.spec.Engine.Timeout, 30*time.Second) }

// policy resolves an on_failure. Whether its words fit is the linter's business.
func (b *builder) policy(f *OnFailure) policy {
	p := policy{then: thens[f.Then]}
	if f.DeadLetter != "" {
		p.deadLetter = b.plan.output(f.DeadLetter)
		if p.then == thenDefault {
			p.then = thenDeadLetter
		}
		if p.deadLetter == nil {
			b.report(f.Place, "unknown-output", fmt.Sprintf("there is no output %q for dead letters", f.DeadLetter), "")
		}
	}
	if p.then == thenDeadLetter && p.deadLetter == nil {
		if b.plan.failure.deadLetter == nil {
			b.report(f.Place, "no-dead-letter", "`then: dead_letter` needs an output", "name it: dead_letter: OUTPUT")
		}
		p.deadLetter = b.plan.failure.deadLetter
	}
	if p.then == thenReturn {
		b.returning = append(b.returning, f)
	}
	return p
}

// returns checks that sources take back what is to return to them.
func (b *builder) returns() {
	for _, f := range b.returning {
		for _, in := range b.plan.inputs {
			switch in.takes {
			case TakesNothing:
				b.report(f.Place, "cannot-return", fmt.Sprintf("input %s takes nothing back, so failed messages can't return to it", in.name), "write `then: drop`, `stop`, or name a `dead_letter`")
			case TakesPosition:
				b.report(f.Place, "cannot-return", fmt.Sprintf("input %s keeps a position, so single messages can't return to it", in.name), "write `then: stop`, or name a `dead_letter`")
			}
		}
	}
}

// batchers are tried in the order written, those without match last. Without
// any, all goes to the one output that takes no dead letters.
func (b *builder) batchers() {
	specs := slices.Clone(b.spec.Batchers.Entries())
	slices.SortStableFunc(specs, func(x, y schema.Entry[BatcherSpec]) int {
		return cmp.Compare(rank(x.Value), rank(y.Value))
	})
	for _, e := range specs {
		s := e.Value
		p := &batcherPlan{name: e.Key, goesOn: s.Continue, concurrency: s.Concurrency, steps: b.assembleBatch(s.Processors)}
		if !s.Match.IsZero() {
			p.match = &s.Match
		}
		if !s.Key.IsZero() {
			p.key = &s.Key
		}
		if s.Use.Name != "" {
			plugin, err := s.Use.Build(b.named(e.Key))
			b.failed(s.Use.Place, err)
			p.batcher = plugin
			if err == nil {
				b.plan.plugins.add("batcher "+e.Key, plugin)
			}
		}
		for _, name := range s.Output {
			if o := b.plan.output(name); o != nil {
				p.outputs = append(p.outputs, o)
			} else {
				b.report(s.Place, "unknown-output", fmt.Sprintf("there is no output %q", name), "")
			}
		}
		b.plan.batchers = append(b.plan.batchers, p)
	}
	if len(specs) == 0 {
		b.plan.batchers = []*batcherPlan{{steps: &program{}, outputs: b.onlyOutput()}}
	}
}

func rank(s BatcherSpec) int {
	if s.Match.IsZero() {
		return 1
	}
	return 0
}

func (b *builder) onlyOutput() []*outputPlan {
	dead := map[string]bool{b.spec.Engine.OnFailure.DeadLetter: true}
	for _, o := range b.spec.Outputs.Entries() {
		if f := o.Value.OnFailure; f != nil {
			dead[f.DeadLetter] = true
		}
	}
	members := MembersOf(b.spec.Outputs)
	normal := slices.DeleteFunc(slices.Clone(b.plan.outputs), func(o *outputPlan) bool { return dead[o.name] || members[o.name] })
	switch len(normal) {
	case 1:
		return normal
	case 0:
		b.problems = append(b.problems, schema.Problem{Pos: b.spec.Place.Pos, Path: "outputs", Code: "no-route", Message: "there is no output for messages that succeed", Remedy: "add an output beside the dead letters'"})
	default:
		b.problems = append(b.problems, schema.Problem{Pos: b.spec.Place.Pos, Path: "outputs", Code: "no-batchers", Message: fmt.Sprintf("there are %d outputs and no batchers, so nothing says which output takes a message", len(normal)), Remedy: "write `batchers` that name them"})
	}
	return nil
}

func (b *builder) inputs() {
	for _, e := range b.spec.Inputs.Entries() {
		s := e.Value
		p := &inputPlan{name: e.Key, typ: s.Use.Name, limit: b.limit(s.RateLimit, "input "+e.Key)}
		b.limited(p.limit, "input "+e.Key, func(keyed Steps) { p.steps = b.assemble(append(keyed, s.Processors...)) })
		env := b.named(e.Key)
		env.Instances, env.Hands = max(1, s.Concurrency), b.hands()
		b.counted(&s, env)
		for env.Index = range env.Instances {
			in, same := adopt[Input](b, "input", e.Key, env.Index)
			if p.adopted = same; !same {
				var err error
				in, err = s.Use.Build(env)
				b.failed(s.Use.Place, err)
				if err != nil {
					break
				}
			}
			if _, lists := in.(Lister); lists {
				b.report(s.Use.Place, "bad-config", "a pattern names any number of queues, and an input reads one", "name one queue, or make it a source of an input `poll`")
				break
			}
			p.inputs = append(p.inputs, in)
			t := TraitsOf(in)
			p.learn(t)
			b.plan.plugins.add("input "+e.Key, in)
			if env.Index == 0 {
				b.orderly("input", e.Key, s.Place, t.OrderBy)
			}
		}
		b.plan.inputs = append(b.plan.inputs, p)
	}
}

func (b *builder) named(name string) Env {
	env := b.env
	env.Name, env.Log, env.Pipeline = name, env.Log.With("name", name), b.spec.Name
	return env
}

func (b *builder) failed(at schema.Place, err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	b.report(at, "bad-config", err.Error(), "")
}

func newPlan(l *layout) *Plan {
	return &Plan{layout: l, drained: make(chan struct{}), replaced: make(chan struct{})}
}
