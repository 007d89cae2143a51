package runtime

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/retry"
)

// retry resolves what is configured for a step or an output.
func (b *builder) retry(own *engine.Retry) *retry.RetryPlan {
	r := cmp.Or(own, b.spec.Engine.OnFailure.Retry, &defaultRetry)
	if !slices.Contains(b.retries, r) {
		b.retries = append(b.retries, r)
	}
	if all := b.spec.Engine.OnFailure.Retry; own != nil && all != nil {
		full := own.Over(*all)
		r = &full
	}
	p := retry.RetryPlan(*r)
	p.Backoff = cmp.Or(p.Backoff, defaultRetry.Backoff)
	p.MaxBackoff = max(p.Backoff, cmp.Or(p.MaxBackoff, defaultRetry.MaxBackoff))
	return &p
}

// defaultRetry is what holds where no retry is configured; its tags say the same.
var defaultRetry = engine.Retry{MaxAttempts: 5, Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second}
