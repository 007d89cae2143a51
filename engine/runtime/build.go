package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/rules"
	"github.com/flowd-io/flowd/engine/internal/stage"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// Options are the resources and settings that a process gives to its pipelines.
type Options struct {
	Log    *slog.Logger
	Shared *engine.Shared                         // nil: the pipeline shares nothing
	Caches map[string]engine.Plugin[engine.Cache] // resources.caches
	Prints map[string]string                      // by "caches.NAME" and so on: resources with different texts are not shared
	Limits map[string]engine.RateLimit            // resources.rate_limits

	Registries map[string]func(engine.Env) engine.SchemaRegistry // resources.registries; the functions do no I/O

	Tables map[string]Resource // resources.tables: opened before all plugins, closed after them

	Hooks     []engine.Hook     // get the events of all pipelines
	Observers []engine.Observer // see their messages
	Tracer    engine.Tracer     // follows some of their messages; nil: none does
	Reads     *engine.Reads     // of the process

	Secrets *schema.Secrets // masked in errors

	Known []schema.Problem // problems found before: components with a known error are not built

	Instead *Plan                        // the plan that the new one will replace; see Plan.Replace
	Same    func(kind, name string) bool // whether an "input" or "output" is configured as in Instead
}

// Resource is a part of a process that pipelines share. The first one opens it, the last one closes it.
type Resource interface {
	engine.Opener
	engine.Closer
}

// These codes are for problems that only building can find; package rules has the others.
func init() {
	schema.AddCode("bad-config", "A plugin can't be built with this configuration.")
	schema.AddCode("batch-only", "A step that works on whole batches is in a place without batches.")
	schema.AddCode("group-place", "A group is in a place where its messages can't wait for each other.")
	schema.AddCode("own-timeout", "A timeout is set on a step that has its own.")
	schema.AddCode("cannot-return", "Failed messages should be returned to a source that can't take them back.")
}

// Build makes a plan and reports all problems. If one of them, or a known one, is an error, the plan is nil. Build does no
// I/O.
func Build(p *engine.Pipeline, o Options) (*Plan, []schema.Problem) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Shared == nil {
		o.Shared = &engine.Shared{}
	}
	given := &rules.Given{Caches: o.Caches, Limits: o.Limits}
	b := &builder{spec: p, options: o, uses: map[string]int{}, problems: rules.All(p, given)}
	b.wrong = rules.Wrong(p, given, slices.Concat(o.Known, b.problems))
	b.env = engine.Env{Log: o.Log.With("pipeline", p.Name), Shared: o.Shared, Secrets: o.Secrets, Pipeline: p.Name,
		Reads: o.Reads, ExactlyOnce: p.Engine.ExactlyOnce,
		Ordered: !p.Engine.OrderBy.IsZero() && !p.Engine.Unordered()}.In(inside.Key{}, host{b})
	plan := b.build()
	fails := func(k schema.Problem) bool { return rules.Fails(p, k) }
	wrong := func(p schema.Problem) bool { return !p.Warning }
	if slices.ContainsFunc(o.Known, fails) || slices.ContainsFunc(b.problems, wrong) {
		return nil, b.problems
	}
	return plan, b.problems
}

// builder turns a Pipeline into a Plan and collects problems.
type builder struct {
	spec       *engine.Pipeline
	options    Options
	env        engine.Env
	plan       *Plan
	problems   []schema.Problem
	wrong      map[schema.Place]bool // components that aren't built; see rules.Wrong
	of         string                // the component that the present steps belong to; "": the pipeline
	within     string                // prefix of the names of steps: the use of a list that they are in
	uses       map[string]int        // how often each named list is used
	batch      bool                  // the present steps get whole batches
	inner      bool                  // the present steps are inside another
	away       bool                  // the present steps run in another process
	lanes      bool                  // the present steps are the pipeline's own
	apart      bool                  // messages of a key must go through the pipeline's own steps one by one
	built      []string              // the types of all steps so far
	conditions int                   // how many conditions guard the present steps
	states     []stateful
	undoes     bool // the present step, or one inside it, has stakes that can be undone

	returning []*engine.OnFailure // on_failures with `then: return`
	retries   []*engine.Retry     // all that are configured
}

