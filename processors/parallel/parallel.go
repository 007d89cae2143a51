// Package parallel is the processor `parallel`: it runs several lists of steps on a message at the same time, and
// merges their changes. Its config maps names to lists of steps.
package parallel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/inner"
	"github.com/flowd-io/flowd/schema"
)

const help = `
Runs branches of steps at the same time and merges their changes. Each branch works on
a copy of the message; the fields that it has set, replaced or removed, its metadata
and its vars are applied in the order in which the branches are written. Use it for
steps that wait, such as calls.

    - parallel:
        tax:
          - set: {tax: total * 0.2}
        customer:
          - set: {customer.vip: total > 1000}

Objects are merged field by field, to 32 levels. If two branches change the same field,
array or scalar, or a payload that is not an object, the later one wins. A branch that
drops the message adds nothing. If a branch fails, the message fails, and stays as it
was. A branch can't split or merge messages.
`

func init() {
	engine.Register(engine.Processors, "parallel", help, schema.Map[engine.Steps]{}, build)
}

func build(c schema.Map[engine.Steps], env engine.Env) (engine.Processor, error) {
	if c.Len() == 0 {
		return nil, errors.New("parallel needs at least one branch (write `parallel: {NAME: [steps]}`)")
	}
	p := &parallel{}
	var failed error
	for name, steps := range c.All() {
		if len(steps) == 0 {
			return nil, fmt.Errorf("branch %q has no steps (give it some, or remove it)", name)
		}
		run, err := steps.Build(env)
		if err != nil {
			failed = err // other branches may have errors, too
		}
		p.branches = append(p.branches, branch{name, run})
	}
	return p, failed
}

type parallel struct{ branches []branch }

type branch struct {
	name  string
	steps engine.Runner
}

// result is what a branch has made of the messages.
type result struct {
	copies   *engine.Batch
	err      error           // of all messages that did not fail by themselves
	outcomes []inner.Outcome // nil after a panic
}

// Process runs each branch in a goroutine, and waits for all of them.
func (p *parallel) Process(ctx context.Context, b *engine.Batch) error {
	of := slices.Collect(b.All())
	if len(of) == 0 {
		return nil
	}
	inner.Freeze(b)
	results := make([]result, len(p.branches))
	for i := range results {
		results[i].copies = inner.Copy(of)
	}
	var wg sync.WaitGroup
	for i := range p.branches {
		wg.Go(func() { results[i].run(ctx, p.branches[i].steps, len(of)) })
	}
	wg.Wait()
	for i, m := range of {
		if err := p.mergeInto(m, results, i); err != nil {
			m.Fail(err)
		}
	}
	return nil
}

// run runs the steps of a branch. It recovers panics: this goroutine has no caller that could.
func (r *result) run(ctx context.Context, steps engine.Runner, n int) {
	defer engine.Recovered(&r.err)
	r.err = steps.Run(ctx, r.copies)
	r.outcomes = inner.Outcomes(r.copies, n, "parallel")
}

// mergeInto merges the changes of all branches into the i-th message. If it fails, the message is unchanged.
func (p *parallel) mergeInto(m *engine.Message, results []result, i int) error {
	for n := range results {
		err := results[n].err
		if of := results[n].outcomes; of != nil && of[i].Err != nil {
			err = of[i].Err
		}
		if err != nil {
			return fmt.Errorf("branch %s: %w", p.branches[n].name, err)
		}
	}
	body, meta, vars := payloadOf(m), m.Meta, m.Vars()
	now := body
	for n := range results {
		live := results[n].outcomes[i].Live
		if live == nil {
			continue
		}
		if after := payloadOf(live); !inner.Same(body.text, after.text) {
			now = merge(now, body, after)
		}
		m.Meta = mergeMeta(m.Meta, meta, live.Meta)
		m.SetNotes(m.Notes().Join(live.Notes()))
		m.SetVars(mergeVars(m.Vars(), vars, live.Vars()))
	}
	inner.GiveBody(m, now.text)
	return nil
}
