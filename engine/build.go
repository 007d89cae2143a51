package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
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

	Known []schema.Problem // found already: where one is an error nothing is built, nor a plan

	Instead *Plan                        // the plan whose place this one is to take; see Plan.Replace
	Same    func(kind, name string) bool // whether an "input" or "output" is configured as in that
}

// The codes of what only building can find; see rules.
func init() {
	schema.AddCode("bad-config", "A plugin can't be built with this configuration.")
	schema.AddCode("batch-only", "A step that works on whole batches stands where there is none.")
	schema.AddCode("group-place", "A group stands where its messages can't wait for each other.")
	schema.AddCode("own-timeout", "A timeout stands beside a step that has one of its own.")
	schema.AddCode("steps-expand", "Named steps that use named steps come to more than a pipeline can have.")
	schema.AddCode("cannot-return", "Failed messages are to go back to a source that takes nothing back.")
}

// Build makes a plan and reports everything that is wrong; with an error, be it a known
// one, the plan is nil. It does no I/O.
func Build(p *Pipeline, o Options) (*Plan, []schema.Problem) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Shared == nil {
		o.Shared = &Shared{}
	}
	r := newRules(p, &o)
	r.judge()
	r.limits()
	r.exposed()
	b := &builder{spec: p, options: o, problems: r.problems}
	b.wrong = p.wrong(&o, slices.Concat(o.Known, b.problems))
	b.env = Env{Log: o.Log.With("pipeline", p.Name), Shared: o.Shared, Secrets: o.Secrets, Pipeline: p.Name, Reads: o.Reads, builder: b}
	plan := b.build()
	wrong := func(p schema.Problem) bool { return !p.Warning }
	if slices.ContainsFunc(o.Known, p.fails) || slices.ContainsFunc(b.problems, wrong) {
		return nil, b.problems
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
	wrong      map[schema.Place]bool // components that aren't built; see Pipeline.wrong
	using      []string              // the named step lists that are being inlined
	batch      bool                  // the steps at hand get whole batches
	inner      bool                  // the steps at hand are inside another
	lanes      bool                  // the steps at hand are the pipeline's own
	built      []string              // the types of all steps so far
	full       bool                  // the uses of named lists come to too much
	conditions int                   // under which the steps at hand run
	states     []stateful

	returning []*OnFailure // those that say `return`
	retries   []*Retry     // all that are configured
}

func (b *builder) report(at schema.Place, code, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: code, Message: message, Remedy: remedy})
}

func (b *builder) build() *Plan {
	e := &b.spec.Engine
	b.plan = &Plan{
		Name: b.spec.Name, log: b.env.Log, secrets: b.options.Secrets, pauses: newPauses(), drained: make(chan struct{}), replaced: make(chan struct{}),
		workers:     cmp.Or(e.Workers, runtime.GOMAXPROCS(0)),
		maxMessages: cmp.Or(e.MaxInFlight.Messages, 10_000),
		maxBytes:    int(cmp.Or(e.MaxInFlight.Bytes, 64<<20)),
		drain:       cmp.Or(e.Drain.Timeout, 25*time.Second),
	}
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
		spec := Middlewares.Lookup(name)
		if spec == nil {
			continue
		}
		m, err := spec.Build(nil, b.named(name))
		b.failed(b.spec.Engine.Place, err)
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
			b.orderly("output", e.Key, s.Place, out)
			if q, ok := out.(Sequential); ok {
				o.sequential = q.Sequential()
			}
			if c, ok := out.(*compositeOutput); ok {
				o.route = &routePlan{compositeOutput: *c}
			} else {
				b.plan.plugins = append(b.plan.plugins, part{"output " + e.Key, out})
			}
		}
		b.limited(o.limit, "output "+e.Key, func(keyed Steps) { o.steps = b.assembleBatch(append(keyed, s.Processors...)) })
		b.plan.outputs = append(b.plan.outputs, o)
	}
}

func (b *builder) timeout() time.Duration { return cmp.Or(b.spec.Engine.Timeout, 30*time.Second) }

// policy resolves an on_failure.
func (b *builder) policy(f *OnFailure) policy {
	p := policy{then: thens[f.Then]}
	if f.DeadLetter != "" {
		p.deadLetter = b.plan.output(f.DeadLetter)
		if p.then == thenDefault {
			p.then = thenDeadLetter
		}
	}
	if p.then == thenDeadLetter && p.deadLetter == nil {
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
			if len(in.inputs) == 0 {
				continue // it is wrong itself
			}
			switch in.takes {
			case TakesNothing:
				b.report(f.Place, "cannot-return", fmt.Sprintf("input %s takes nothing back, so failed messages can't return to it", in.name), "write `then: drop`, `stop`, or name a `dead_letter`")
			case TakesPosition:
				b.report(f.Place, "cannot-return", fmt.Sprintf("input %s keeps a position, so single messages can't return to it", in.name), "write `then: stop`, or name a `dead_letter`")
			}
		}
	}
}

func (p *Plan) output(name string) *outputPlan {
	i := slices.IndexFunc(p.outputs, func(o *outputPlan) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return p.outputs[i]
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
				b.plan.plugins = append(b.plan.plugins, part{"batcher " + e.Key, plugin})
			}
		}
		for _, name := range s.Output {
			if o := b.plan.output(name); o != nil {
				p.outputs = append(p.outputs, o)
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
	members := membersOf(b.spec.Outputs)
	normal := slices.DeleteFunc(slices.Clone(b.plan.outputs), func(o *outputPlan) bool { return dead[o.name] || members[o.name] })
	return normal
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
			p.learn(in)
			b.plan.plugins = append(b.plan.plugins, part{"input " + e.Key, in})
			if env.Index == 0 {
				b.orderly("input", e.Key, s.Place, in)
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

// errReported says that what went wrong has been reported already.
var errReported = errors.New("inner steps are wrong")

func (b *builder) failed(at schema.Place, err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	b.report(at, "bad-config", err.Error(), "")
}
