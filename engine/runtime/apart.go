package runtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/life"
	"github.com/flowd-io/flowd/engine/internal/stage"
	"github.com/flowd-io/flowd/engine/internal/steps"
	"github.com/flowd-io/flowd/schema"
)

// noTimeout is for steps whose calls have their own deadlines.
const noTimeout = 100 * 365 * 24 * time.Hour

// patient sets the timeout of a step that retries by itself.
func (b *builder) patient(s *engine.StepSpec, o *steps.Op) {
	switch {
	case s.Timeout == 0:
		o.Timeout = noTimeout
	case !b.batch && !b.inner: // the step parks its messages
		b.problems = append(b.problems, schema.Problem{Pos: s.Place.Pos, Path: s.Place.Path, Code: "own-timeout",
			Warning: true,
			Message: fmt.Sprintf("`timeout` beside %s has no effect: %[1]s has its own, for each attempt", s.Use.Name),
			Remedy:  fmt.Sprintf("write it inside `%s`", s.Use.Name)})
	}
}

// Apart are steps that run outside of a pipeline.
type Apart struct {
	engine.Runner
	plan *Plan
}

// BuildApart builds steps that run outside of a pipeline, over whole batches or over single messages. timeout is for steps
// without their own. It returns all problems; the steps can be used if there are none.
func BuildApart(s engine.Steps, env engine.Env, whole bool, timeout time.Duration) (*Apart, []schema.Problem) {
	b := &builder{uses: map[string]int{}, spec: &engine.Pipeline{Engine: engine.EngineSpec{Timeout: timeout}},
		plan: newPlan(&stage.Layout{Plugins: life.Plugins{Log: env.Log}}), inner: true, batch: whole}
	env.Log = cmp.Or(env.Log, slog.New(slog.DiscardHandler))
	env = env.In(inside.Key{}, host{b})
	b.env, b.options = env, Options{Log: env.Log, Shared: env.Shared, Secrets: env.Secrets}
	a := &Apart{&steps.Runner{Prog: b.assemble(s)}, b.plan}
	return a, b.problems
}

// Open opens the steps. Even after an error, Close must be called.
func (a *Apart) Open(ctx context.Context) error { return a.plan.Plugins.Open(ctx) }

// Close closes the steps that were opened.
func (a *Apart) Close(ctx context.Context) error {
	never := func(any) bool { return false }
	return a.plan.Plugins.Close(ctx, never, never)
}
