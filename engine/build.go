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
	Shared *Shared          // nil: of this pipeline alone
	Steps  map[string]Steps // resources.steps
}

// The codes of what only building can find; config has those of whole files.
func init() {
	schema.AddCode("bad-config", "A plugin can't be built with this configuration.")
	schema.AddCode("batch-only", "A step that works on whole batches stands where there is none.")
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
	b.env = Env{Log: o.Log.With("pipeline", p.Name), Shared: o.Shared, builder: b}
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
	spec     *Pipeline
	options  Options
	env      Env
	plan     *Plan
	problems []schema.Problem
	using    []string // the named step lists that are being inlined
	batch    bool     // the steps at hand get whole batches
}

func (b *builder) report(at schema.Place, code, message, remedy string) {
	b.problems = append(b.problems, schema.Problem{Pos: at.Pos, Path: at.Path, Code: code, Message: message, Remedy: remedy})
}

func (b *builder) build() *Plan {
	e := &b.spec.Engine
	b.plan = &Plan{
		Name: b.spec.Name, log: b.env.Log,
		workers:     cmp.Or(e.Workers, runtime.GOMAXPROCS(0)),
		maxMessages: cmp.Or(e.MaxInFlight.Messages, 10_000),
		maxBytes:    int(cmp.Or(e.MaxInFlight.Bytes, 64<<20)),
		drain:       cmp.Or(e.Drain.Timeout, 25*time.Second),
	}
	if !e.OrderBy.IsZero() {
		b.plan.orderBy, b.plan.ordered = &e.OrderBy, true
	}
	b.outputs()
	b.plan.failure = b.policy(&e.OnFailure.OnFailure)
	for i, o := range b.spec.Outputs.Entries() {
		if f := o.Value.OnFailure; f != nil && i < len(b.plan.outputs) {
			own := b.policy(f)
			b.plan.outputs[i].failure = &own
		}
	}
	b.batchers()
	b.plan.steps = b.assemble(b.spec.Processors)
	b.inputs()
	return b.plan
}

func (b *builder) outputs() {
	for _, e := range b.spec.Outputs.Entries() {
		s := e.Value
		o := &outputPlan{
			name: e.Key, concurrency: max(1, int(s.Concurrency)),
			timeout: cmp.Or(s.Timeout, b.timeout()),
		}
		out, err := s.Use.Build(b.named(e.Key))
		b.failed(s.Use.Place, err)
		if err == nil {
			o.out = out
			if q, ok := out.(Sequential); ok {
				o.sequential = q.Sequential()
			}
			b.plan.plugins = append(b.plan.plugins, part{"output " + e.Key, out})
		}
		o.steps = b.assembleBatch(s.Processors)
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
		for _, in := range b.spec.Inputs.Entries() {
			b.canReturn(f, in.Key, in.Value)
		}
	}
	return p
}

func (b *builder) canReturn(f *OnFailure, name string, s InputSpec) {
	in, err := s.Use.Build(b.named(name))
	if err != nil {
		return // reported where inputs are built
	}
	switch takes(in) {
	case TakesNothing:
		b.report(f.Place, "cannot-return", fmt.Sprintf("input %s takes nothing back, so failed messages can't return to it", name), "write `then: drop`, `stop`, or name a `dead_letter`")
	case TakesPosition:
		b.report(f.Place, "cannot-return", fmt.Sprintf("input %s keeps a position, so single messages can't return to it", name), "write `then: stop`, or name a `dead_letter`")
	}
}

func takes(in Input) TakesBack {
	if r, ok := in.(Returner); ok {
		return r.TakesBack()
	}
	return TakesNothing
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
		p := &batcherPlan{name: e.Key, goesOn: s.Continue, steps: b.assembleBatch(s.Processors)}
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
	normal := slices.DeleteFunc(slices.Clone(b.plan.outputs), func(o *outputPlan) bool { return dead[o.name] })
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
		p := &inputPlan{name: e.Key, steps: b.assemble(s.Processors)}
		env := b.named(e.Key)
		env.Instances = max(1, s.Concurrency)
		for env.Index = range env.Instances {
			in, err := s.Use.Build(env)
			b.failed(s.Use.Place, err)
			if err != nil {
				break
			}
			p.inputs = append(p.inputs, in)
			p.then = map[TakesBack]then{TakesNothing: thenDrop, TakesOne: thenReturn, TakesPosition: thenStop}[takes(in)]
			if f, ok := in.(Follower); ok {
				p.follows = f.Follows() != ""
			}
			b.plan.plugins = append(b.plan.plugins, part{"input " + e.Key, in})
		}
		b.plan.inputs = append(b.plan.inputs, p)
	}
}

