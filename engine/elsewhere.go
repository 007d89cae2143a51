package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Provenance is what expressions know of a message beside its payload and metadata, for
// what runs steps over it in another process.
type Provenance struct {
	Input      string
	ReceivedAt time.Time
	Attempt    int    // the source's count of deliveries; 0 is unknown
	BatchKey   string // see Message.BatchKey
	Err        *Error // of a dead letter; else nil
	Batch      *Likeness
}

// Likeness is what expressions know of a batch that a batcher made.
type Likeness struct {
	Batcher string
	Trigger Trigger
	Size    int // messages when it left its batcher
	Window  *Window
}

// Provenance says where m is from.
func (m *Message) Provenance() Provenance {
	o := Provenance{Input: m.Input(), ReceivedAt: m.ReceivedAt(), Attempt: m.Attempt, BatchKey: m.batchKey, Err: m.err}
	if b := m.batch; b != nil {
		o.Batch = &Likeness{Trigger: b.trigger, Size: b.size, Window: b.window}
		if b.batcher != nil {
			o.Batch.Batcher = b.batcher.name
		}
	}
	return o
}

// AddFrom is Add for a message that comes from elsewhere, to a batch for inner steps.
func (b *Batch) AddFrom(body []byte, o Provenance) *Message {
	m := b.Add(body)
	m.Attempt, m.batchKey, m.err = o.Attempt, o.BatchKey, o.Err
	m.root.led = &ledger{input: o.Input, at: o.ReceivedAt}
	if l := o.Batch; l != nil {
		b.trigger, b.size, b.window, b.batcher = l.Trigger, l.Size, l.Window, &batcherPlan{name: l.Batcher}
		m.batch = b
	}
	return m
}

// Parts yields the Refs of the messages of a batch for inner steps that m was made
// of, or its own: what the steps have merged has Ref 0, what was merged before them
// has not.
func (m *Message) Parts() iter.Seq[uint64] {
	return func(yield func(uint64) bool) { m.eachPart(yield) }
}

func (m *Message) eachPart(yield func(uint64) bool) bool {
	if m.Ref != 0 || len(m.of) == 0 {
		return yield(m.Ref)
	}
	for i := range m.of {
		if !m.of[i].eachPart(yield) {
			return false
		}
	}
	return true
}

// noTimeout is for steps whose calls have deadlines of their own.
const noTimeout = 100 * 365 * 24 * time.Hour

// patient gives a step that tries again by itself the time for that.
func (b *builder) patient(s *StepSpec, o *op) {
	switch {
	case s.Timeout == 0:
		o.timeout = noTimeout
	case !b.batch && !b.inner: // its messages park
		b.problems = append(b.problems, schema.Problem{Pos: s.Place.Pos, Path: s.Place.Path, Code: "own-timeout", Warning: true,
			Message: fmt.Sprintf("`timeout` beside %s is never reached: it has one of its own, for each try", s.Use.Name), Remedy: fmt.Sprintf("write it inside `%s`", s.Use.Name)})
	}
}

// Check reports what is wrong with inner steps that are to run in another process,
// and names the types of all of them; nothing of them is opened here.
func (s Steps) Check(env Env) (types []string, err error) {
	if b := env.builder; b != nil {
		defer func(p *Plan) { b.plan = p }(b.plan)
		b.plan = &Plan{}
	}
	_, types, err = s.BuildNamed(env)
	return types, err
}

// BuildNamed is Build that also names the types of all steps.
func (s Steps) BuildNamed(env Env) (r *Runner, types []string, err error) {
	b := env.builder
	if b == nil {
		r, err = s.Build(env)
		return r, nil, err
	}
	before := len(b.built)
	r, err = s.Build(env)
	return r, slices.Clone(b.built[before:]), err
}

// Apart are steps that run outside of a pipeline.
type Apart struct {
	*Runner
	plan *Plan
}

// Apart builds steps that run outside of a pipeline: over whole batches, or over
// messages each for itself. timeout is that of steps which have none of their own.
func (s Steps) Apart(env Env, whole bool, timeout time.Duration) (*Apart, []schema.Problem) {
	b := &builder{spec: &Pipeline{Engine: EngineSpec{Timeout: timeout}}, plan: &Plan{replaced: make(chan struct{})}, inner: true, batch: whole}
	env.builder, env.Log = b, cmp.Or(env.Log, slog.New(slog.DiscardHandler))
	b.env, b.options = env, Options{Log: env.Log, Shared: env.Shared, Secrets: env.Secrets}
	a := &Apart{&Runner{prog: b.assemble(s)}, b.plan}
	return a, b.problems
}

// Open opens the steps; those that were opened before an error are to be closed.
func (a *Apart) Open(ctx context.Context) error { return a.plan.open(ctx) }

// Close closes what was opened.
func (a *Apart) Close(ctx context.Context) error { return a.plan.close(ctx) }