func (b *builder) report(at schema.Place, code, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: code, Message: message,
		Remedy: remedy})
}

func (b *builder) build() *Plan {
	e := &b.spec.Engine
	b.plan = newPlan(&stage.Layout{
		Name: b.spec.Name, Counters: engine.CountersOf(b.env.Shared, b.spec.Name), Log: b.env.Log, Secrets: b.options.Secrets,
		Pauses:      life.NewPauses(),
		Plugins:     life.Plugins{Log: b.env.Log, Secrets: b.options.Secrets},
		Workers:     cmp.Or(e.Workers, runtime.GOMAXPROCS(0)),
		MaxMessages: cmp.Or(e.MaxInFlight.Messages, 10_000),
		MaxBytes:    int(cmp.Or(e.MaxInFlight.Bytes, 64<<20)),
		DrainTime:   cmp.Or(e.Drain.Timeout, 25*time.Second),
	})
	if b.options.Instead != nil {
		b.plan.Pauses = b.options.Instead.Pauses // paused stays paused
		b.plan.before = b.options.Instead
	}
	if !e.OrderBy.IsZero() && !e.Unordered() {
		b.plan.OrderBy, b.plan.Ordered = &e.OrderBy, true
	}
	b.plan.Hooks, b.plan.Timeout = allHooks(b.options.Hooks), b.timeout()
	b.plan.Tracer = b.options.Tracer
	b.plan.Observers, b.plan.End = b.options.Observers, b.spot(engine.Spot{Kind: engine.EndSpot})
	b.plan.MaxReplay = cmp.Or(e.MaxReplay, 10*b.plan.MaxMessages)
	b.plan.ExactlyOnce, b.plan.Untraced = e.ExactlyOnce, e.TraceContext != nil && !*e.TraceContext
	b.plan.Restart = e.Restart
	b.plan.Restart.Backoff = cmp.Or(e.Restart.Backoff, time.Second)
	b.plan.Restart.MaxBackoff = max(b.plan.Restart.Backoff, cmp.Or(e.Restart.MaxBackoff, 30*time.Second))
	b.plan.Limit = b.limit(e.RateLimit, "engine")
	for _, name := range slices.Sorted(maps.Keys(b.options.Tables)) {
		b.plan.Plugins.Add("table "+name, b.options.Tables[name])
	}
	b.middleware()
	b.outputs()
	b.routes()
	b.plan.Failure = b.policy(&e.OnFailure.OnFailure)
	for i, o := range b.spec.Outputs.Entries() {
		if f := o.Value.OnFailure; f != nil && i < len(b.plan.Outputs) {
			own := b.policy(f)
			b.plan.Outputs[i].Failure = &own
		}
	}
	b.batchers()
	b.limited(b.plan.Limit, "engine", b.own)
	b.inputs()
	b.feeds()
	b.returns()
	b.intervals()
	b.apartness()
	b.serial()
	b.plan.Turns = b.plan.Ordered && !b.apart && len(b.plan.Middleware) == 0
	return b.plan
}

// feeds marks the outputs that get other messages than dead letters.
func (b *builder) feeds() {
	for _, r := range b.plan.Batchers {
		for _, o := range r.Outputs {
			for _, leaf := range o.Leaves() {
				leaf.Feeds = true
			}
		}
	}
}

// middleware resolves engine.middleware.
func (b *builder) middleware() {
	for _, name := range b.spec.Engine.Middleware {
		spec := engine.Middlewares.Lookup(name)
		if spec == nil {
			continue
		}
		m, err := spec.Build(nil, b.named(name))
		b.failed(b.spec.Engine.Place, err)
		if err == nil {
			b.plan.Middleware = append(b.plan.Middleware, m)
		}
	}
}

