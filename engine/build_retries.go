package engine

import (
	"cmp"
	"slices"
	"time"
)

// retry resolves what is configured for a step or an output.
func (b *builder) retry(own *Retry) *retryPlan {
	r := cmp.Or(own, b.spec.Engine.OnFailure.Retry, &defaultRetry)
	if !slices.Contains(b.retries, r) {
		b.retries = append(b.retries, r)
	}
	if all := b.spec.Engine.OnFailure.Retry; own != nil && all != nil {
		full := own.Over(*all)
		r = &full
	}
	p := retryPlan(*r)
	p.Backoff = cmp.Or(p.Backoff, defaultRetry.Backoff)
	p.MaxBackoff = max(p.Backoff, cmp.Or(p.MaxBackoff, defaultRetry.MaxBackoff))
	return &p
}

// defaultRetry is what holds where no retry is configured; its tags say the same.
var defaultRetry = Retry{MaxAttempts: 5, Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second}
