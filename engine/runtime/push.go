package runtime

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/stage"
)

// Push has an input read the messages of a batch, as if they came from its source, and waits for their fates. The input's
// own steps, rate limits, order_by and credits apply. A pause does not stop it. A message that the pipeline would hand back
// to its source ends as returned, with the reason; so does one that was not read because ctx, or the reading, has ended.
//
// It returns a result per message, in their order; nil: it was still in flight when ctx ended, or nobody knows its fate
// because the pipeline was killed. If a reload replaces the plan, messages continue in the next one. The error says why
// nothing was read at all. b must not change before Push returns, and messages of b keep their payloads even then. Push may
// be called at any time and from any goroutine.
func (p *Plan) Push(ctx context.Context, input string, b *engine.Batch) ([]*engine.Result, error) {
	r := p.current.Load()
	if r == nil {
		return nil, fmt.Errorf("pipeline %s is starting, and reads nothing yet", p.Name)
	}
	push := stage.NewPush(ctx, b)
	if err := r.Push(input, push); err != nil {
		return nil, err
	}
	for plan := p; ; plan = plan.next {
		select {
		case <-push.Done():
		case <-ctx.Done():
		case <-plan.ended:
			if plan.Replaced() {
				continue
			}
		}
		return push.Results(), nil
	}
}