func (b *builder) outputs() {
	for _, e := range b.spec.Outputs.Entries() {
		s := e.Value
		b.of = "output " + e.Key
		o := &stage.OutputPlan{
			Name: e.Key, Concurrency: max(1, int(s.Concurrency)),
			Spot:    b.spot(spotOf(engine.OutputSpot, e.Key, s.Use)),
			Timeout: cmp.Or(s.Timeout, b.timeout()),
			Retry:   b.retry(s.Retry), Type: s.Use.Name,
			Limit: b.limit(s.RateLimit, "output "+e.Key),
		}
		if s.Concurrency == engine.Auto {
			o.Concurrency, o.Auto = stage.MostAuto, true
		}
		o.Breaker = *cmp.Or(s.Breaker, &engine.Breaker{Failures: 10})
		o.Breaker.Backoff = cmp.Or(o.Breaker.Backoff, time.Second)
		o.Breaker.MaxBackoff = max(o.Breaker.Backoff, cmp.Or(o.Breaker.MaxBackoff, 30*time.Second))
		o.Rebuild = func() (engine.Output, error) { return s.Use.Build(b.named(e.Key)) }
		out, same := adopt[engine.Output](b, "output", e.Key, 0)
		var err error
		if !same {
			out, err = s.Use.Build(b.named(e.Key))
			b.failed(s.Use.Place, err)
		}
		if err == nil {
			o.Out = out
			t := engine.TraitsOf(out)
			b.orderly("output", e.Key, s.Place, t.OrderBy)
			o.Sequential, o.Bulk = t.Sequential, t.Bulk
			if c, ok := out.(engine.Route); ok {
				o.Route = &stage.RoutePlan{Route: c}
			} else {
				b.plan.Plugins.Add("output "+e.Key, out)
			}
		}
		b.limited(o.Limit, "output "+e.Key,
			func(keyed engine.Steps) { o.Steps = b.assembleBatch(append(keyed, s.Processors...)) })
		b.plan.Outputs = append(b.plan.Outputs, o)
	}
}

func (b *builder) timeout() time.Duration { return cmp.Or(b.spec.Engine.Timeout, 30*time.Second) }

func (b *builder) stepTimeout() time.Duration {
	return cmp.Or(b.spec.Defaults.Processors.Timeout, b.timeout())
}

// policy resolves an on_failure.
func (b *builder) policy(f *engine.OnFailure) stage.Policy {
	var dead *stage.OutputPlan
	if f.DeadLetter != "" {
		dead = b.plan.Output(f.DeadLetter)
	}
	p := stage.NewPolicy(f.Then, dead, b.plan.Failure.DeadLetter)
	if p.Then != nil && p.Then.TakenBack {
		b.returning = append(b.returning, f)
	}
	return p
}

// returns checks that sources can take back messages that are returned to them.
func (b *builder) returns() {
	for _, f := range b.returning {
		for _, in := range b.plan.Inputs {
			if len(in.Inputs) == 0 {
				continue // the input could not be built
			}
			switch in.Takes {
			case engine.TakesNothing:
				b.report(f.Place, "cannot-return",
					fmt.Sprintf("the source of input %s can't take messages back, so failed messages can't be returned", in.Name),
					"write `then: drop`, `stop`, or name a `dead_letter`")
			case engine.TakesPosition:
				b.report(f.Place, "cannot-return",
					fmt.Sprintf("the source of input %s keeps a position, so single messages can't be returned", in.Name),
					"write `then: stop`, or name a `dead_letter`")
			}
		}
	}
}

// batchers resolves the batchers. Without batchers, all messages go to the only output that is not for dead letters.
func (b *builder) batchers() {
	for _, e := range b.spec.Tried() {
		s := e.Value
		b.of = "batcher " + e.Key
		p := &stage.BatcherPlan{Name: e.Key, GoesOn: s.Continue, Concurrency: s.Concurrency,
			Steps: b.assembleBatch(s.Processors), Spot: b.spot(spotOf(engine.BatcherSpot, e.Key, s.Use))}
		if !s.Match.IsZero() {
			p.Match = &s.Match
		}
		if !s.Key.IsZero() {
			p.Key = &s.Key
		}
		switch {
		case s.Use.Name == "" && p.Key != nil:
			p.Batcher = stage.Keyed{}
		case s.Use.Name != "":
			plugin, err := s.Use.Build(b.named(e.Key))
			b.failed(s.Use.Place, err)
			p.Batcher = plugin
			if err == nil {
				b.plan.Plugins.Add("batcher "+e.Key, plugin)
			}
		}
		p.Outputs = b.outputsOf(s.Output)
		b.plan.Batchers = append(b.plan.Batchers, p)
	}
	if b.spec.Batchers.Len() == 0 {
		b.plan.Batchers = []*stage.BatcherPlan{{Steps: &steps.Program{}, Outputs: b.outputsOf(b.spec.Unbatched())}}
	}
}

