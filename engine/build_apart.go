package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flowd-io/flowd/schema"
)

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

// NewRunner makes a Runner of processors, one after the other.
func NewRunner(steps ...Processor) *Runner {
	p := &program{}
	for i, s := range steps {
		p.ops = append(p.ops, op{run: s, next: int32(i + 1), timeout: time.Minute, figures: newStepFigures("", "")})
	}
	return &Runner{prog: p}
}