func (b *builder) named(name string) Env {
	env := b.env
	env.Name, env.Log = name, env.Log.With("name", name)
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

func (b *builder) assembleBatch(steps Steps) *program {
	b.batch = true
	defer func() { b.batch = false }()
	return b.assemble(steps)
}

func (b *builder) assemble(steps Steps) *program {
	p := &program{}
	b.steps(p, steps)
	return p
}

func (b *builder) steps(p *program, steps Steps) {
	for i := range steps {
		b.step(p, &steps[i])
	}
}

// step appends the instructions of a step; those of its cases and repairs lie
// behind it and jump over each other.
func (b *builder) step(p *program, s *StepSpec) {
	if s.Use.Name == "" {
		return // the decoder has reported it
	}
	at := len(p.ops)
	o := op{name: cmp.Or(s.Name, s.Use.Name), timeout: cmp.Or(s.Timeout, b.timeout())}
	if !s.When.IsZero() {
		o.when = &s.When
	}
	plugin, err := s.Use.Build(b.named(o.name))
	b.failed(s.Use.Place, err)
	if batchOnly[s.Use.Name] && !b.batch {
		b.report(s.Use.Place, "batch-only", s.Use.Name+" works on whole batches", "write it under `processors` of a batcher or an output")
	}
	p.ops = append(p.ops, o)
	switch plugin := plugin.(type) {
	case *switchStep:
		b.flat(s)
		for i := range plugin.cases {
			c := &plugin.cases[i]
			br := branch{to: int32(len(p.ops))}
			if !c.When.IsZero() {
				br.when = &c.When
			}
			p.ops[at].cases = append(p.ops[at].cases, br)
			b.steps(p, c.Do)
			p.ops = append(p.ops, op{next: -1})
		}
	case *useStep:
		b.flat(s)
		p.ops[at].cases = []branch{{to: int32(at + 1)}}
		b.inline(p, plugin)
	default:
		p.ops[at].run = plugin
		if err == nil {
			b.plan.plugins = append(b.plan.plugins, part{"step " + o.name, plugin})
		}
		b.onError(p, at, s)
	}
	for i := at; i < len(p.ops); i++ { // the end is known now
		if o := &p.ops[i]; i == at || o.next < 0 {
			o.next = int32(len(p.ops))
		}
	}
}

// flat refuses what makes no sense on a step that is only a place for others.
func (b *builder) flat(s *StepSpec) {
	if s.OnError.Then != "" || s.OnError.Steps != nil {
		b.report(s.Place, "bad-value", fmt.Sprintf("`on_error` of %s would never be asked: the steps inside fail, not %s", s.Use.Name, s.Use.Name), "write it on the steps inside")
	}
}

func (b *builder) onError(p *program, at int, s *StepSpec) {
	switch {
	case s.OnError.Steps != nil:
		p.ops[at].onError, p.ops[at].repair = repairs, int32(len(p.ops))
		b.steps(p, s.OnError.Steps)
		p.ops = append(p.ops, op{next: -1, forget: true})
	case s.OnError.Then == "continue":
		p.ops[at].onError = continues
	case s.OnError.Then == "drop":
		p.ops[at].onError = drops
	}
}

func (b *builder) inline(p *program, use *useStep) {
	steps, ok := b.options.Steps[use.name]
	switch {
	case !ok:
		b.report(use.at, "unknown-steps", fmt.Sprintf("there are no steps named %q", use.name), "define them under `resources.steps`")
	case slices.Contains(b.using, use.name):
		b.report(use.at, "steps-cycle", fmt.Sprintf("steps %q contain themselves", use.name), "break the cycle")
	default:
		b.using = append(b.using, use.name)
		b.steps(p, steps)
		b.using = b.using[:len(b.using)-1]
	}
}

// Build makes an instance of the plugin.
func (p *Plugin[T]) Build(env Env) (T, error) {
	if p.make != nil {
		return p.make(env)
	}
	var none T
	spec := registryOf[T]().Lookup(p.Name)
	if spec == nil {
		return none, errReported
	}
	return spec.Build(p.Config, env)
}