// outputsOf returns the outputs with these names that there are.
func (b *builder) outputsOf(names []string) (found []*stage.OutputPlan) {
	for _, name := range names {
		if o := b.plan.Output(name); o != nil {
			found = append(found, o)
		}
	}
	return found
}

func (b *builder) inputs() {
	for _, e := range b.spec.Inputs.Entries() {
		s := e.Value
		b.of = "input " + e.Key
		p := &stage.InputPlan{Name: e.Key, Type: s.Use.Name, Spot: b.spot(spotOf(engine.InputSpot, e.Key, s.Use)),
			Limit: b.limit(s.RateLimit, "input "+e.Key)}
		b.limited(p.Limit, "input "+e.Key,
			func(keyed engine.Steps) { p.Steps = b.assemble(append(keyed, s.Processors...)) })
		env := b.named(e.Key)
		env.Instances, env.Hands = max(1, s.Concurrency), b.hands()
		env.MaxReplay, env.MaxBytes = b.plan.MaxReplay, b.plan.MaxBytes
		b.counted(&s, env)
		for env.Index = range env.Instances {
			in, same := adopt[engine.Input](b, "input", e.Key, env.Index)
			if p.Adopted = same; !same {
				var err error
				in, err = s.Use.Build(env)
				b.failed(s.Use.Place, err)
				if err != nil {
					break
				}
			}
			if _, lists := in.(engine.Lister); lists {
				b.report(s.Use.Place, "bad-config", "a pattern matches any number of queues, but an input reads one",
					"name one queue, or make it a source of an input `poll`")
				break
			}
			p.Inputs = append(p.Inputs, in)
			t := engine.TraitsOf(in)
			setTraits(p, t)
			b.plan.Plugins.Add("input "+e.Key, in)
			if env.Index == 0 {
				b.orderly("input", e.Key, s.Place, t.OrderBy)
			}
		}
		b.plan.Inputs = append(b.plan.Inputs, p)
	}
}

func (b *builder) named(name string) engine.Env {
	env := b.env
	env.Name, env.Log, env.Pipeline = name, env.Log.With("name", name), b.spec.Name
	return env
}

// spot returns a place that messages pass, or nil if nobody observes them.
func (b *builder) spot(s engine.Spot) *engine.Spot {
	if len(b.options.Observers) == 0 && b.options.Tracer == nil {
		return nil
	}
	s.Pipeline, s.Untraced = b.spec.Name, b.plan.Untraced
	return &s
}

func spotOf[T any](kind engine.SpotKind, name string, use engine.Plugin[T]) engine.Spot {
	return engine.Spot{Kind: kind, Name: name, Type: use.Name, Config: use.Config, Place: use.Place}
}

func (b *builder) failed(at schema.Place, err error) {
	if err == nil || errors.Is(err, inside.ErrReported) {
		return
	}
	b.report(at, "bad-config", err.Error(), "")
}

func newPlan(l *stage.Layout) *Plan {
	return &Plan{Layout: l, drained: make(chan struct{}), replaced: make(chan struct{}), yields: make(chan struct{}),
		ended: make(chan struct{})}
}

// routes resolves the members of composites, once all outputs are known.
func (b *builder) routes() {
	for i, e := range b.spec.Outputs.Entries() {
		o, at := b.plan.Outputs[i], e.Value.Use.Place
		if o.Route == nil {
			continue
		}
		members := engine.TraitsOf(e.Value.Use.Config).Members
		o.Route.Members = b.outputsOf(members)
		if len(members) == 0 {
			b.report(at, "no-output", "no output is named here", "name at least one of `outputs`")
		}
	}
	for _, o := range b.plan.Outputs {
		if o.Route != nil && o.LeadsTo(o, nil) {
			o.Route.Members = nil // it is reported
		}
	}
}
